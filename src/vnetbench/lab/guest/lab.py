"""The lab `qemu`: testbeds of guests with real adapters and their real drivers."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace

from vnetbench.agents.launch import start_inside
from vnetbench.lab import registry
from vnetbench.lab.guest import cpu_pinning, network
from vnetbench.lab.guest.hardware import VIRTIO_RING, check_memory, room_for
from vnetbench.lab.guest.launcher import Parts, Starter
from vnetbench.lab.guest.prerequisites import Ready
from vnetbench.lab.guest.qemu import VIRTIO
from vnetbench.lab.guest.qemu_process import MachineEnded
from vnetbench.lab.guest.testbed import GuestBed
from vnetbench.lab.guest.topology import BRIDGE, PORTS, ROUTER, TAPS, GuestShape, describe
from vnetbench.lab.links.impaired_link import needs_line
from vnetbench.study.factors.load_factors import VSOCK
from vnetbench.study.model import Level, TestbedAsked

MOST_KEPT = 4


def shape_of(factors: Mapping[str, Level], asked: TestbedAsked) -> GuestShape:
    """What of a treatment decides which guests it needs."""
    adapter = str(factors["adapter"])
    # Of virtio queues and long rings are part of the hardware; the rest have them by their drivers.
    is_virtio = adapter in VIRTIO
    rings = (int(factors.get(ring, 1)) if is_virtio else 1 for ring in ("rx_ring", "tx_ring"))
    # Hardware has a power of two; within that the driver sets what it can.
    rx_ring, tx_ring = (max(VIRTIO_RING, 1 << (ring - 1).bit_length()) for ring in rings)
    return GuestShape(
        adapter=adapter,
        vcpus=int(factors["vcpus"]),
        queues=int(factors.get("queues", 1)) if is_virtio else 1,
        guests=int(factors["guests"]),
        role=str(factors["role"]),
        rx_ring=rx_ring,
        tx_ring=tx_ring,
        lro=str(factors.get("lro", "")) if adapter == "vmxnet3" else "",
        uplink=asked.uplink,
        vf_of=asked.vf_of or "",
        vsock=factors.get("transport") == VSOCK,
        # Frames are the guest's alone: a switch on the way would be part of the device under test.
        ends=TAPS if "frame_size" in factors and factors["role"] in (ROUTER, BRIDGE) else PORTS,
    )


def check_placement(factors: Mapping[str, Level], asked: TestbedAsked) -> None:
    """Raise BenchError where a treatment wants its guests' threads on CPUs that are not here."""
    shape = shape_of(factors, asked)
    guests = [(guest.name, guest.side) for guest in describe("check", shape).guests]
    levels = cpu_pinning.levels_of(factors)
    cpu_pinning.check(*levels, guests, shape.vcpus, frozenset(os.sched_getaffinity(0)))


class QemuLab:
    """Testbeds of guests, for one study. Those that are kept are stopped while another is used."""

    def __init__(
        self,
        asked: TestbedAsked,
        purpose: str,
        ready: Ready,
        say: Callable[[str], None] = lambda _: None,
        *,
        keeps_guests: bool = True,
    ) -> None:
        """`purpose` says in `vnetbench lab ls` what the testbeds are for; `say` takes a sentence.

        Without `keeps_guests` no snapshot is made or used.
        """
        self._asked = asked
        self._purpose = purpose
        self._ready = ready
        self._starter = Starter(Parts(ready.qemu, ready.software), say, keeps_guests)
        self._beds: list[GuestBed] = []

    @property
    def most_kept(self) -> int:
        """So many testbeds may stand side by side: as many as find memory, one at least."""
        kept = self._kept()
        if not kept:
            return MOST_KEPT
        testbed = kept[-1].testbed
        hardware = testbed.shape.hardware(self._ready.accelerator.name)
        return max(1, min(MOST_KEPT, len(kept) + room_for(hardware) // len(testbed.guests)))

    def shape(self, factors: Mapping[str, Level]) -> GuestShape:
        """See Lab."""
        shape = shape_of(factors, self._asked)
        return replace(shape, line=needs_line(factors, describe("check", shape)))

    def raise_bed(self, name: str, shape: Hashable) -> GuestBed:
        """See Lab; also raises TrialFailed for guests that do not come up."""
        assert isinstance(shape, GuestShape)
        hardware = shape.hardware(self._ready.accelerator.name)
        testbed = describe(name, shape)
        check_memory(len(testbed.guests), hardware)
        registry.register(name, self._purpose, testbed.as_facts())
        bed = GuestBed(
            testbed, {**self._ready.as_facts(), "memory_mib": hardware.memory_mib}, self._let_go_on
        )
        try:
            self._stop_others(bed)
            network.build(testbed, bed.link.start_lines)
            start_inside({vm.name: vm.namespace for vm in testbed.vms}, name, bed.agents)
            bed.take(self._starter.start(testbed, hardware))
        except BaseException:
            bed.close()
            raise
        self._beds.append(bed)
        return bed

    def remove_left(self, prefix: str) -> None:
        """See Lab."""
        for left in registry.entries():
            if left.name.startswith(prefix):
                registry.remove(left.name)

    def _let_go_on(self, bed: GuestBed) -> None:
        self._stop_others(bed)
        bed.pause(False)

    def _stop_others(self, bed: GuestBed) -> None:
        for other in self._kept():
            if other is not bed:
                with suppress(MachineEnded):  # a guest that is gone is found out when it is used next
                    other.pause(True)

    def _kept(self) -> list[GuestBed]:
        self._beds = [bed for bed in self._beds if not bed.is_closed]
        return self._beds
