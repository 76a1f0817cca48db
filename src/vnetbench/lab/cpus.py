"""Assigns CPUs to the VMs of a testbed, to their threads and to their receive processing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.study.factors.cpu_lists import format_cpu_list, parse_cpu_list

CPUS_FIX = "name CPUs that this machine has, or write 'any' or '1 each'"
DEVICE_CPUS_FIX = "name CPUs that this machine has, or write 'any' or 'apart'"


def parse_cpu_set(text: str) -> frozenset[int]:
    """Return the CPUs of a kernel CPU list; empty for an empty text. Raises BenchError for a bad list."""
    return frozenset(parse_cpu_list(text)) if text.strip() else frozenset()


def assign_vm_cpus(
    level: str, endpoints: Sequence[Endpoint], online_cpus: frozenset[int]
) -> dict[str, frozenset[int]]:
    """Return the CPUs of each endpoint for a level of the factor `cpus`.

    Args:
        level: `any`: all CPUs. `N each`: N CPUs for each VM in turn, starting over when none is left.
            `LIST`: these CPUs for both sides. `LIST/LIST`: CPUs of side a and of side b.
        endpoints: All endpoints, in the order of assignment.
        online_cpus: The CPUs of this machine.

    Raises:
        BenchError: if the machine lacks a CPU.
    """
    if level == "any":
        return {e.name: online_cpus for e in endpoints}
    if level.endswith(" each"):
        return _assign_round_robin(int(level.removesuffix(" each")), endpoints, online_cpus)
    first, _, second = level.partition("/")
    lists = {"a": parse_cpu_set(first), "b": parse_cpu_set(second or first)}
    _check_online(f"cpus = {level!r}", lists["a"] | lists["b"], online_cpus, CPUS_FIX)
    return {e.name: lists[e.side] for e in endpoints}


def assign_thread_cpus(
    level: str,
    thread_counts: Mapping[str, int],
    endpoints: Sequence[Endpoint],
    vm_cpus: Mapping[str, frozenset[int]],
) -> dict[str, list[str]]:
    """Return the CPU list of each thread of each endpoint for a level of the factor `thread_cpus`.

    Args:
        level: `any`: all CPUs of the VM. `spread`: one CPU of the VM each, in turn; endpoints with the
            same CPUs continue where the one before ended. `LIST` or `LIST/LIST`: the listed CPUs in turn.
        thread_counts: The number of threads of each endpoint.
        endpoints: All endpoints, in the order of assignment.
        vm_cpus: The CPUs of each endpoint.

    Raises:
        BenchError: if the VM may not use a CPU.
    """
    first, _, second = level.partition("/")
    placed: dict[str, list[str]] = {}
    taken: Counter[frozenset[int]] = Counter()
    for endpoint in endpoints:
        own, count = vm_cpus[endpoint.name], thread_counts[endpoint.name]
        if level == "any":
            placed[endpoint.name] = [format_cpu_list(own)] * count
            continue
        requested = (
            own if level == "spread" else parse_cpu_set(second or first if endpoint.side == "b" else first)
        )
        if missing := requested - own:
            raise BenchError(
                f"thread_cpus = {level!r} names CPU {format_cpu_list(missing)};"
                f" {endpoint.name} has {format_cpu_list(own)}",
                where=endpoint.name,
                fix="name CPUs that the VM may use (factor cpus), or write 'spread'",
            )
        begin = taken[own] if level == "spread" else 0
        taken[own] += count
        ordered = sorted(requested)
        placed[endpoint.name] = [str(ordered[(begin + i) % len(ordered)]) for i in range(count)]
    return placed


def select_local_cpus(level: str, online_cpus: frozenset[int]) -> frozenset[int]:
    """Return the CPUs of this machine for a level of the factor `cpus` that describes one endpoint.

    Raises:
        BenchError: if the machine lacks a CPU.
    """
    if level == "any":
        return online_cpus
    if level.endswith(" each"):
        return frozenset(
            sorted(online_cpus)[: _check_cpu_count(int(level.removesuffix(" each")), online_cpus)]
        )
    return _check_online(f"cpus = {level!r}", parse_cpu_set(level), online_cpus, CPUS_FIX)


def select_rps_cpus(
    level: str, endpoint: Endpoint, endpoint_cpus: frozenset[int], online_cpus: frozenset[int]
) -> str:
    """Return the CPU list for RPS of an endpoint for a level of the factor `irq_cpus`; empty for `off`.

    Raises:
        BenchError: if no CPU matches the level.
    """
    if level in ("off", "own", "spread"):
        return format_cpu_list({"off": frozenset[int](), "own": endpoint_cpus, "spread": online_cpus}[level])
    if level == "apart":
        if not online_cpus - endpoint_cpus:
            raise BenchError(
                f"irq_cpus = 'apart' needs a CPU that {endpoint.name} does not use, but it may use every CPU",
                fix="give each VM its own CPUs, for example cpus = '1 each'",
            )
        return format_cpu_list(online_cpus - endpoint_cpus)
    wanted = parse_cpu_set(level)
    if wanted - online_cpus:
        raise BenchError(
            f"irq_cpus = {level!r} names CPU {format_cpu_list(wanted - online_cpus)}; "
            f"this machine has {format_cpu_list(online_cpus)}",
            fix="name CPUs that this machine has",
        )
    return format_cpu_list(wanted)


@dataclass(frozen=True)
class TesterAndDeviceCpus:
    """The CPUs of one machine, divided between the tester and the device under test."""

    tester_cpus_by_endpoint: Mapping[str, frozenset[int]]
    """CPUs of each endpoint, by its name."""
    device_cpus: frozenset[int]
    """CPUs of the device; empty if its work runs on the CPU that hands it a packet, which is the tester's."""


def partition_cpus(
    device_cpus_level: str, cpus_level: str, endpoints: Sequence[Endpoint], online_cpus: frozenset[int]
) -> TesterAndDeviceCpus:
    """Divide the CPUs between tester and device under test.

    Args:
        device_cpus_level: A level of `device_cpus`. `any`: both use all CPUs. `LIST`: the device has
            these, and the tester has the others unless `cpus` names its own. `apart`: the device has the
            CPUs that `cpus` does not name; if it names none, the tester has the first half of all CPUs,
            rounded up.
        cpus_level: A level of the factor `cpus`.
        endpoints: All endpoints.
        online_cpus: The CPUs of this machine.

    Raises:
        BenchError: if a CPU does not exist, or none is left for the device.
    """
    vms = assign_vm_cpus(cpus_level, endpoints, online_cpus)
    if device_cpus_level == "any":
        return TesterAndDeviceCpus(vms, frozenset())
    ordered = sorted(online_cpus)
    device = (
        frozenset(ordered[(len(ordered) + 1) // 2 :])
        if device_cpus_level == "apart"
        else parse_cpu_set(device_cpus_level)
    )
    if device_cpus_level == "apart" and cpus_level != "any":
        device = online_cpus.difference(*vms.values())
    if not device:
        raise BenchError(
            "device_cpus = apart: no CPU is left for the device under test",
            fix="remove a CPU from the list in cpus, or write device_cpus = any",
        )
    _check_online(f"device_cpus = {device_cpus_level!r}", device, online_cpus, DEVICE_CPUS_FIX)
    if cpus_level != "any":
        return TesterAndDeviceCpus(vms, device)
    return TesterAndDeviceCpus(dict.fromkeys(vms, (online_cpus - device) or online_cpus), device)


def _assign_round_robin(
    count: int, endpoints: Sequence[Endpoint], online_cpus: frozenset[int]
) -> dict[str, frozenset[int]]:
    ordered = sorted(online_cpus)
    _check_cpu_count(count, online_cpus)
    assigned = {}
    for turn, endpoint in enumerate(endpoints):
        positions = range(turn * count, (turn + 1) * count)
        assigned[endpoint.name] = frozenset(ordered[position % len(ordered)] for position in positions)
    return assigned


def _check_online(
    setting: str, cpus: frozenset[int], online_cpus: frozenset[int], fix: str
) -> frozenset[int]:
    if missing := cpus - online_cpus:
        raise BenchError(
            f"{setting} names CPU {format_cpu_list(missing)}; "
            f"this machine has {format_cpu_list(online_cpus)}",
            fix=fix,
        )
    return cpus


def _check_cpu_count(count: int, online_cpus: frozenset[int]) -> int:
    if count > len(online_cpus):
        raise BenchError(
            f"cpus = '{count} each' needs more CPUs than this machine has ({len(online_cpus)})",
            fix=f"request at most {len(online_cpus)} CPUs",
        )
    return count
