"""The lab `qemu`, which creates testbeds of guests with real adapters and their real drivers."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace

from vnetbench.agents.launch import start_agents_in_namespaces
from vnetbench.lab import registry
from vnetbench.lab.guest import cpu_pinning, network
from vnetbench.lab.guest.hardware import (
    DEFAULT_VIRTIO_RING_SIZE,
    Hardware,
    check_memory,
    count_guests_fitting_free_memory,
)
from vnetbench.lab.guest.launcher import GuestLauncher, GuestSoftware, RunningGuest
from vnetbench.lab.guest.prerequisites import GuestPrerequisites
from vnetbench.lab.guest.qemu import VIRTIO_ADAPTERS
from vnetbench.lab.guest.qemu_process import QemuEnded, QemuProcess
from vnetbench.lab.guest.team_network import build_team_network
from vnetbench.lab.guest.team_topology import GuestTeamTopology, make_guest_topology
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.lab.guest.topology import BRIDGE, PORTS, ROUTER, TAPS, Guest, GuestShape, GuestTopology
from vnetbench.lab.links.impaired_link import needs_delay_line
from vnetbench.study.factors.frame_factors import FRAME_SIZE
from vnetbench.study.factors.guest_factors import (
    ADAPTER,
    GUEST_PAIRS,
    GUEST_ROLE,
    LRO,
    RX_RING,
    TX_RING,
    VCPUS,
)
from vnetbench.study.factors.load_factors import TRANSPORT, VSOCK
from vnetbench.study.factors.team_factors import teams_of_treatment
from vnetbench.study.factors.testbed_factors import QUEUES
from vnetbench.study.model import Level, TestbedSpec

MAX_TESTBEDS = 4
MIGRATED_SUFFIX = ".2"
"""End of the name of a guest's other QEMU, to which it migrates and from which it comes back."""


def guest_shape(factors: Mapping[str, Level], spec: TestbedSpec) -> GuestShape:
    """Return what a treatment requires of its guests."""
    adapter = str(factors[ADAPTER.name])
    # Queues and long rings are part of a virtio adapter's hardware; other adapters' drivers set them.
    is_virtio = adapter in VIRTIO_ADAPTERS
    rings = (int(factors.get(ring.name, 1)) if is_virtio else 1 for ring in (RX_RING, TX_RING))
    # The hardware's ring is a power of two, within which the driver sets the requested size.
    rx_ring, tx_ring = (max(DEFAULT_VIRTIO_RING_SIZE, 1 << (ring - 1).bit_length()) for ring in rings)
    team = next(iter(teams_of_treatment(spec, factors)), None)
    return GuestShape(
        adapter=adapter,
        vcpus=int(factors[VCPUS.name]),
        queues=int(factors.get(QUEUES.name, 1)) if is_virtio else 1,
        pairs=int(factors[GUEST_PAIRS.name]),
        role=str(factors[GUEST_ROLE.name]),
        rx_ring=rx_ring,
        tx_ring=tx_ring,
        lro=str(factors.get(LRO.name, "")) if adapter == "vmxnet3" else "",
        uplink=spec.uplink,
        vf_interface=spec.vf_interface or "",
        vsock=TRANSPORT.is_at(factors, VSOCK),
        # Frames go to the guest directly: a switch on the path would be part of the device under test.
        host_endpoint_device_type=TAPS
        if FRAME_SIZE.is_present_in(factors) and GUEST_ROLE.is_at(factors, ROUTER, BRIDGE)
        else PORTS,
        team_location=team.location if team else "",
        team_link_count=team.links if team else 0,
    )


def check_guest_pinning(factors: Mapping[str, Level], spec: TestbedSpec) -> None:
    """Raise BenchError if a treatment pins its guests' threads to CPUs that this machine lacks."""
    shape = guest_shape(factors, spec)
    guests = [(guest.name, guest.side) for guest in make_guest_topology("check", shape).guests]
    levels = cpu_pinning.pinning_levels(factors)
    cpu_pinning.check_pinning(*levels, guests, shape.vcpus, frozenset(os.sched_getaffinity(0)))


class QemuLab:
    """Creates testbeds of guests for one study. Only one runs at a time; the others are paused."""

    def __init__(
        self,
        spec: TestbedSpec,
        purpose: str,
        prerequisites: GuestPrerequisites,
        notify: Callable[[str], None] = lambda _: None,
        *,
        uses_snapshots: bool = True,
    ) -> None:
        """Create testbeds for a study's testbed section.

        Args:
            spec: The study's testbed section.
            purpose: Shown by `vnetbench lab ls`.
            prerequisites: What guests need, found or built before.
            notify: Receives messages for the user.
            uses_snapshots: Whether to make and use snapshots.
        """
        self._spec = spec
        self._purpose = purpose
        self._prerequisites = prerequisites
        self._launcher = GuestLauncher(
            GuestSoftware(prerequisites.qemu, prerequisites.boot_images), notify, uses_snapshots
        )
        self._testbeds: list[GuestTestbed] = []

    @property
    def max_testbeds(self) -> int:
        """Maximum number of testbeds kept, which the free memory limits; at least one."""
        existing = self._forget_closed_and_list_testbeds()
        if not existing:
            return MAX_TESTBEDS
        topology = existing[-1].topology
        hardware = topology.shape.hardware(self._prerequisites.accelerator.name)
        fitting = count_guests_fitting_free_memory(hardware) // len(topology.guests)
        return max(1, min(MAX_TESTBEDS, len(existing) + fitting))

    def testbed_shape(self, factors: Mapping[str, Level]) -> GuestShape:
        """See Lab."""
        shape = guest_shape(factors, self._spec)
        return replace(shape, delay_line=needs_delay_line(factors, make_guest_topology("check", shape)))

    def create_testbed(self, name: str, shape: Hashable) -> GuestTestbed:
        """See Lab. Also raises TrialFailed if guests do not start."""
        assert isinstance(shape, GuestShape)
        hardware = shape.hardware(self._prerequisites.accelerator.name)
        topology = make_guest_topology(name, shape)
        check_memory(len(topology.guests), hardware)
        registry.register_testbed(name, self._purpose, topology.describe())
        testbed = GuestTestbed(
            topology,
            {**self._prerequisites.describe(), "memory_mib": hardware.memory_mib},
            self._pause_others_and_resume,
            lambda moving, guest: self._start_migration_target(topology, hardware, moving, guest),
        )
        try:
            self._pause_others(testbed)
            if isinstance(topology, GuestTeamTopology):
                build_team_network(topology)
            else:
                network.build_network(topology, testbed.link.start_delay_lines)
            start_agents_in_namespaces({vm.name: vm.namespace for vm in topology.vms}, name, testbed.agents)
            testbed.adopt_guests(self._launcher.start(topology, hardware))
        except BaseException:
            testbed.close()
            raise
        self._testbeds.append(testbed)
        return testbed

    def remove_unfinished_testbeds(self, name_prefix: str) -> None:
        """See Lab."""
        for left in registry.list_registered_and_leftover_testbeds():
            if left.name.startswith(name_prefix):
                registry.remove_testbed_and_list_remaining_groups(left.name)

    def _start_migration_target(
        self, topology: GuestTopology, hardware: Hardware, moving: RunningGuest, guest: Guest
    ) -> QemuProcess:
        check_memory(1, hardware)
        # The two processes of a guest take turns with two names, because each has files.
        old_stem = moving.process.files.file_stem
        file_stem = f"{guest.name}{MIGRATED_SUFFIX}" if old_stem == guest.name else guest.name
        generation_id = str(moving.process.query("query-vm-generation-id")["guid"])
        return self._launcher.start_migration_target(topology, hardware, guest, file_stem, generation_id)

    def _pause_others_and_resume(self, testbed: GuestTestbed) -> None:
        self._pause_others(testbed)
        testbed.set_paused(False)

    def _pause_others(self, testbed: GuestTestbed) -> None:
        for other in self._forget_closed_and_list_testbeds():
            if other is not testbed:
                with suppress(QemuEnded):  # The next use of that testbed reports it.
                    other.set_paused(True)

    def _forget_closed_and_list_testbeds(self) -> list[GuestTestbed]:
        self._testbeds = [testbed for testbed in self._testbeds if not testbed.is_closed]
        return self._testbeds
