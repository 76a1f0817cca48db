"""How busy endpoints with kernels of their own look to themselves, and what guests take of the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import Sample, Observation

EMULATOR_KINDS = ("emulator", "vhost")


def cpu_times(samples: Sequence[Sample]) -> dict[str, float]:
    """Seconds that all CPUs together spent on each kind of work (`user_s`, `idle_s`, …)."""
    return sum_by_name(single_cpu_times(cpu) for sample in samples for cpu in sample.cpu)


def single_cpu_times(cpu: Mapping[str, float]) -> dict[str, float]:
    """What of an element of `Sample.cpu` is seconds by kind."""
    return {kind: spent_s for kind, spent_s in cpu.items() if kind.endswith("_s")}


def sum_by_name(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Name to the sum of all that the parts have by that name."""
    sums: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def busy_percent(times: Mapping[str, float]) -> float | None:
    """The share of the CPUs' time that was not idle; None where nothing is known of them."""
    total = sum(times.values())
    idle = times.get("idle_s", 0.0) + times.get("iowait_s", 0.0)
    return 100 * (total - idle) / total if total > 0 else None


def guest_metrics(groups: Mapping[str, SteadySamples], host: Sequence[Sample]) -> Iterator[tuple[str, float]]:
    """What endpoints tell of themselves, by their group, and what was watched on the host meanwhile."""
    for name, group in groups.items():
        own = busy_percent(cpu_times([sample for _, samples in group for sample in samples]))
        if own is not None:
            yield f"{name}_busy_percent", own
    seen = [x.observation for x in host if x.observation]
    if seen:
        watched_s = sum(x.interval_s for x in host if x.observation)
        yield from _of_threads(groups, _spent(seen), watched_s)
        yield from _of_switches(seen, watched_s)


def _of_threads(
    groups: Mapping[str, SteadySamples], spent: Mapping[tuple[str, str], Sequence[float]], watched_s: float
) -> Iterator[tuple[str, float]]:
    """`spent`: CPU seconds of each thread, by guest and kind."""
    vcpus = {guest: times for (guest, kind), times in spent.items() if kind == "vcpu"}
    for name, group in groups.items():
        ours = [time for side, _ in group for time in vcpus.get(side.name, ())]
        if ours:
            yield f"{name}_vcpu_percent", 100 * sum(ours) / (len(ours) * watched_s)
    every = [time for times in vcpus.values() for time in times]
    if every:
        yield "vcpus_cpu_percent", 100 * sum(every) / watched_s
        yield "busiest_vcpu_percent", 100 * max(every) / watched_s
    emulators = [time for (_, kind), times in spent.items() if kind in EMULATOR_KINDS for time in times]
    if emulators:
        yield "emulators_cpu_percent", 100 * sum(emulators) / watched_s


def _of_switches(seen: Sequence[Observation], watched_s: float) -> Iterator[tuple[str, float]]:
    ports = [counts for watched in seen for counts in watched.interface_counters.values()]
    if ports:
        dropped = sum(counts["rx_dropped"] + counts["tx_dropped"] for counts in ports)
        yield "switch_drops_per_s", dropped / watched_s
    # The kernel's count of all kinds together; those of a kind are among them.
    exits = [watched.kvm_exits["exits"] for watched in seen if watched.kvm_exits]
    if exits:
        yield "kvm_exits_per_s", sum(exits) / watched_s


def _spent(seen: Sequence[Observation]) -> dict[tuple[str, str], list[float]]:
    """CPU seconds of each thread over all samples, by guest and kind."""
    found: dict[tuple[str, str], list[float]] = {}
    for name, spent_s in sum_by_name(watched.thread_cpu_s for watched in seen).items():
        found.setdefault(parse_thread_name(name), []).append(spent_s)
    return found


def parse_thread_name(thread: str) -> tuple[str, str]:
    """Of a watched thread, by its name: `a1 vcpu0` is a `vcpu` of `a1`."""
    owner, _, kind = thread.rpartition(" ")
    return owner, kind.rstrip("0123456789")
