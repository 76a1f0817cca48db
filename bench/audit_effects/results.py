"""The results of the bench: a page in bench/results, and the data file that docs/audit-rules.md shows."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.audit_effects.measure import CONFIDENCE, MeasuredEffect
from bench.explain import markdown_table
from vnetbench.audit import measured_effects
from vnetbench.audit.measured_effects import DATA_FILE, RuleEffect, load_measured_effects
from vnetbench.audit.rules import load_rules
from vnetbench.estimate.model import Ratio
from vnetbench.quantity import format_bit_rate

DATA_PATH = Path(measured_effects.__file__).with_name(DATA_FILE)
MAX_INTERVAL_RATIO = 4.0
"""Largest upper bound / lower bound of an effect that users see: a wider interval says little."""
_DATA_HEAD = "# Effects of the faults that rules find. Written by bench/audit_effects; do not edit.\n"


def save_results(
    folder: Path,
    effects: Sequence[MeasuredEffect],
    failures: Mapping[str, str],
    note: str,
) -> Path:
    """Write the page of the results and the data file, and return the path of the page."""
    path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M}-audit-effects.md"
    path.write_text(format_page(effects, failures, note), encoding="utf-8")
    DATA_PATH.write_text(format_data(merge_effects(load_measured_effects(), effects)), encoding="utf-8")
    return path


def merge_effects(
    known: Mapping[str, RuleEffect], effects: Sequence[MeasuredEffect]
) -> dict[str, RuleEffect]:
    """Return the effects by rule, in the order of the rules; a new effect replaces a known one.

    An effect without an interval is left out, and one whose interval is too wide.
    """
    measured = {each.case.rule: _rule_effect(each) for each in effects if _is_precise(each.ratio)}
    merged = {**known, **measured}
    return {rule: merged[rule] for rule in load_rules() if rule in merged}


def _is_precise(ratio: Ratio) -> bool:
    return (
        ratio.low is not None
        and ratio.high is not None
        and ratio.low > 0
        and ratio.high / ratio.low <= MAX_INTERVAL_RATIO
    )


def _rule_effect(effect: MeasuredEffect) -> RuleEffect:
    case, ratio = effect.case, effect.ratio
    assert ratio.low is not None and ratio.high is not None
    return RuleEffect(
        ratio=round(ratio.value, 4),
        low=round(ratio.low, 4),
        high=round(ratio.high, 4),
        blocks=effect.block_count,
        fault=case.fault_text,
        load=case.load_text,
        testbed=case.testbed_text,
        cpus=_cpu_count(),
        date=effect.date,
    )


def format_data(effects: Mapping[str, RuleEffect]) -> str:
    """Return the data file. A JSON text or number is also one of TOML."""
    lines = [_DATA_HEAD]
    for rule, effect in effects.items():
        lines.append(f"[{rule}]")
        lines += (
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in effect.model_dump().items()
        )
        lines.append("")
    return "\n".join(lines)


def format_page(effects: Sequence[MeasuredEffect], failures: Mapping[str, str], note: str) -> str:
    """Return the page of the results in Markdown."""
    return "\n".join(_page_lines(effects, failures, note)) + "\n"


def _page_lines(effects: Sequence[MeasuredEffect], failures: Mapping[str, str], note: str) -> Iterator[str]:
    yield "# Effects of the faults that audit rules find\n"
    yield (
        f"Each ratio is the goodput with the fault, divided by the goodput without it, with its "
        f"{100 * CONFIDENCE:.0f} % interval (docs/estimates.md, paired ratios). A block has one trial with "
        "the fault and one without it, in changing order. The goodputs are medians over the blocks.\n"
    )
    yield f"- CPUs: {_cpu_count()}. Kernel: Linux {platform.release()}."
    if note:
        yield f"- {note}"
    yield (
        "- Rules about physical adapters and hypervisors are measured in the testbed of their row, "
        "so the effect there can differ from that on hardware.\n"
    )
    headings = ("rule", "fault", "load and path", "testbed", "without", "with", "ratio", "blocks")
    yield from markdown_table(headings, [_row(each) for each in effects])
    yield (
        f"\nThe page of audit rules leaves out effects whose interval is wider than a factor of "
        f"{MAX_INTERVAL_RATIO:.0f}."
    )
    if failures:
        yield "\nNot measured:\n"
        yield from (f"- `{rule}`: {reason}" for rule, reason in failures.items())


def _row(effect: MeasuredEffect) -> tuple[str, ...]:
    case = effect.case
    return (
        f"`{case.rule}`",
        case.fault_text,
        case.load_text,
        case.testbed_text,
        format_bit_rate(effect.without_bps),
        format_bit_rate(effect.with_bps),
        effect.ratio_text,
        str(effect.block_count),
    )


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0))
