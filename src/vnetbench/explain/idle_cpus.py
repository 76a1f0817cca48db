"""Find guests that lose frames while their own kernel reports idle CPUs.

The finding compares two counts for the same CPUs: idle time in the guest's kernel, and the time for which the
host ran the vCPU threads. Both are from the step at the throughput, so any higher load exceeds the accepted
loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.explain.model import Finding
from vnetbench.quantity import format_count_with_noun, format_interval
from vnetbench.wording.treatment_names import treatment_name

MIN_IDLE_PERCENT = 20.0
"""Idle time from which CPUs count as idle: a user of `top` would look for the limit elsewhere."""
_BUSY, _VCPU = "forwarder_busy_percent", "forwarder_vcpu_percent"


@dataclass(frozen=True)
class ForwardingGuestCpuUse:
    """CPU use of a forwarding guest at its throughput, percent of all its CPUs."""

    treatment: TreatmentSummary
    guest_busy_percent: Estimate
    """Counted by the guest's kernel."""
    host_vcpu_percent: Estimate
    """Counted by the host for the vCPU threads."""

    @property
    def guest_idle_percent(self) -> float:
        """Idle time by the guest's kernel."""
        return 100 - self.guest_busy_percent.value

    @property
    def has_idle_cpus(self) -> bool:
        """Whether the whole interval of idle time, or every trial if there is no interval, counts as idle."""
        trials = self.treatment.values_of_trials_with_metric(_BUSY)
        max_busy = max(trials) if self.guest_busy_percent.high is None else self.guest_busy_percent.high
        return 100 - max_busy >= MIN_IDLE_PERCENT


def saturated_forwarder_findings(summary: CampaignSummary) -> Iterator[Finding]:
    """Yield one finding about all treatments that a guest limits; nothing if there are none."""
    forwarders = cpu_use_of_saturated_forwarders(summary)
    if not forwarders:
        return
    idle = [each for each in forwarders if each.has_idle_cpus]
    yield Finding(
        kind="idle CPUs",
        text=_idle_forwarders_text(summary, idle, len(forwarders))
        if idle
        else _saturated_forwarders_text(summary, forwarders),
        treatment_indices=tuple(each.treatment.index for each in idle or forwarders),
        details={
            str(each.treatment.index): {
                "idle_percent": each.guest_idle_percent,
                "vcpu_percent": each.host_vcpu_percent.value,
            }
            for each in forwarders
        },
    )


def cpu_use_of_saturated_forwarders(summary: CampaignSummary) -> tuple[ForwardingGuestCpuUse, ...]:
    """Return CPU use for each treatment whose throughput a guest limits and that has both counts."""
    return tuple(
        ForwardingGuestCpuUse(treatment, treatment.metrics[_BUSY], treatment.metrics[_VCPU])
        for treatment in summary.treatments
        if {_BUSY, _VCPU} <= treatment.metrics.keys() and _is_limited_by_device(treatment)
    )


def _is_limited_by_device(treatment: TreatmentSummary) -> bool:
    searches = [point for point in treatment.points if point.goal_results]
    return bool(searches) and all(map(_has_loss_above_throughput, searches))


def _has_loss_above_throughput(point: TrialPoint) -> bool:
    """Return whether the search found loss above the throughput, even if it stopped early."""
    answer = point.goal_results[0]
    is_cut_short = (
        answer.limited_by == "time" and answer.high_fps < point.search_result["parameters"]["max_load_fps"]
    )
    return answer.limited_by == "device" or is_cut_short


def _idle_forwarders_text(summary: CampaignSummary, idle: Sequence[ForwardingGuestCpuUse], total: int) -> str:
    most_idle = max(idle, key=lambda each: each.guest_idle_percent)
    guest_range = _percent_range([each.guest_idle_percent for each in idle])
    host_range = _percent_range([each.host_vcpu_percent.value for each in idle])
    return (
        f"Guests lose frames although they report idle CPUs, in {len(idle)} of "
        f"{format_count_with_noun(total, 'treatment')}. "
        f"At the throughput, these guests report their CPUs idle for {guest_range} of the time. "
        f"The host runs the guests' vCPU threads for {host_range} of the time. "
        f"The most idle treatment is {_forwarding_guest_cpu_use_text(summary, most_idle)}."
    )


def _saturated_forwarders_text(summary: CampaignSummary, forwarders: Sequence[ForwardingGuestCpuUse]) -> str:
    most_idle = max(forwarders, key=lambda each: each.guest_idle_percent)
    return (
        f"No guest loses frames while it reports idle CPUs ({MIN_IDLE_PERCENT:g} % or more) at the "
        f"throughput, in {format_count_with_noun(len(forwarders), 'treatment')}. "
        f"The most idle treatment is {_forwarding_guest_cpu_use_text(summary, most_idle)}."
    )


def _forwarding_guest_cpu_use_text(summary: CampaignSummary, use: ForwardingGuestCpuUse) -> str:
    busy = use.guest_busy_percent
    low, high = (None if end is None else 100 - end for end in (busy.high, busy.low))
    idle = format_interval(use.guest_idle_percent, low, high, "%").text
    vcpu = format_interval(
        use.host_vcpu_percent.value, use.host_vcpu_percent.low, use.host_vcpu_percent.high, "%"
    ).text
    return (
        f"{treatment_name(summary, use.treatment)}: the guest reports its CPUs idle for {idle} of the time, "
        "and the host "
        f"runs the vCPU threads for {vcpu} of the time ({format_count_with_noun(busy.trial_count, 'trial')})"
    )


def _percent_range(values: Sequence[float]) -> str:
    low, high = (f"{round(each)}" for each in (min(values), max(values)))
    return f"{low} %" if low == high else f"{low} to {high} %"
