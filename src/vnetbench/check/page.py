"""The part of a page that a check adds before its campaigns."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.check.limits import PathLimit
from vnetbench.check.measurements import NO_DIRECTION
from vnetbench.check.result import CheckResult
from vnetbench.check.text import confidence_text, measurement_rows
from vnetbench.check.value_text import format_cell
from vnetbench.report.page.html import PagePreface
from vnetbench.report.page.sections import make_settings_section
from vnetbench.wording.factor_text import capitalize_sentence

_DIRECTIONS = ("forward", "reverse")


def make_preface(result: CheckResult) -> PagePreface:
    """Return the verdict, the measurements, the limits, the settings and the requirements."""
    path = result.path
    heading = ("Measurement", *(path.direction_name(each) for each in _DIRECTIONS))
    return PagePreface(
        title=f"Check of {path.direction_name('both')}",
        lead=" ".join(result.verdict),
        table=(heading, *_table_rows(result)),
        findings=[
            (_headline(limit), [text for text in (limit.evidence, limit.advice) if text], limit.fix_command)
            for limit in result.limits
        ],
        notes=[*_missing_notes(result), *result.notes],
        settings=make_settings_section(result.audit),
        requirements=[(each.requirement.text, each.verdict, each.reason) for each in result.requirements],
    )


def _headline(limit: PathLimit) -> str:
    return f"{capitalize_sentence(limit.description)}{confidence_text(limit)}."


def _table_rows(result: CheckResult) -> Iterator[tuple[str, ...]]:
    for label, row in measurement_rows(result.measurements):
        shared = row.get(NO_DIRECTION) or row.get("both")
        if shared is not None:
            yield (label, format_cell(shared), "")
        else:
            yield (label, *(format_cell(row[each]) if each in row else "" for each in _DIRECTIONS))


def _missing_notes(result: CheckResult) -> Iterator[str]:
    for each in result.missing:
        yield f"Not measured: {each.label}. Reason: {each.reason}."
