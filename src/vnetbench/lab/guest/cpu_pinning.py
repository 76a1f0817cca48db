"""Pins QEMU's threads to the host's CPUs: those of the guests' vCPUs, and all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.cpus import parse_cpu_set
from vnetbench.lab.threads import pin_thread, thread_names
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.model import Level

ANY, SPREAD, OWN, APART = "any", "spread", "own", "apart"


@dataclass(frozen=True)
class GuestThreads:
    """The threads of one guest on the host."""

    guest: str
    side: str
    vcpus: tuple[int, ...]
    main: int
    """QEMU's main loop."""
    vhost: tuple[int, ...]
    """The kernel's threads that move the guest's packets, if vhost is used."""
    helpers: tuple[int, ...]
    """QEMU's other threads, which start and end at any time."""

    def observer_threads(self) -> dict[str, int]:
        """Return the permanent threads by name, in the form that the observer watches."""
        return {
            **{f"{self.guest} vcpu{number}": thread for number, thread in enumerate(self.vcpus)},
            f"{self.guest} emulator": self.main,
            **{f"{self.guest} vhost{number}": thread for number, thread in enumerate(self.vhost)},
        }


def pinning_levels(factors: Mapping[str, Level]) -> tuple[str, str]:
    """Return a treatment's levels of `vcpu_pin` and `emulator_pin`."""
    return str(factors.get("vcpu_pin", ANY)), str(factors.get("emulator_pin", ANY))


def find_guest_threads(guest: str, side: str, pid: int, vcpus: Sequence[int]) -> GuestThreads:
    """Return all threads of a guest's QEMU process, given the thread ids of its vCPUs."""
    names = thread_names(pid)
    vhost = [*_find_vhost_threads(pid), *(task for task, name in names.items() if name == f"vhost-{pid}")]
    helpers = names.keys() - {*vcpus, *vhost, pid}
    return GuestThreads(guest, side, tuple(vcpus), pid, tuple(vhost), tuple(sorted(helpers)))


def assign_vcpus(
    level: str, guests: Iterable[GuestThreads], online: frozenset[int]
) -> dict[str, list[frozenset[int]]]:
    """Return the CPUs of each vCPU of each guest for a level of the factor `vcpu_pin`.

    Args:
        level: `any`: all CPUs. `spread`: one CPU for each vCPU in turn, guest by guest. `LIST` or `LIST/LIST`
            (side a, side b): the listed CPUs in turn.
        guests: The guests' threads.
        online: All CPUs of the machine.

    Raises:
        BenchError: if the machine lacks a CPU.
    """
    first, _, second = level.partition("/")
    placed: dict[str, list[frozenset[int]]] = {}
    taken: Counter[str] = Counter()
    for guest in guests:
        if level == ANY:
            placed[guest.guest] = [online] * len(guest.vcpus)
            continue
        named = online if level == SPREAD else parse_cpu_set(second or first if guest.side == "b" else first)
        if missing := named - online:
            raise BenchError(
                f"vcpu_pin = {level!r} names CPU {format_cpu_list(missing)}; this machine has "
                f"{format_cpu_list(online)}",
                fix="name CPUs that it has, or write 'spread'",
            )
        ordered = sorted(named)
        # Without a slash, both sides take turns on one list.
        turns = guest.side if second else ""
        placed[guest.guest] = [
            frozenset({ordered[(taken[turns] + number) % len(ordered)]}) for number in range(len(guest.vcpus))
        ]
        taken[turns] += len(guest.vcpus)
    return placed


def assign_emulators(
    level: str, vcpus: Mapping[str, Sequence[frozenset[int]]], online: frozenset[int]
) -> dict[str, frozenset[int]]:
    """Return the CPUs of QEMU's own threads of each guest for a level of the factor `emulator_pin`.

    Raises:
        BenchError: if no CPU matches the level.
    """
    own = {guest: frozenset[int]().union(*cpu_sets) for guest, cpu_sets in vcpus.items()}
    own = {guest: frozenset[int]().union(*places) for guest, places in vcpus.items()}
    if level == ANY:
        return dict.fromkeys(own, online)
    if level == OWN:
        return own
    wanted = online - frozenset[int]().union(*own.values()) if level == APART else parse_cpu_set(level)
    if not wanted:
        raise BenchError(
            "emulator_pin = 'apart' needs a CPU without a vCPU, but there is none",
            fix="leave a CPU free in vcpu_pin, for example vcpu_pin = '0-1'",
        )
    if missing := wanted - online:
        raise BenchError(
            f"emulator_pin = {level!r} names CPU {format_cpu_list(missing)}; this machine has "
            f"{format_cpu_list(online)}",
            fix="name CPUs that it has",
        )
    return dict.fromkeys(own, wanted)


def check_pinning(
    vcpu_level: str,
    emulator_level: str,
    guests: Iterable[tuple[str, str]],
    vcpus: int,
    online: frozenset[int],
) -> None:
    """Raise BenchError if guests with so many vCPUs, given by name and side, cannot be pinned."""
    threads = [GuestThreads(name, side, tuple(range(vcpus)), 0, (), ()) for name, side in guests]
    assign_emulators(emulator_level, assign_vcpus(vcpu_level, threads, online), online)


def pin_threads(
    vcpu_level: str, emulator_level: str, guests: Sequence[GuestThreads], online: frozenset[int]
) -> dict[str, dict[str, object]]:
    """Pin all threads and return the CPU lists that were read back, by factor and guest.

    Raises:
        TreatmentRefused: if the kernel refuses or sets other CPUs.
        BenchError: if no CPU matches a level.
    """
    vcpus = assign_vcpus(vcpu_level, guests, online)
    emulators = assign_emulators(emulator_level, vcpus, online)
    found: dict[str, dict[str, object]] = {"vcpu_pin": {}, "emulator_pin": {}}
    for guest in guests:
        pairs = zip(guest.vcpus, vcpus[guest.guest], strict=True)
        found["vcpu_pin"][guest.guest] = [
            pin_thread(thread, cpus, f"{guest.guest} vcpu{number}")
            for number, (thread, cpus) in enumerate(pairs)
        ]
        cpus, others = emulators[guest.guest], (guest.main, *guest.vhost, *guest.helpers)
        moved = {pin_thread(thread, cpus, f"{guest.guest}'s QEMU") for thread in others} - {""}
        found["emulator_pin"][guest.guest] = "; ".join(sorted(moved))
    return found


def _find_vhost_threads(pid: int) -> list[int]:
    """Return the vhost threads of the kernel itself; since Linux 6.4 they are threads of QEMU instead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text().strip() == f"vhost-{pid}":
                found.append(int(path.parent.name))
    return found
