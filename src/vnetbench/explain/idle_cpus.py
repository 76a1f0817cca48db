"""Whether a guest that forwards loses frames while its CPUs look idle.

Two counts of the same CPUs are held against each other: the idle time that the guest's own kernel counts, and
the time for which the host ran its vCPU threads. Both are of the run at the throughput, so whatever more is
offered is lost beyond the accepted share.
"""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint

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
        trials = [point.values[_BUSY] for point in self.treatment.points if _BUSY in point.values]
        most_busy = max(trials) if self.busy.high is None else self.busy.high
        return 100 - most_busy >= LOOKS_IDLE_PERCENT


def at_the_limit(summary: CampaignSummary) -> tuple[AtTheLimit, ...]:
    """Each treatment whose throughput a guest limited, with both counts of its CPUs; empty without guests."""
    return tuple(
        AtTheLimit(treatment, treatment.metrics[_BUSY], treatment.metrics[_VCPU])
        for treatment in summary.treatments
        if {_BUSY, _VCPU} <= treatment.metrics.keys() and _limited_by_device(treatment)
    )


def _limited_by_device(treatment: TreatmentSummary) -> bool:
    searched = [point for point in treatment.points if point.answers]
    return bool(searched) and all(map(_lost_above, searched))


def _lost_above(point: TrialPoint) -> bool:
    """Whether frames are lost above the throughput, as the search is sure of, even if it was cut short."""
    answer = point.answers[0]
    was_cut = answer.limited_by == "time" and answer.high_fps < point.search["asked"]["most_fps"]
    return answer.limited_by == "device" or was_cut
