"""Which CPUs a VM of a testbed gets, for its processes and for its receive processing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.study.factors.cpu_lists import cpu_list, spell_cpu_list


def cpus_in(text: str) -> frozenset[int]:
    """The CPUs of a list as the kernel writes it; empty for an empty text. Raises BenchError for no list."""
    return frozenset(cpu_list(text)) if text.strip() else frozenset()


def vm_cpus(level: str, endpoints: Sequence[Endpoint], online: frozenset[int]) -> dict[str, frozenset[int]]:
    """The CPUs of each endpoint for a level of the factor `cpus`.

    `any`; `N each` gives the VMs N CPUs in turn and begins again when the machine has no more; `LIST` for
    both sides; `LIST/LIST` for side a and side b. Raises BenchError for CPUs that this machine lacks.
    """
    if level == "any":
        return {e.name: online for e in endpoints}
    if level.endswith(" each"):
        return _in_turn(int(level.removesuffix(" each")), endpoints, online)
    first, _, second = level.partition("/")
    lists = {"a": cpus_in(first), "b": cpus_in(second or first)}
    _there(f"cpus = {level!r}", lists["a"] | lists["b"], online)
    return {e.name: lists[e.side] for e in endpoints}


def thread_cpus(
    level: str, counts: Mapping[str, int], endpoints: Sequence[Endpoint], vms: Mapping[str, frozenset[int]]
) -> dict[str, list[str]]:
    """The CPU list of each of an endpoint's threads for a level of the factor `thread_cpus`.

    `counts` is how many threads each endpoint has, `vms` the CPUs of each. `any`: the VM's CPUs for all;
    `spread`: one of them for each, in turn, endpoints that share their CPUs one after the other; `LIST` or
    `LIST/LIST`: the CPUs of the list in turn. Raises BenchError for CPUs that the VM may not use.
    """
    first, _, second = level.partition("/")
    placed: dict[str, list[str]] = {}
    taken: Counter[frozenset[int]] = Counter()
    for endpoint in endpoints:
        own, count = vms[endpoint.name], counts[endpoint.name]
        if level == "any":
            placed[endpoint.name] = [spell_cpu_list(own)] * count
            continue
        asked = own if level == "spread" else cpus_in(second or first if endpoint.side == "b" else first)
        if missing := asked - own:
            raise BenchError(
                f"thread_cpus = {level!r} names CPU {spell_cpu_list(missing)};"
                f" {endpoint.name} has {spell_cpu_list(own)}",
                where=endpoint.name,
                fix="name CPUs that the VM may use (its factor cpus), or 'spread'",
            )
        begin = taken[own] if level == "spread" else 0
        taken[own] += count
        ordered = sorted(asked)
        placed[endpoint.name] = [str(ordered[(begin + i) % len(ordered)]) for i in range(count)]
    return placed


def local_cpus(level: str, online: frozenset[int]) -> frozenset[int]:
    """The CPUs of this machine for a level of the factor `cpus` that speaks of one endpoint alone.

    Raises BenchError for CPUs that this machine lacks.
    """
    if level == "any":
        return online
    if level.endswith(" each"):
        return frozenset(sorted(online)[: _within(int(level.removesuffix(" each")), online)])
    return _there(f"cpus = {level!r}", cpus_in(level), online)


def receive_cpus(level: str, endpoint: Endpoint, own: frozenset[int], online: frozenset[int]) -> str:
    """The CPU list that RPS of an endpoint gets for a level of the factor `irq_cpus`; empty for off.

    Raises BenchError where no such CPUs are.
    """
    if level in ("off", "own", "spread"):
        return spell_cpu_list({"off": frozenset[int](), "own": own, "spread": online}[level])
    if level == "apart":
        if not online - own:
            raise BenchError(
                f"irq_cpus = 'apart': {endpoint.name} may use every CPU, so none is apart from it",
                fix="give the VMs CPUs of their own (cpus = '1 each')",
            )
        return spell_cpu_list(online - own)
    wanted = cpus_in(level)
    if wanted - online:
        raise BenchError(
            f"irq_cpus = {level!r}: this machine has only CPUs {spell_cpu_list(online)}",
            fix="name CPUs that it has",
        )
    return spell_cpu_list(wanted)


@dataclass(frozen=True)
class Shares:
    """The CPUs of one machine that has both a tester and the device that it tests."""

    tester: Mapping[str, frozenset[int]]
    """Of each endpoint."""
    device: frozenset[int]
    """Nothing where the device's work is done on whatever CPU brings it: the tester's own."""


def shares(level: str, cpus: str, endpoints: Sequence[Endpoint], online: frozenset[int]) -> Shares:
    """Who gets which CPUs, by a level of the factor `device_cpus` and one of `cpus`.

    `any`: both may use all. `LIST`: the device has these, the tester the others where `cpus` does not name
    its own. `apart`: the device has those that `cpus` does not name; where it names none the tester has the
    first half of all, rounded up. Raises BenchError for CPUs that are not there.
    """
    vms = vm_cpus(cpus, endpoints, online)
    if level == "any":
        return Shares(vms, frozenset())
    ordered = sorted(online)
    device = frozenset(ordered[(len(ordered) + 1) // 2 :]) if level == "apart" else cpus_in(level)
    if level == "apart" and cpus != "any":
        device = online.difference(*vms.values())
    if not device:
        raise BenchError(
            "device_cpus = apart: no CPU is left for the device under test",
            fix="leave one free in cpus, or take device_cpus = any",
        )
    _there(f"device_cpus = {level!r}", device, online)
    if cpus != "any":
        return Shares(vms, device)
    return Shares(dict.fromkeys(vms, (online - device) or online), device)


def _in_turn(count: int, endpoints: Sequence[Endpoint], online: frozenset[int]) -> dict[str, frozenset[int]]:
    ordered = sorted(online)
    _within(count, online)
    given = {}
    for turn, endpoint in enumerate(endpoints):
        places = range(turn * count, (turn + 1) * count)
        given[endpoint.name] = frozenset(ordered[place % len(ordered)] for place in places)
    return given


def _there(asked: str, named: frozenset[int], online: frozenset[int]) -> frozenset[int]:
    if missing := named - online:
        raise BenchError(
            f"{asked} names CPU {spell_cpu_list(missing)}; this machine has {spell_cpu_list(online)}",
            fix="name CPUs that it has, or 'any', or '1 each'",
        )
    return named


def _within(count: int, online: frozenset[int]) -> int:
    if count > len(online):
        raise BenchError(
            f"cpus = '{count} each': this machine has {len(online)} CPUs",
            fix=f"ask for at most {len(online)}",
        )
    return count
