"""The few figures of which a picture shows how they went in time: those that are near their most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.evidence.aggregation import largest, percent, percent_of_time, sum_known
from vnetbench.estimate.evidence.flows import collect_flows, load_flows
from vnetbench.estimate.evidence.kernels import collect_kernels, max_softirq_percent
from vnetbench.estimate.evidence.ports import collect_ports
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import interval_lengths_s
from vnetbench.results.records import HOST, OBSERVE


@dataclass(frozen=True)
class _Course:
    """A figure in time."""

    least: float
    """Of its value in the steady part: from here on it is worth a picture."""
    of: Callable[[SteadyPart], float | None]
    """Takes a single interval of a trial."""


def _worst(receiving: bool, counter: str) -> Callable[[SteadyPart], float | None]:
    def of(part: SteadyPart) -> float | None:
        ends = part.receivers if receiving else part.senders
        return largest(percent_of_time(samples, counter) for _, samples in ends)

    return of


def _waiting_for_window(part: SteadyPart) -> float | None:
    flows = load_flows(collect_flows(part), "source")
    waited_s = sum_known(*(flow.total("rwnd_limited_s") for flow in flows))
    return percent(waited_s, sum(flow.duration_s for flow in flows))


def _softirq(part: SteadyPart) -> float | None:
    return max_softirq_percent(collect_kernels(part))


def _backlog(part: SteadyPart) -> float | None:
    return largest(port.backlog_bytes for port in collect_ports(part, {}))


_COURSES: Mapping[str, _Course] = {
    "sender_thread_busy_percent": _Course(50, _worst(False, "busiest_thread_cpu_s")),
    "receiver_thread_busy_percent": _Course(50, _worst(True, "busiest_thread_cpu_s")),
    "sender_thread_waiting_percent": _Course(20, _worst(False, "busiest_thread_waited_s")),
    "receiver_thread_waiting_percent": _Course(20, _worst(True, "busiest_thread_waited_s")),
    "sender_throttled_percent": _Course(5, _worst(False, "cgroup_throttled_s")),
    "receiver_throttled_percent": _Course(5, _worst(True, "cgroup_throttled_s")),
    "busiest_cpu_softirq_percent": _Course(50, _softirq),
    "rwnd_limited_percent": _Course(20, _waiting_for_window),
    "backlog_bytes": _Course(65536, _backlog),
}


def evidence_time_series(case: TrialData, evidence: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """Figures that are near their most, in each interval under load, warm-up included.

    `evidence` is that of the steady part. A figure that an interval lacks is absent.
    """
    shown = [name for name, course in _COURSES.items() if evidence.get(name, 0.0) >= course.least]
    intervals = _intervals(case.steady_part) if shown else ()
    found = {name: [_COURSES[name].of(each) for each in intervals] for name in shown}
    known = {name: [value for value in values if value is not None] for name, values in found.items()}
    return {name: tuple(values) for name, values in known.items() if len(values) == len(intervals)}


def _intervals(part: SteadyPart) -> Sequence[SteadyPart]:
    found = []
    sides = {side.name: side for side in part.trial.endpoints}
    began_s = part.trial.idle_s
    for number, length_s in enumerate(interval_lengths_s(part.load_intervals)):
        ends = [(sides[name], samples[number]) for name, samples in part.load_intervals.items()]
        ended_s = began_s + length_s
        seen = {
            name: [x for x in side.samples if began_s < x.t_s - x.interval_s / 2 <= ended_s]
            for name, side in sides.items()
            if side.role == OBSERVE
        }
        between = [(side, seen[side.name]) for side, _ in part.forwarders]
        found.append(
            replace(
                part, endpoints=ends, host_samples=seen.get(HOST, []), forwarders=between, duration_s=length_s
            )
        )
        began_s = ended_s
    return found
