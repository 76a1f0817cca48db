"""What is found beside the estimates, in words, with the figures that it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.idle_cpus import LOOKS_IDLE_PERCENT, AtTheLimit, at_the_limit
from vnetbench.quantity import format_interval
from vnetbench.report.labels import counted
from vnetbench.report.notes import name_of


def findings(summary: CampaignSummary) -> tuple[str, ...]:
    """Sentences, each with its evidence; none where the trials have none."""
    return tuple(_idle_cpus(summary))


def _idle_cpus(summary: CampaignSummary) -> Iterator[str]:
    limits = at_the_limit(summary)
    if not limits:
        return
    idle = [each for each in limits if each.looks_idle]
    of_all = f"of {counted(len(limits), 'treatment')}"
    if not idle:
        idlest = max(limits, key=lambda each: each.idle_percent)
        yield (
            f"CPUs that look idle and lose frames were not seen: at the throughput of none {of_all} the "
            f"guest calls its CPUs idle for {LOOKS_IDLE_PERCENT:g} % or more; most with "
            f"{_evidence(summary, idlest)}."
        )
        return
    shown = sorted(idle, key=lambda each: -each.idle_percent)
    yield (
        f"CPUs that look idle still lose frames, in {len(idle)} {of_all}: above the throughput frames are "
        f"lost, and at it the guest calls its CPUs idle for {_range([each.idle_percent for each in idle])} "
        f"of the time, while the host runs their vCPU threads for "
        f"{_range([each.vcpu.value for each in idle])}. "
        f"Most so with {_evidence(summary, shown[0])}."
    )


def _evidence(summary: CampaignSummary, found: AtTheLimit) -> str:
    busy = found.busy
    low, high = (None if end is None else 100 - end for end in (busy.high, busy.low))
    idle = format_interval(found.idle_percent, low, high, "%").text
    return (
        f"{name_of(summary, found.treatment)}: {idle} idle as the guest says, vCPU threads at "
        f"{_text(found.vcpu)} as the host says ({counted(busy.trials, 'trial')})"
    )


def _text(estimate: Estimate) -> str:
    return format_interval(estimate.value, estimate.low, estimate.high, "%").text


def _range(values: Sequence[float]) -> str:
    low, high = (f"{round(each)}" for each in (min(values), max(values)))
    return f"{low} %" if low == high else f"{low} to {high} %"
