"""The few figures of which a picture shows how they went in time: those that are near their most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.time_series import lengths_s
from vnetbench.estimate.evidence.trial_data import Case
from vnetbench.estimate.evidence.aggregation import most, percent, percent_of_time, plus
from vnetbench.estimate.evidence.flows import carrying, flows_of
from vnetbench.estimate.evidence.kernels import kernels_of, most_softirq
from vnetbench.estimate.evidence.ports import ports_of
from vnetbench.estimate.steady_state import SteadyPart
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
        return most(percent_of_time(samples, counter) for _, samples in ends)

    return of


def _waiting_for_window(part: SteadyPart) -> float | None:
    flows = carrying(flows_of(part), "source")
    waited_s = plus(*(flow.total("rwnd_limited_s") for flow in flows))
    return percent(waited_s, sum(flow.seconds for flow in flows))


def _softirq(part: SteadyPart) -> float | None:
    return most_softirq(kernels_of(part))


def _backlog(part: SteadyPart) -> float | None:
    return most(port.backlog_bytes for port in ports_of(part, {}))


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


def evidence_courses(case: Case, evidence: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """Figures that are near their most, in each interval under load, warm-up included.

    `evidence` is that of the steady part. A figure that an interval lacks is absent.
    """
    shown = [name for name, course in _COURSES.items() if evidence.get(name, 0.0) >= course.least]
    intervals = _intervals(case.part) if shown else ()
    found = {name: [_COURSES[name].of(each) for each in intervals] for name in shown}
    known = {name: [value for value in values if value is not None] for name, values in found.items()}
    return {name: tuple(values) for name, values in known.items() if len(values) == len(intervals)}


def _intervals(part: SteadyPart) -> Sequence[SteadyPart]:
    found = []
    sides = {side.endpoint: side for side in part.trial.sides}
    began_s = part.trial.idle_s
    for number, length_s in enumerate(lengths_s(part.load)):
        ends = [(sides[name], samples[number]) for name, samples in part.load.items()]
        ended_s = began_s + length_s
        seen = {
            name: [x for x in side.samples if began_s < x.t_s - x.interval_s / 2 <= ended_s]
            for name, side in sides.items()
            if side.role == OBSERVE
        }
        between = [(side, seen[side.endpoint]) for side, _ in part.between]
        found.append(replace(part, sides=ends, host=seen.get(HOST, []), between=between, seconds=length_s))
        began_s = ended_s
    return found
