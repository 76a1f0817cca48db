"""Generate the page of causes from the rules. Run as a module, it writes the page to `docs/`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from vnetbench.explain.rules import (
    CAUSE_FAMILIES,
    DOUBLED_LEVEL,
    CauseRule,
    EvidenceCondition,
    EvidencePattern,
    load_rules,
)
from vnetbench.study.factors.registry import format_level
from vnetbench.study.model import Level

PAGE_FILE_NAME = "causes.md"

_PAGE_HEAD = """\
# Causes

`vnetbench explain` can name the causes on this page. Each cause has advice, the run that confirms it, its
evidence and a source. [explain.md](explain.md) describes how to read an explanation and how a cause is
scored. [evidence.md](evidence.md) describes the metrics.

- *Natural* causes are not faults: every unpaced run reaches one of them.
- `metric 75 → 95` means that the condition starts to hold at 75 and holds fully from 95. If the second
  number is smaller, small values fulfil the condition.
- The numbers are fitted to runs with injected causes ([explain.md](explain.md)). A source describes the
  cause and its symptoms, not these numbers.

This page is generated from the rules in `src/vnetbench/explain/causes/*.toml`
(`python -m vnetbench.explain.reference docs`).
"""
_TITLE_BY_FAMILY: Mapping[str, str] = {
    "failures": "Failed trials",
    "cpu": "CPU",
    "window": "Windows and latency",
    "packets": "Packets",
    "links": "Links",
    "teams": "Teams of links",
    "instability": "Instability",
    "instrument": "The instrument",
}


def causes_page() -> str:
    """Return the page in Markdown."""
    return "\n".join([_PAGE_HEAD, *(line for family in CAUSE_FAMILIES for line in _family_lines(family))])


def _family_lines(family: str) -> Iterator[str]:
    yield f"## {_TITLE_BY_FAMILY[family]}\n"
    for rule in load_rules().values():
        if rule.cause.family == family:
            yield from _rule_lines(rule)


def _rule_lines(rule: CauseRule) -> Iterator[str]:
    cause = rule.cause
    description = f"{cause.description[:1].upper()}{cause.description[1:]}."
    yield f"### {cause.name}\n"
    yield f"{description}{'' if cause.is_fault else ' *Natural.*'}\n"
    yield f"- Advice: {cause.advice}"
    if cause.experiment_levels:
        settings = ", or ".join(
            _format_setting(name, level) for name, level in cause.experiment_levels.items()
        )
        yield f"- A run with this setting confirms the cause: {settings}"
    if cause.family == "failures":
        yield "- Evidence: the failure's kind ([results-file.md](results-file.md)), and a probe of the path"
    elif not rule.has_patterns:
        yield "- Evidence: a comparison of trials or treatments, because no single trial shows this cause"
    for index, pattern in enumerate(rule.patterns):
        yield f"- {'Evidence' if index == 0 else 'Or'}: {_format_pattern(pattern)}"
    if rule.less_specific_causes:
        yield f"- This cause ranks before these less specific causes: {', '.join(rule.less_specific_causes)}"
    yield f"- Source: {cause.source}\n"


def _format_pattern(pattern: EvidencePattern) -> str:
    parts = []
    if pattern.requires:
        parts.append(", ".join(map(_format_condition, pattern.requires)))
    if pattern.alternatives:
        parts.append(f"one of {', '.join(map(_format_condition, pattern.alternatives))}")
    text = "; and ".join(parts)
    if pattern.contradicts:
        text += f"; contradicted by {', '.join(map(_format_condition, pattern.contradicts))}"
    return text


def _format_setting(name: str, level: Level) -> str:
    return f"`{name} = {level if level == DOUBLED_LEVEL else format_level(name, level)}`"


def _format_condition(condition: EvidenceCondition) -> str:
    return f"`{condition.metric}` {condition.value_of_degree_0:g} → {condition.value_of_degree_1:g}"


def main(folder: Path) -> None:
    """Write the page to a folder."""
    (folder / PAGE_FILE_NAME).write_text(causes_page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
