"""CPU lists as the kernel writes them, and which CPUs a VM of a testbed gets."""

from __future__ import annotations

from collections.abc import Iterable

from vnetbench.errors import BenchError
from vnetbench.lab.description import Endpoint, Testbed


def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs of a list such as `0-2,5`; empty for an empty text. Raises BenchError for anything else."""
    cpus: set[int] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or int(last or first) < int(first):
            raise BenchError(f"{text!r} is no list of CPUs", fix="write it as 0-2,5")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list, `0-2,5`."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def vm_cpus(level: str, testbed: Testbed, online: frozenset[int]) -> dict[str, frozenset[int]]:
    """The CPUs of each endpoint for a level of the factor `cpus`.

    `any`; `N each` gives the VMs N CPUs in turn and begins again when the machine has no more; `LIST` for
    both sides; `LIST/LIST` for side a and side b. Raises BenchError for CPUs that this machine lacks.
    """
    if level == "any":
        return {e.name: online for e in testbed.endpoints}
    if level.endswith(" each"):
        return _in_turn(int(level.removesuffix(" each")), testbed, online)
    first, _, second = level.partition("/")
    lists = {"a": parse_cpus(first), "b": parse_cpus(second or first)}
    missing = (lists["a"] | lists["b"]) - online
    if missing:
        raise BenchError(
            f"cpus = {level!r} names CPU {format_cpus(missing)}; this machine has {format_cpus(online)}",
            fix="name CPUs that it has, or 'any', or '1 each'",
        )
    return {e.name: lists[e.side] for e in testbed.endpoints}


def receive_cpus(level: str, endpoint: Endpoint, own: frozenset[int], online: frozenset[int]) -> str:
    """The CPU list that RPS of an endpoint gets for a level of the factor `irq_cpus`; empty for off.

    Raises BenchError where no such CPUs are.
    """
    if level in ("off", "own", "spread"):
        return format_cpus({"off": frozenset[int](), "own": own, "spread": online}[level])
    if level == "apart":
        if not online - own:
            raise BenchError(
                f"irq_cpus = 'apart': {endpoint.name} may use every CPU, so none is apart from it",
                fix="give the VMs CPUs of their own (cpus = '1 each')",
            )
        return format_cpus(online - own)
    wanted = parse_cpus(level)
    if wanted - online:
        raise BenchError(
            f"irq_cpus = {level!r}: this machine has only CPUs {format_cpus(online)}",
            fix="name CPUs that it has",
        )
    return format_cpus(wanted)


def _in_turn(count: int, testbed: Testbed, online: frozenset[int]) -> dict[str, frozenset[int]]:
    ordered = sorted(online)
    if count > len(ordered):
        raise BenchError(
            f"cpus = '{count} each': this machine has {len(ordered)} CPUs",
            fix=f"ask for at most {len(ordered)}",
        )
    given = {}
    for turn, endpoint in enumerate(testbed.endpoints):
        places = range(turn * count, (turn + 1) * count)
        given[endpoint.name] = frozenset(ordered[place % len(ordered)] for place in places)
    return given
