"""Pins QEMU's threads to the host's CPUs: those of the guests' vCPUs, and all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.lab.cpus import parse_cpu_set
from vnetbench.lab.endpoint import PairSideOrEmpty
from vnetbench.lab.threads import pin_thread_and_read_cpu_list, thread_names_by_id
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.guest_factors import EMULATOR_PIN, VCPU_PIN
from vnetbench.study.model import Level

ANY, SPREAD, OWN, APART = "any", "spread", "own", "apart"


@dataclass(frozen=True)
class GuestThreads:
    """The threads of one guest on the host."""

    guest_name: str
    side: PairSideOrEmpty
    vcpu_tids: tuple[int, ...]
    main_tid: int
    """QEMU's main loop."""
    vhost_tids: tuple[int, ...]
    """The kernel's threads that move the guest's packets, if vhost is used."""
    helper_tids: tuple[int, ...]
    """QEMU's other threads, which start and end at any time."""

    def permanent_thread_ids_by_name(self) -> dict[str, int]:
        """Return the permanent threads by name, in the form that the observer watches."""
        return {
            **{f"{self.guest_name} vcpu{number}": thread for number, thread in enumerate(self.vcpu_tids)},
            f"{self.guest_name} emulator": self.main_tid,
            **{f"{self.guest_name} vhost{number}": thread for number, thread in enumerate(self.vhost_tids)},
        }


class PinningLevels(NamedTuple):
    """Levels of `vcpu_pin` and `emulator_pin`."""

    vcpu: str
    emulator: str


def pinning_levels(factors: Mapping[str, Level]) -> PinningLevels:
    """Return a treatment's levels of `vcpu_pin` and `emulator_pin`."""
    return PinningLevels(str(VCPU_PIN.read_level(factors)), str(EMULATOR_PIN.read_level(factors)))


def find_guest_threads(
    guest_name: str, side: PairSideOrEmpty, pid: int, vcpu_tids: Sequence[int]
) -> GuestThreads:
    """Return all threads of a guest's QEMU process, given the thread ids of its vCPUs."""
    names = thread_names_by_id(pid)
    vhost = [*_find_vhost_threads(pid), *(task for task, name in names.items() if name == f"vhost-{pid}")]
    helpers = names.keys() - {*vcpu_tids, *vhost, pid}
    return GuestThreads(guest_name, side, tuple(vcpu_tids), pid, tuple(vhost), tuple(sorted(helpers)))


def assign_vcpu_cpus(
    level: str, guests: Iterable[GuestThreads], online_cpus: frozenset[int]
) -> dict[str, list[frozenset[int]]]:
    """Return the CPUs of each vCPU of each guest for a level of the factor `vcpu_pin`.

    Args:
        level: `any`: all CPUs. `spread`: one CPU for each vCPU in turn, guest by guest. `LIST` or `LIST/LIST`
            (side a, side b): the listed CPUs in turn.
        guests: The guests' threads.
        online_cpus: All CPUs of the machine.

    Raises:
        BenchError: if the machine lacks a CPU.
    """
    first, _, second = level.partition("/")
    placed: dict[str, list[frozenset[int]]] = {}
    taken: Counter[str] = Counter()
    for guest in guests:
        if level == ANY:
            placed[guest.guest_name] = [online_cpus] * len(guest.vcpu_tids)
            continue
        named = (
            online_cpus if level == SPREAD else parse_cpu_set(second or first if guest.side == "b" else first)
        )
        if missing := named - online_cpus:
            raise BenchError(
                f"vcpu_pin = {level!r} names CPU {format_cpu_list(missing)}; this machine has "
                f"{format_cpu_list(online_cpus)}",
                fix="name CPUs that this machine has, or write 'spread'",
            )
        ordered = sorted(named)
        # Without a slash, both sides take turns on one list.
        turns = guest.side if second else ""
        placed[guest.guest_name] = [
            frozenset({ordered[(taken[turns] + number) % len(ordered)]})
            for number in range(len(guest.vcpu_tids))
        ]
        taken[turns] += len(guest.vcpu_tids)
    return placed


def assign_emulator_cpus(
    level: str, vcpu_cpus_by_guest: Mapping[str, Sequence[frozenset[int]]], online_cpus: frozenset[int]
) -> dict[str, frozenset[int]]:
    """Return the CPUs of QEMU's own threads of each guest for a level of the factor `emulator_pin`.

    Raises:
        BenchError: if no CPU matches the level.
    """
    own = {guest: frozenset[int]().union(*cpu_sets) for guest, cpu_sets in vcpu_cpus_by_guest.items()}
    if level == ANY:
        return dict.fromkeys(own, online_cpus)
    if level == OWN:
        return own
    wanted = online_cpus - frozenset[int]().union(*own.values()) if level == APART else parse_cpu_set(level)
    if not wanted:
        raise BenchError(
            "emulator_pin = 'apart' needs a CPU without a vCPU, but every CPU has a vCPU",
            fix="pin the vCPUs to fewer CPUs, for example vcpu_pin = '0-1'",
        )
    if missing := wanted - online_cpus:
        raise BenchError(
            f"emulator_pin = {level!r} names CPU {format_cpu_list(missing)}; this machine has "
            f"{format_cpu_list(online_cpus)}",
            fix="name CPUs that this machine has",
        )
    return dict.fromkeys(own, wanted)


def check_pinning(
    vcpu_level: str,
    emulator_level: str,
    guests: Iterable[tuple[str, PairSideOrEmpty]],
    vcpu_count: int,
    online_cpus: frozenset[int],
) -> None:
    """Raise BenchError if guests with this number of vCPUs, given by name and side, cannot be pinned."""
    threads = [GuestThreads(name, side, tuple(range(vcpu_count)), 0, (), ()) for name, side in guests]
    assign_emulator_cpus(emulator_level, assign_vcpu_cpus(vcpu_level, threads, online_cpus), online_cpus)


def pin_threads(
    vcpu_level: str, emulator_level: str, guests: Sequence[GuestThreads], online_cpus: frozenset[int]
) -> dict[str, dict[str, object]]:
    """Pin all threads and return the CPU lists that were read back, by factor and guest.

    Raises:
        TreatmentRefused: if the kernel refuses or sets other CPUs.
        BenchError: if no CPU matches a level.
    """
    vcpus = assign_vcpu_cpus(vcpu_level, guests, online_cpus)
    emulators = assign_emulator_cpus(emulator_level, vcpus, online_cpus)
    found: dict[str, dict[str, object]] = {VCPU_PIN.name: {}, EMULATOR_PIN.name: {}}
    for guest in guests:
        pairs = zip(guest.vcpu_tids, vcpus[guest.guest_name], strict=True)
        found[VCPU_PIN.name][guest.guest_name] = [
            pin_thread_and_read_cpu_list(thread, cpus, f"{guest.guest_name} vcpu{number}")
            for number, (thread, cpus) in enumerate(pairs)
        ]
        cpus, others = emulators[guest.guest_name], (guest.main_tid, *guest.vhost_tids, *guest.helper_tids)
        moved = {
            pin_thread_and_read_cpu_list(thread, cpus, f"{guest.guest_name}'s QEMU") for thread in others
        } - {""}
        found[EMULATOR_PIN.name][guest.guest_name] = "; ".join(sorted(moved))
    return found


def _find_vhost_threads(pid: int) -> list[int]:
    """Return the vhost threads of the kernel itself; since Linux 6.4 they are threads of QEMU instead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text().strip() == f"vhost-{pid}":
                found.append(int(path.parent.name))
    return found
