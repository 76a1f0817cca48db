"""Whether a guest that forwards loses frames while its CPUs look idle.

Two counts of the same CPUs are held against each other: the idle time that the guest's own kernel counts, and
the time for which the host ran its vCPU threads. Both are of the run at the throughput, so whatever more is
offered is lost beyond the accepted share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.model import Finding
from vnetbench.quantity import format_interval
from vnetbench.wording.factor_text import counted
from vnetbench.wording.treatment_names import name_of

LOOKS_IDLE_PERCENT = 20.0
"""From here on CPUs look idle: who sees as much in `top` looks for the limit elsewhere."""
_BUSY, _VCPU = "forwarder_busy_percent", "forwarder_vcpu_percent"


@dataclass(frozen=True)
class AtTheLimit:
    """A treatment's CPUs at the highest load whose loss is accepted; percent of all its CPUs."""

    treatment: TreatmentSummary
    busy: Estimate
    """As the guest's kernel counts."""
    vcpu: Estimate
    """As the host counts its vCPU threads."""

    @property
    def idle_percent(self) -> float:
        """What the guest's kernel calls idle."""
        return 100 - self.busy.value

    @property
    def looks_idle(self) -> bool:
        """Whether the guest calls its CPUs idle beyond chance, or where that is not known in every trial."""
        trials = self.treatment.trial_values(_BUSY)
        most_busy = max(trials) if self.busy.high is None else self.busy.high
        return 100 - most_busy >= LOOKS_IDLE_PERCENT


def idle_cpus(summary: CampaignSummary) -> Iterator[Finding]:
    """One finding on all treatments that a guest limited, with the figures that it rests on; none without."""
    limits = at_the_limit(summary)
    if not limits:
        return
    idle = [each for each in limits if each.looks_idle]
    yield Finding(
        kind="idle CPUs",
        text=_seen(summary, idle, len(limits)) if idle else _not_seen(summary, limits),
        treatments=tuple(each.treatment.index for each in idle or limits),
        details={
            str(each.treatment.index): {"idle_percent": each.idle_percent, "vcpu_percent": each.vcpu.value}
            for each in limits
        },
    )


def at_the_limit(summary: CampaignSummary) -> tuple[AtTheLimit, ...]:
    """Each treatment whose throughput a guest limited, with both counts of its CPUs; empty without guests."""
    return tuple(
        AtTheLimit(treatment, treatment.metrics[_BUSY], treatment.metrics[_VCPU])
        for treatment in summary.treatments
        if {_BUSY, _VCPU} <= treatment.metrics.keys() and _limited_by_device(treatment)
    )


def _limited_by_device(treatment: TreatmentSummary) -> bool:
    searched = [point for point in treatment.points if point.search_answers]
    return bool(searched) and all(map(_lost_above, searched))


def _lost_above(point: TrialPoint) -> bool:
    """Whether frames are lost above the throughput, as the search is sure of, even if it was cut short."""
    answer = point.search_answers[0]
    was_cut = answer.limited_by == "time" and answer.high_fps < point.search["asked"]["most_fps"]
    return answer.limited_by == "device" or was_cut


def _seen(summary: CampaignSummary, idle: Sequence[AtTheLimit], limits: int) -> str:
    most = max(idle, key=lambda each: each.idle_percent)
    return (
        f"CPUs that look idle still lose frames, in {len(idle)} of {counted(limits, 'treatment')}: above the "
        "throughput frames are lost, and at it the guest calls its CPUs idle for "
        f"{_range([each.idle_percent for each in idle])} of the time, while the host runs their vCPU threads "
        f"for {_range([each.vcpu.value for each in idle])}. Most so with {_evidence(summary, most)}."
    )


def _not_seen(summary: CampaignSummary, limits: Sequence[AtTheLimit]) -> str:
    most = max(limits, key=lambda each: each.idle_percent)
    return (
        f"CPUs that look idle and lose frames were not seen: at the throughput of none of "
        f"{counted(len(limits), 'treatment')} the guest calls its CPUs idle for {LOOKS_IDLE_PERCENT:g} % or "
        f"more; most with {_evidence(summary, most)}."
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
