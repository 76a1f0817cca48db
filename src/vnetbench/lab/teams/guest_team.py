"""A team of Linux's bonding driver in a guest, with all its links as taps of this machine.

The guest forwards each frame from its first adapter to the team of its others: a gateway VM with a team. Its
kernel is the distribution's, which has the driver even if this machine's kernel has not.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from vnetbench.agents.client import AgentError
from vnetbench.errors import BenchError
from vnetbench.lab import netlink, registry
from vnetbench.lab.endpoint import NO_SIDE
from vnetbench.lab.guest import network
from vnetbench.lab.guest.hardware import Adapter, Hardware, check_memory, guest_mac
from vnetbench.lab.guest.launcher import GuestLauncher, GuestSoftware, RunningGuest, close_guests
from vnetbench.lab.guest.prerequisites import GuestPrerequisites, prepare_guests
from vnetbench.lab.guest.qemu import VIRTIO_ADAPTERS
from vnetbench.lab.guest.qmp import MonitorError
from vnetbench.lab.guest.topology import GUEST_TO_HOST, TAPS, Guest, GuestShape, GuestTopology, Nic
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetDevice, namespace_name
from vnetbench.lab.text_state import wait_for_text
from vnetbench.printable import make_printable

TEAM_INTERFACE = "bond0"
REQUIRED_MODULES = ("bonding", "bridge")
MAX_MEMBERS = 8
LINK_SPEED_MBPS = 1000
"""Speed that virtio adapters of the guest report. LACP needs a known one; nothing limits the rate to it."""
SOURCE_MAC_SIDE, MEMBER_MAC_SIDE = 5, 6
"""Parts of the guest's MAC addresses (`guest_mac`) that no other guest of the bench has."""


@dataclass(frozen=True)
class GuestTeam:
    """A running guest with one adapter for its source and one for each member of its team."""

    testbed_name: str
    source: NetDevice
    """The tap whose frames the guest forwards to its team."""
    members: tuple[NetDevice, ...]
    """The taps of the team's members, in their order in the team."""
    facts: Mapping[str, object]
    _running: RunningGuest

    @property
    def member_names(self) -> tuple[str, ...]:
        """The guest's names of the members, in their order in the team."""
        return tuple(_member_interface_name(number) for number in range(len(self.members)))

    def configure(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Create the team anew with these options of the bonding driver; return them as read back.

        Args:
            options: Values by the names of Documentation/networking/bonding.rst, such as `mode`.

        Raises:
            BenchError: if the kernel refuses an option.
        """
        names = list(self.member_names)
        try:
            answer = self._running.agent.call(
                "guest.team",
                name=TEAM_INTERFACE,
                members=names,
                options=dict(options),
                bridged_with=["eth0"],
            )
        except AgentError as error:
            raise BenchError(
                error.message,
                where=f"team of {self.testbed_name}",
                fix="compare the options with Documentation/networking/bonding.rst of the guest's kernel "
                f"({self.facts['guest_kernel']})",
            ) from error
        if answer["members"] != names:
            raise BenchError(f"the team has the members {answer['members']}, not {names}")
        return {str(name): make_printable(str(value)) for name, value in answer["options"].items()}

    def read_state(self) -> str:
        """Return the guest's /proc/net/bonding file of the team."""
        return str(self._running.agent.call("guest.team_state", name=TEAM_INTERFACE)["bonding"])

    def set_member_link(self, number: int, *, is_up: bool) -> None:
        """Give a member a link or take it, as if its cable were pulled; raises BenchError."""
        try:
            # QEMU numbers the network devices as the adapters: the source is the first.
            self._running.process.monitor.execute("set_link", name=f"net{1 + number}", up=is_up)
        except MonitorError as error:
            raise BenchError(
                f"QEMU refused to change a link ({error})", where=self.members[number].display_name
            ) from error

    def wait_for_state(self, is_reached: Callable[[str], bool], timeout_s: float) -> str:
        """Return the first state that fulfils a condition; raises BenchError after the timeout."""
        return wait_for_text(
            self.read_state, is_reached, timeout_s, what="the team", where=f"team of {self.testbed_name}"
        )


def prepare_team_guest(adapter: str = "virtio-net") -> GuestPrerequisites:
    """Prepare a guest whose kernel has the bonding driver; raises BenchError."""
    prerequisites = prepare_guests([_shape(adapter)])
    if missing := prerequisites.kernel.modules.list_missing(REQUIRED_MODULES):
        raise BenchError(
            f"the guests' kernel {prerequisites.kernel.release} has no module {', '.join(missing)}",
            where=prerequisites.kernel.source,
            fix="install and boot a kernel with these modules, such as the distribution's",
        )
    return prerequisites


@contextmanager
def start_guest_team(
    member_count: int,
    prerequisites: GuestPrerequisites,
    adapter: str = "virtio-net",
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[GuestTeam]:
    """Start a guest with this number of adapters for its team; it ends with the context.

    Raises:
        BenchError: if the number is not from 1 to MAX_MEMBERS, or something is missing on this machine.
    """
    if not 1 <= member_count <= MAX_MEMBERS:
        raise BenchError(
            f"a team of a guest has 1 to {MAX_MEMBERS} members, not {member_count}",
            fix=f"request at most {MAX_MEMBERS} members",
        )
    name = f"team-{secrets.token_hex(4)}"
    member = Adapter(adapter, link_speed_mbps=LINK_SPEED_MBPS if adapter in VIRTIO_ADAPTERS else None)
    hardware = Hardware(prerequisites.accelerator.name, 1, (member,) * (1 + member_count))
    check_memory(1, hardware)
    topology = _make_topology(name, member_count, adapter)
    registry.register_testbed(name, "team in a guest", topology.describe_team())
    running: list[RunningGuest] = []
    try:
        builder.add_namespace(topology.switch_namespace, builder.NO_IPV6_SYSCTLS)
        for device in topology.taps:
            network.add_tap(device, 1)
        with netlink.open_in_namespace(topology.switch_namespace) as ipr:
            for device in topology.taps:
                ipr.link("set", index=netlink.interface_index(ipr, device.interface), state="up")
        launcher = GuestLauncher(GuestSoftware(prerequisites.qemu, prerequisites.boot_images), notify)
        running = launcher.start(topology, hardware)
        source, *members = topology.taps
        yield GuestTeam(name, source, tuple(members), prerequisites.describe(), running[0])
    finally:
        close_guests(running)
        registry.remove_testbed_and_list_remaining_groups(name)


@dataclass(frozen=True)
class TeamTopology(GuestTopology):
    """One guest whose adapters are taps in one namespace: its source, then the members."""

    @property
    def taps(self) -> tuple[NetDevice, ...]:
        """The taps in the order of the guest's adapters."""
        return tuple(nic.host_device for nic in self.guests[0].nics)

    def describe_team(self) -> dict[str, object]:
        """Return the description for `vnetbench lab ls`."""
        return {"name": self.testbed_name, "guests": ["g1"], "links": [tap.interface for tap in self.taps]}


def _make_topology(testbed_name: str, member_count: int, adapter: str) -> TeamTopology:
    namespace = namespace_name(testbed_name, "sw")
    nics = [Nic("eth0", guest_mac(SOURCE_MAC_SIDE, 1, 0), (), _tap(namespace, "source"), "")]
    for number in range(member_count):
        mac = guest_mac(MEMBER_MAC_SIDE, 1, number)
        nics.append(Nic(_member_interface_name(number), mac, (), _tap(namespace, f"member{number}"), ""))
    guest = Guest("g1", NO_SIDE, 1, tuple(nics))
    return TeamTopology(testbed_name, _shape(adapter), (guest,), (), namespace, (), (), ((),))


def _shape(adapter: str) -> GuestShape:
    return GuestShape(adapter=adapter, role=GUEST_TO_HOST, host_endpoint_device_type=TAPS)


def _tap(namespace: str, interface: str) -> NetDevice:
    return NetDevice(f"tap {interface}", namespace, interface)


def _member_interface_name(number: int) -> str:
    """Return the guest's name of a member."""
    return f"eth{1 + number}"
