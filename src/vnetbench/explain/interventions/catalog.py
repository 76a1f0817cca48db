"""The catalog of interventions: small changes of one treatment, one resource each, in both directions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.explain.interventions.resources import RESOURCES, time_share_of
from vnetbench.explain.interventions.treatment_state import TreatmentState
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.factors.registry import FACTORS, backend_has_factor, format_level, parse_level
from vnetbench.study.model import Level

SMALLEST_CPU_SHARE, LARGEST_CPU_SHARE = 0.7, 0.85
"""Limits of the share of its CPU time that a VM keeps. Noisy machines need a smaller share."""
_MIN_CHANGE_OVER_NOISE = 5
"""The change of a resource is at least this many times the noise, within the limits above."""
PACED_SHARE_OF_GOODPUT = 0.9
"""Share of its goodput that a stream is paced to."""
JUMBO_MTU, STANDARD_MTU = 9000, 1500
MIN_TESTED_TIME_SHARE = 0.05
"""A resource with a smaller share of the time is not tested: more of it cannot bring 5 %."""
_LIMITING_FACTORS_IN_STUDIES = ("link_rate", "pacing_rate", "vm_quota", "socket_buffer")
"""Limits that a study sets. They are tested even if the time accounting does not see them."""
_SIGNIFICANT_DIGITS_OF_RATES = 3
"""Significant digits of changed rates, for short labels."""


@dataclass(frozen=True)
class Intervention:
    """One change of a treatment."""

    resource: str
    """Name in `RESOURCES`."""
    base_levels_of_changed_factors: Mapping[str, Level]
    """Levels of the changed factors in the treatment."""
    changed_levels: Mapping[str, Level]
    resource_ratio: float | None
    """Amount of the resource after the change / before it; None for a switch."""
    time_share: float
    """Share of the time that depends on the resource, 0 to 1."""
    is_advice: bool = False
    """Whether the advice of a candidate cause names this change."""

    def informativeness(self, noise: float) -> float:
        """Return how much the intervention can show, 0 to 1.

        It shows much if a large share of the time depends on the resource, and if the change is large
        compared with the noise between trials. A switch shows less, because it measures no elasticity.
        """
        if self.resource_ratio is None:
            return self.time_share / 2
        change = abs(math.log(self.resource_ratio))
        return self.time_share * change / (change + noise)


InterventionGenerator = Callable[[TreatmentState], Iterator[Intervention]]


def list_interventions(
    state: TreatmentState, workload: str, testbed_backend: str, has_root: bool
) -> tuple[Intervention, ...]:
    """Return all interventions that workload, testbed and privilege allow, most informative first."""

    def is_possible(name: str) -> bool:
        factor = FACTORS[name]
        return (
            factor.has_workload(workload)
            and backend_has_factor(testbed_backend, name)
            and (has_root or not factor.needs_root)
        )

    possible = [
        each
        for generate in _INTERVENTION_GENERATORS
        for each in generate(state)
        if all(is_possible(name) for name in each.changed_levels)
    ]
    by_informativeness = sorted(possible, key=lambda each: -each.informativeness(state.noise))
    # The second intervention on a resource shows less than the first one on another.
    tested: Counter[str] = Counter()
    ranked = []
    for each in by_informativeness:
        ranked.append((tested[each.resource], each))
        tested[each.resource] += 1
    return tuple(each for _, each in sorted(ranked, key=lambda pair: pair[0]))


def _make_intervention(
    state: TreatmentState,
    resource: str,
    name: str,
    base: Level,
    changed: Level,
    resource_ratio: float | None = None,
) -> Iterator[Intervention]:
    """Yield the intervention that changes one factor; nothing if the factor has no such level."""
    try:
        level = parse_level(name, format_level(name, changed))
    except BenchError:
        return
    if level != base:
        share = time_share_of(RESOURCES[resource], state.time_shares)
        if resource in _LIMITING_FACTORS_IN_STUDIES:
            share = max(share, MIN_TESTED_TIME_SHARE)
        yield Intervention(resource, {name: base}, {name: level}, resource_ratio, share)


def _reduce_cpu_time(state: TreatmentState) -> Iterator[Intervention]:
    """Take CPU time from the sender, from the receiver, or from both if both send."""
    capacity, quota = state.cpu_capacity_by_vm, state.levels.get("cpu_quota", "none")
    if capacity is None or (isinstance(quota, str) and quota != "none"):
        return
    share = min(LARGEST_CPU_SHARE, max(SMALLEST_CPU_SHARE, math.exp(-_MIN_CHANGE_OVER_NOISE * state.noise)))
    first, second = (max(0.01, round(share * each, 2)) for each in capacity)
    direction = str(state.levels.get("direction", FORWARD))
    unchanged = format_level("cpu_quota", quota)
    if direction not in (FORWARD, REVERSE):
        level = f"{format_level('cpu_quota', first)}/{format_level('cpu_quota', second)}"
        yield from _make_intervention(state, "vm_cpu_time", "cpu_quota", quota, level, first / capacity[0])
        return
    for vm, reduced in enumerate((first, second)):
        texts = [unchanged, unchanged]
        texts[vm] = format_level("cpu_quota", reduced)
        resource = "sender_cpu_time" if (vm == 0) == (direction == FORWARD) else "receiver_cpu_time"
        ratio = reduced / capacity[vm]
        yield from _make_intervention(state, resource, "cpu_quota", quota, "/".join(texts), ratio)


def _change_existing_cpu_quota(state: TreatmentState) -> Iterator[Intervention]:
    quota = state.levels.get("cpu_quota")
    if isinstance(quota, int | float):
        for ratio in (1.2, 0.85):
            level = round(quota * ratio, 3)
            yield from _make_intervention(state, "vm_quota", "cpu_quota", quota, level, level / quota)


def _double_and_halve_stream_counts(state: TreatmentState) -> Iterator[Intervention]:
    """Double and halve the number of streams or connections."""
    for name in ("streams", "connections"):
        count = state.levels.get(name)
        if isinstance(count, int):
            yield from _make_intervention(state, name, name, count, 2 * count, 2.0)
            if count % 2 == 0:
                yield from _make_intervention(state, name, name, count, count // 2, 0.5)


def _double_and_halve_sizes(state: TreatmentState) -> Iterator[Intervention]:
    """Double and halve messages and buffers; of requests, responses and datagrams, smaller is cheaper."""
    for name in ("message_size", "socket_buffer", "request_size", "response_size", "datagram_size"):
        size = state.levels.get(name)
        if not isinstance(size, int):
            continue
        exponent = 1 if name in ("message_size", "socket_buffer") else -1
        for changed in (2 * size, size // 2):
            if changed:
                ratio = (changed / size) ** exponent
                yield from _make_intervention(state, name, name, size, changed, ratio)


def _change_rates_set_by_study(state: TreatmentState) -> Iterator[Intervention]:
    """Raise and lower the rates that the study sets; remove the shaping of a link."""
    for name in ("link_rate", "pacing_rate", "rate", "bit_rate"):
        rate = state.levels.get(name)
        if not isinstance(rate, int | float):
            continue
        for ratio in (1.2, 0.9):
            changed = _round_rate(rate * ratio)
            level = int(changed) if isinstance(rate, int) else changed
            yield from _make_intervention(state, name, name, rate, level, changed / rate)
    if isinstance(state.levels.get("link_rate"), int | float):
        yield from _make_intervention(state, "link_rate", "link_rate", state.levels["link_rate"], "none")


def _pace_below_limit(state: TreatmentState) -> Iterator[Intervention]:
    """Pace each stream at 90 % of what it gets: with losses or long queues, less load can bring more."""
    if state.rate_per_stream_bps and state.levels.get("pacing_rate") == "none":
        rate = _round_rate(PACED_SHARE_OF_GOODPUT * state.rate_per_stream_bps)
        yield from _make_intervention(state, "load_below_limit", "pacing_rate", "none", int(rate))


def _change_delay_set_by_study(state: TreatmentState) -> Iterator[Intervention]:
    """Lengthen and shorten the delay that the study sets."""
    delay = state.levels.get("link_delay")
    if isinstance(delay, int | float) and delay > 0:
        for ratio in (0.8, 1.25):
            changed = round(delay * ratio, 6)
            yield from _make_intervention(state, "link_delay", "link_delay", delay, changed, delay / changed)


def _change_mtu(state: TreatmentState) -> Iterator[Intervention]:
    mtu = state.levels.get("mtu", state.effective_settings.get("mtu"))
    if isinstance(mtu, int):
        changed = JUMBO_MTU if 2 * mtu <= JUMBO_MTU else STANDARD_MTU
        yield from _make_intervention(state, "mtu", "mtu", mtu, changed, changed / mtu)


def _switch_settings(state: TreatmentState) -> Iterator[Intervention]:
    """Switch offloads, the placement of packet processing and of VMs, and the congestion control."""
    for name, resource in (("tso", "segmentation"), ("gso", "segmentation"), ("gro", "aggregation"),
                           ("lro", "aggregation")):  # fmt: skip
        current = state.effective_settings.get(name)
        if isinstance(current, bool):
            base, changed = ("on", "off") if current else ("off", "on")
            yield from _make_intervention(state, resource, name, base, changed)
    processing = state.levels.get("irq_cpus", "off")
    changed = "spread" if processing == "off" else "off"
    yield from _make_intervention(state, "packet_processing", "irq_cpus", processing, changed)
    cpus = state.levels.get("cpus", "any")
    yield from _make_intervention(state, "placement", "cpus", cpus, "1 each" if cpus == "any" else "any")
    control = state.levels.get("congestion_control")
    if control is not None:
        other = "reno" if control == "cubic" else "cubic"
        yield from _make_intervention(state, "congestion_control", "congestion_control", control, other)


def _round_rate(rate: float) -> float:
    return float(f"{rate:.{_SIGNIFICANT_DIGITS_OF_RATES}g}")


_INTERVENTION_GENERATORS: tuple[InterventionGenerator, ...] = (
    _reduce_cpu_time,
    _change_existing_cpu_quota,
    _double_and_halve_stream_counts,
    _double_and_halve_sizes,
    _change_rates_set_by_study,
    _pace_below_limit,
    _change_delay_set_by_study,
    _change_mtu,
    _switch_settings,
)
