"""The table of `vnetbench throughput`: a line per frame size and loss goal, with the limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_exact_share, format_interval, format_value
from vnetbench.search.interface import GoalResult
from vnetbench.study.workloads import THROUGHPUT_METRIC_NAMES
from vnetbench.wording.factor_text import factor_names, factor_title, level_text, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_VALUES_NOTE_BY_SEARCH_COUNT = {
    1: "Each search reports its own interval. Use --repeat 6 to see how much searches differ.",
    2: "Values are medians of the searches, with an interval if there are enough searches.",
}
"""The meaning of the values after one search, and after two or more."""
_LEFT_ALIGNED_COLUMNS = ("Interval", "Limited by")


def throughput_table(summary: CampaignSummary) -> RenderableType:
    """Return the table of the throughputs, with notes below it."""
    factors = varying_factors(summary.treatments, summary.factors) or summary.factors[:1]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for factor in factors:
        table.add_column(factor_title(factor.name), justify="right")
    for title in ("Loss", "Throughput", "Interval", "Bit rate", "Limited by"):
        table.add_column(title, justify="left" if title in _LEFT_ALIGNED_COLUMNS else "right", no_wrap=True)
    for treatment in summary.treatments:
        levels = [
            level_text(factor.name, treatment.factors[factor.name])
            for factor in factors
            if factor.name in treatment.factors
        ]
        for cells in _loss_goal_rows(treatment):
            table.add_row(*levels, *cells)
    max_trials = max((treatment.trial_count for treatment in summary.treatments), default=0)
    notes = [_summed_directions_note(summary), _VALUES_NOTE_BY_SEARCH_COUNT.get(min(max_trials, 2), "")]
    notes += dict.fromkeys(_treatment_notes(summary, factor_names(factors)))
    return Group(table, Text(""), *(Text(f"· {note}") for note in notes if note))


def _treatment_notes(summary: CampaignSummary, factors: Sequence[str]) -> Iterator[str]:
    for treatment in summary.treatments:
        prefix = f"{treatment_phrase(treatment.factors, factors)}: " if len(summary.treatments) > 1 else ""
        for note in (*treatment.failures, *treatment.notes):
            yield f"{prefix}{note}"


def _loss_goal_rows(treatment: TreatmentSummary) -> Iterator[tuple[str, ...]]:
    """Yield loss, throughput, interval, bit rate and limit per goal; one row for an unmeasured treatment."""
    stopped = treatment.stopped_search_result
    search_results = [point.search_result for point in treatment.points] or [stopped] * bool(stopped)
    if not search_results:
        yield ("", treatment.stop_reason, "", "", "")
        return
    searches = [
        [GoalResult.from_json(goal_result) for goal_result in result["goal_results"]]
        for result in search_results
    ]
    frame_bits = 8 * float(search_results[-1]["frame_bytes"])
    for name, results in zip(THROUGHPUT_METRIC_NAMES, zip(*searches, strict=True), strict=False):
        estimate = treatment.metrics[name]
        text = format_interval(estimate.value, estimate.low, estimate.high, "frame/s")
        limits = {result.limited_by for result in results}
        is_lower_bound = limits == {"generator"}
        yield (
            format_exact_share(results[0].goal),
            f"{'≥ ' if is_lower_bound else ''}{text.value} {text.unit}",
            f"{text.interval} {_interval_confidence_text(estimate)}".strip(),
            format_value(frame_bits * estimate.value, "bit/s"),
            "stopped early" if stopped and limits == {"time"} else ", ".join(sorted(limits)),
        )


def _interval_confidence_text(estimate: Estimate) -> str:
    """Return `(95 %)`; empty without an interval or for a search that reports no confidence."""
    if estimate.low is None or not estimate.confidence:
        return ""
    return f"({format_exact_share(estimate.confidence)})"


def _summed_directions_note(summary: CampaignSummary) -> str:
    counts = {
        int(p.search_result["direction_count"])
        for t in summary.treatments
        for p in t.points
        if p.search_result
    }
    return "Throughputs are sums over all directions and pairs." if max(counts, default=1) > 1 else ""
