"""Which of the host's CPUs QEMU's threads may use: those of the guests' vCPUs, and the rest of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.cpus import cpus_in
from vnetbench.lab.threads import move, named_tasks
from vnetbench.study.factors.cpu_lists import spell_cpu_list
from vnetbench.study.model import Level

ANY, SPREAD, OWN, APART = "any", "spread", "own", "apart"


@dataclass(frozen=True)
class Threads:
    """One guest's threads on the host."""

    guest: str
    side: str
    vcpus: tuple[int, ...]
    main: int
    """QEMU's main loop."""
    vhost: tuple[int, ...]
    """The kernel's threads that move its packets, where it does."""
    helpers: tuple[int, ...]
    """QEMU's other threads, which come and go."""

    def by_name(self) -> dict[str, int]:
        """Those that last, as a person names them."""
        return {
            **{f"{self.guest} vcpu{number}": thread for number, thread in enumerate(self.vcpus)},
            f"{self.guest} emulator": self.main,
            **{f"{self.guest} vhost{number}": thread for number, thread in enumerate(self.vhost)},
        }


def levels_of(factors: Mapping[str, Level]) -> tuple[str, str]:
    """The levels of `vcpu_pin` and `emulator_pin` of a treatment."""
    return str(factors.get("vcpu_pin", ANY)), str(factors.get("emulator_pin", ANY))


def threads_of(guest: str, side: str, pid: int, vcpus: Sequence[int]) -> Threads:
    """All threads of a guest's QEMU, `pid`, whose vCPUs are the threads `vcpus`."""
    names = named_tasks(pid)
    vhost = [*_vhost_of(pid), *(task for task, name in names.items() if name == f"vhost-{pid}")]
    helpers = names.keys() - {*vcpus, *vhost, pid}
    return Threads(guest, side, tuple(vcpus), pid, tuple(vhost), tuple(sorted(helpers)))


def vcpu_places(
    level: str, guests: Iterable[Threads], online: frozenset[int]
) -> dict[str, list[frozenset[int]]]:
    """For each guest the CPUs of each vCPU, by a level of the factor `vcpu_pin`.

    `any`: all; `spread`: one for each in turn, guest by guest; `LIST` or `LIST/LIST` (side a, side b): those
    in turn. Raises BenchError for CPUs that this machine lacks.
    """
    first, _, second = level.partition("/")
    placed: dict[str, list[frozenset[int]]] = {}
    taken: Counter[str] = Counter()
    for guest in guests:
        if level == ANY:
            placed[guest.guest] = [online] * len(guest.vcpus)
            continue
        named = online if level == SPREAD else cpus_in(second or first if guest.side == "b" else first)
        if missing := named - online:
            raise BenchError(
                f"vcpu_pin = {level!r} names CPU {spell_cpu_list(missing)}; this machine has "
                f"{spell_cpu_list(online)}",
                fix="name CPUs that it has, or 'spread'",
            )
        ordered = sorted(named)
        # Both sides of a list without a stroke take turns from the same one.
        turns = guest.side if second else ""
        placed[guest.guest] = [
            frozenset({ordered[(taken[turns] + number) % len(ordered)]}) for number in range(len(guest.vcpus))
        ]
        taken[turns] += len(guest.vcpus)
    return placed


def emulator_places(
    level: str, vcpus: Mapping[str, Sequence[frozenset[int]]], online: frozenset[int]
) -> dict[str, frozenset[int]]:
    """For each guest the CPUs of QEMU's own threads, by a level of the factor `emulator_pin`.

    Raises BenchError where no such CPUs are.
    """
    own = {guest: frozenset[int]().union(*places) for guest, places in vcpus.items()}
    if level == ANY:
        return dict.fromkeys(own, online)
    if level == OWN:
        return own
    wanted = online - frozenset[int]().union(*own.values()) if level == APART else cpus_in(level)
    if not wanted:
        raise BenchError(
            "emulator_pin = 'apart': every CPU is a vCPU's, so none is apart",
            fix="leave a CPU free in vcpu_pin (vcpu_pin = '0-1')",
        )
    if missing := wanted - online:
        raise BenchError(
            f"emulator_pin = {level!r} names CPU {spell_cpu_list(missing)}; this machine has "
            f"{spell_cpu_list(online)}",
            fix="name CPUs that it has",
        )
    return dict.fromkeys(own, wanted)


def check(
    vcpu_level: str,
    emulator_level: str,
    guests: Iterable[tuple[str, str]],
    vcpus: int,
    online: frozenset[int],
) -> None:
    """Raise BenchError where `place` could not put guests of so many vCPUs, given by name and side."""
    threads = [Threads(name, side, tuple(range(vcpus)), 0, (), ()) for name, side in guests]
    emulator_places(emulator_level, vcpu_places(vcpu_level, threads, online), online)


def place(
    vcpu_level: str, emulator_level: str, guests: Sequence[Threads], online: frozenset[int]
) -> dict[str, dict[str, object]]:
    """Place all threads, and tell where they then are: CPU lists by factor and guest.

    Raises TreatmentRefused where the kernel did something else, BenchError where there are no such CPUs.
    """
    vcpus = vcpu_places(vcpu_level, guests, online)
    emulators = emulator_places(emulator_level, vcpus, online)
    found: dict[str, dict[str, object]] = {"vcpu_pin": {}, "emulator_pin": {}}
    for guest in guests:
        pairs = zip(guest.vcpus, vcpus[guest.guest], strict=True)
        found["vcpu_pin"][guest.guest] = [
            move(thread, cpus, f"{guest.guest} vcpu{number}") for number, (thread, cpus) in enumerate(pairs)
        ]
        cpus, others = emulators[guest.guest], (guest.main, *guest.vhost, *guest.helpers)
        moved = {move(thread, cpus, f"{guest.guest}'s QEMU") for thread in others} - {""}
        found["emulator_pin"][guest.guest] = "; ".join(sorted(moved))
    return found


def _vhost_of(pid: int) -> list[int]:
    """The kernel's own threads that move a QEMU's packets, before Linux 6.4: since then they are QEMU's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text().strip() == f"vhost-{pid}":
                found.append(int(path.parent.name))
    return found
