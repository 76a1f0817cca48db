"""Interventions as text: a table for the terminal, and whether the advice of a cause was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from vnetbench.explain.interventions.findings import INTERVENTIONS_DETAIL_KEY
from vnetbench.explain.model import CONFIRMED, REFUTED, CandidateCause, Finding
from vnetbench.quantity import format_interval
from vnetbench.report.tables.text_table import to_printable_text

_NO_INTERVAL_TEXT = "too few trials"


def interventions_table(finding: Finding) -> Table | None:
    """Return what each change brings, best first; None for a finding without interventions."""
    results = finding.details.get(INTERVENTIONS_DETAIL_KEY)
    if not isinstance(results, list) or not results:
        return None
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(overflow="fold")
    table.add_row("Change", "Result", "Per 1 % of it", "Verdict")
    for each in results:
        table.add_row(*map(to_printable_text, _intervention_row_texts(each)))
    return table


def advice_with_outcome(candidate: CandidateCause) -> str:
    """Return the advice of a cause, and whether an experiment tried its setting here."""
    advice, result = candidate.cause.advice, candidate.experiment_result
    if not advice:
        return ""
    if result is None:
        return f"{advice} (Not tried.)" if candidate.cause.experiment_levels else advice
    ratio = result.experiment.ratio
    return f"{advice} Tried: ×{_interval_text(ratio.value, ratio.low, ratio.high)}."


def setting_verdict_label(candidate: CandidateCause) -> str:
    """Return the verdict on the setting that the advice names; empty without an experiment.

    If interventions decided otherwise about the cause, the setting was only tried: it does not help.
    """
    result = candidate.experiment_result
    if result is None:
        return ""
    is_decided = candidate.confidence in (CONFIRMED, REFUTED)
    return "tried" if is_decided and result.verdict != candidate.confidence else result.verdict


def _intervention_row_texts(result: Mapping[str, object]) -> Sequence[str]:
    ratio, elasticity = (
        [value if isinstance(value := result[name], int | float) else None for name in names]
        for names in (("ratio", "low", "high"), ("elasticity", "elasticity_low", "elasticity_high"))
    )
    return (
        str(result["change"]),
        "" if ratio[0] is None else f"×{_interval_text(*ratio)}",
        "" if elasticity[0] is None or elasticity[1] is None else f"{_interval_text(*elasticity)} %",
        str(result["verdict"]),
    )


def _interval_text(value: float | None, low: float | None, high: float | None) -> str:
    """Return a number with its interval: `1.42 (1.31 to 1.55)`."""
    text = format_interval(value or 0.0, low, high, "1")
    if low is None or high is None:
        return f"{text.value} ({_NO_INTERVAL_TEXT})"
    ends = [format_interval(end, low, high, "1").value for end in (low, high)]
    return f"{text.value} ({ends[0]} to {ends[1]})"
