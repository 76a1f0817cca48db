"""The answer of `vnetbench throughput`: for each frame size and goal one line, and what limited it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_interval, format_value, format_exact_share
from vnetbench.study.workloads import THROUGHPUT_METRICS
from vnetbench.wording.factor_text import factor_label, level_text, factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_INTERVAL_NOTES = {
    1: "Intervals are what each search says of its own answer: --repeat 6 tells how far searches differ.",
    2: "Median of the searches, with the median's interval where there are enough of them.",
}
"""What the figures are after one search, and after two or more."""


def throughput_table(summary: CampaignSummary) -> RenderableType:
    """A table of the throughputs, and what has to be known of them."""
    varying = varying_factors(summary.treatments, summary.factors) or summary.factors[:1]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for factor in varying:
        table.add_column(factor_label(factor.name), justify="right")
    for title in ("Loss", "Throughput", "Interval", "In bits", "Limited by"):
        is_left = title in ("Interval", "Limited by")
        table.add_column(title, justify="left" if is_left else "right", no_wrap=True)
    for treatment in summary.treatments:
        levels = [
            level_text(f.name, treatment.factors[f.name]) for f in varying if f.name in treatment.factors
        ]
        for cells in _goal_rows(treatment):
            table.add_row(*levels, *cells)
    notes = dict.fromkeys(
        f"{phrase}: {note}" if len(summary.treatments) > 1 else note
        for t in summary.treatments
        for phrase in (treatment_phrase(t.factors, factor_names(varying)),)
        for note in (*t.failures, *t.notes)
    )
    most = max((t.trials for t in summary.treatments), default=0)
    told = [Text(f"· {text}") for text in (_direction_note(summary), _INTERVAL_NOTES.get(min(most, 2), ""), *notes) if text]
    return Group(table, Text(""), *told)


def _goal_rows(treatment: TreatmentSummary) -> Iterator[tuple[str, ...]]:
    """Loss, throughput, interval, bits and limit of each goal; a line for a treatment without."""
    searches = [point.search_answers for point in treatment.points]
    if not searches:
        yield ("", treatment.stopped_by, "", "", "")
        return
    bits = 8 * float(treatment.points[-1].search["frame_bytes"])
    for name, answers in zip(THROUGHPUT_METRICS, zip(*searches, strict=True), strict=False):
        found = treatment.metrics[name]
        text = format_interval(found.value, found.low, found.high, "frame/s")
        limits = {answer.limited_by for answer in answers}
        yield (
            format_exact_share(answers[0].goal),
            f"{'≥ ' if limits == {'generator'} else ''}{text.value} {text.unit}",
            f"{text.interval} {_confidence_text(found)}".strip(),
            format_value(bits * found.value, "bit/s"),
            ", ".join(sorted(limits)),
        )


def _confidence_text(found: Estimate) -> str:
    """How sure its interval is, `(95 %)`; empty without one, and for a search that does not tell."""
    return f"({format_exact_share(found.confidence)})" if found.low is not None and found.confidence else ""


def _direction_note(summary: CampaignSummary) -> str:
    ways = {int(p.search["ways"]) for t in summary.treatments for p in t.points if p.search}
    return "Throughputs are sums over all directions and pairs." if max(ways, default=1) > 1 else ""
