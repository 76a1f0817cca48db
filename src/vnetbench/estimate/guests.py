"""CPU time of endpoints with kernels of their own, and the guests' cost on the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from vnetbench.estimate.time_series import SteadySamples
from vnetbench.results.records import Observation, Sample

EMULATOR_THREAD_KINDS = ("emulator", "vhost")


def sum_cpu_seconds_by_state(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the seconds of all CPUs by kind of work (`user_s`, `idle_s`, …)."""
    return sum_values_by_name(cpu_seconds_by_state(cpu) for sample in samples for cpu in sample.cpu)


def cpu_seconds_by_state(cpu: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds by kind of work from one element of `Sample.cpu`."""
    return {kind: time_s for kind, time_s in cpu.items() if kind.endswith("_s")}


def sum_values_by_name(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of the values of each name over all parts."""
    sums: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def busy_percent(times: Mapping[str, float]) -> float | None:
    """Return the share of CPU time (`sum_cpu_seconds_by_state`) that was not idle; None without CPU times."""
    total = sum(times.values())
    idle = times.get("idle_s", 0.0) + times.get("iowait_s", 0.0)
    return 100 * (total - idle) / total if total > 0 else None


def guest_metrics(
    groups: Mapping[str, SteadySamples], host_samples: Sequence[Sample]
) -> Iterator[tuple[str, float]]:
    """Yield the CPU metrics of endpoints with own kernels, and those of the host's observer.

    Args:
        groups: Prefix of a metric's name to the endpoints that it covers.
        host_samples: The samples of the observer on the host.
    """
    for name, group in groups.items():
        own = busy_percent(sum_cpu_seconds_by_state([sample for _, samples in group for sample in samples]))
        if own is not None:
            yield f"{name}_busy_percent", own
    observations = [x.observation for x in host_samples if x.observation]
    if observations:
        observed_s = sum(x.interval_s for x in host_samples if x.observation)
        yield from _vcpu_and_emulator_metrics(groups, _cpu_s_per_thread(observations), observed_s)
        yield from _drop_and_exit_rates(observations, observed_s)


def _vcpu_and_emulator_metrics(
    groups: Mapping[str, SteadySamples],
    thread_cpu_s: Mapping[tuple[str, str], Sequence[float]],
    observed_s: float,
) -> Iterator[tuple[str, float]]:
    vcpus = {guest: times for (guest, kind), times in thread_cpu_s.items() if kind == "vcpu"}
    for name, group in groups.items():
        group_times = [time_s for endpoint, _ in group for time_s in vcpus.get(endpoint.name, ())]
        if group_times:
            yield f"{name}_vcpu_percent", 100 * sum(group_times) / (len(group_times) * observed_s)
    all_times = [time_s for times in vcpus.values() for time_s in times]
    if all_times:
        yield "vcpus_cpu_percent", 100 * sum(all_times) / observed_s
        yield "busiest_vcpu_percent", 100 * max(all_times) / observed_s
    emulators = [
        time_s
        for (_, kind), times in thread_cpu_s.items()
        if kind in EMULATOR_THREAD_KINDS
        for time_s in times
    ]
    if emulators:
        yield "emulators_cpu_percent", 100 * sum(emulators) / observed_s


def _drop_and_exit_rates(
    observations: Sequence[Observation], observed_s: float
) -> Iterator[tuple[str, float]]:
    ports = [counters for each in observations for counters in each.interface_counters.values()]
    if ports:
        dropped = sum(counters["rx_dropped"] + counters["tx_dropped"] for counters in ports)
        yield "switch_drops_per_s", dropped / observed_s
    # `exits` is the kernel's count of all kinds; the counts of single kinds are part of it.
    exits = [each.kvm_exits["exits"] for each in observations if each.kvm_exits]
    if exits:
        yield "kvm_exits_per_s", sum(exits) / observed_s


def _cpu_s_per_thread(observations: Sequence[Observation]) -> dict[tuple[str, str], list[float]]:
    """Return the CPU seconds of each thread over all samples, by guest and kind of thread."""
    by_kind: dict[tuple[str, str], list[float]] = {}
    for name, cpu_s in sum_values_by_name(each.thread_cpu_s for each in observations).items():
        by_kind.setdefault(split_owner_and_thread_kind(name), []).append(cpu_s)
    return by_kind


def split_owner_and_thread_kind(thread: str) -> tuple[str, str]:
    """Return the owner and the kind of an observed thread: `a1 vcpu0` is a `vcpu` of `a1`."""
    owner, _, kind = thread.rpartition(" ")
    return owner, kind.rstrip("0123456789")
