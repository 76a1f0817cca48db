"""Teams of Open vSwitch (bonds) with its userspace datapath, as in any namespace of this machine."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab import netlink, registry
from vnetbench.lab.netns import builder, open_vswitch
from vnetbench.lab.netns.topology import NetDevice, namespace_name
from vnetbench.printable import make_printable

APPLICATION_CONTROL = "ovs-appctl"
TEAM_PORT = "team"
LACP_TIMEOUT_S = 20.0
"""Longest wait for LACP. A fast partner sends each second and expires after three (IEEE 802.1AX)."""
MIN_MEMBERS, MAX_MEMBERS = 2, 16
"""A bond has at least two interfaces (ovs-vswitchd.conf.db(5))."""
STATE_POLL_INTERVAL_S = 0.1
REBALANCE_INTERVAL_MS = 4000
"""Interval in which the switch moves buckets; its default is 10 s. A later change would reset the table.
`bond/show` counts loads of balance-tcp at rebalances only."""
REBALANCE_DURATION_S = 1.0
"""Longest time until frames follow a new table: revalidators replace the datapath's flows every 500 ms."""


@dataclass(frozen=True)
class OpenVswitch:
    """A running Open vSwitch of its own in a namespace."""

    folder: Path
    control: tuple[str, ...]
    log: Path

    def change(self, *arguments: str) -> None:
        """Run `ovs-vsctl`, which waits until the switch has applied the change; raises BenchError."""
        open_vswitch.run_tool([*self.control, *arguments], self.log)

    def query(self, *arguments: str) -> str:
        """Return the output of `ovs-appctl`; raises BenchError."""
        (socket,) = self.folder.glob(f"{open_vswitch.SWITCH}.*.ctl")
        program = open_vswitch.find_program(APPLICATION_CONTROL)
        return open_vswitch.run_tool([program, "-t", str(socket), *arguments], self.log)

    def add_bond(self, bridge: str, members: Sequence[str], settings: Sequence[str]) -> None:
        """Create a bridge with one bond; `settings` are columns of its port, such as `lacp=active`."""
        # In one change with the new bond, the switch would keep the earlier bond of this name with its table.
        self.change("--if-exists", "del-br", bridge)
        self.change(
            *("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev"),
            *("--", "add-bond", bridge, _bond_name(bridge), *members, *settings),
        )

    def read_bond(self, bridge: str) -> str:
        """Return `ovs-appctl bond/show` of a bridge's bond; raises BenchError."""
        return self.query("bond/show", _bond_name(bridge))

    def wait_for_bond(self, bridge: str, is_reached: Callable[[str], bool]) -> str:
        """Return the first `bond/show` that fulfils a condition; raises BenchError after LACP_TIMEOUT_S."""
        deadline = time.monotonic() + LACP_TIMEOUT_S
        while not is_reached(text := self.read_bond(bridge)):
            if time.monotonic() > deadline:
                raise BenchError(
                    f"the bond did not reach the expected state within {LACP_TIMEOUT_S:g} s; its last state: "
                    + make_printable(" | ".join(text.split("\n"))),
                    where=f"bridge {bridge}",
                )
            time.sleep(STATE_POLL_INTERVAL_S)
        return text


def start_open_vswitch(testbed_name: str, namespace: str) -> OpenVswitch:
    """Start Open vSwitch in a testbed's namespace; it ends with the testbed. Raises BenchError."""
    control, log = open_vswitch.start_daemons(testbed_name, namespace)
    return OpenVswitch(registry.ensure_testbed_folder(testbed_name), tuple(control), log)


@dataclass(frozen=True)
class OpenVswitchTeam:
    """A bond of Open vSwitch between a source and as many links as it has members."""

    switch: OpenVswitch
    source: NetDevice
    """The interface whose frames the switch receives."""
    members: tuple[NetDevice, ...]
    """The far end of each member's link."""
    version: str

    @property
    def member_names(self) -> tuple[str, ...]:
        """The switch's names of the members, in their order in the team."""
        return tuple(_member_interface_name(number) for number in range(len(self.members)))

    def configure(self, mode: str, *, has_lacp: bool = False) -> None:
        """Create the bond anew, and wait until its members may send.

        Args:
            mode: `balance-slb`, `balance-tcp` or `active-backup`.
            has_lacp: Whether the far ends are a bond of a second bridge, and both negotiate LACP.

        Raises:
            BenchError: if the switch refuses the mode, or LACP is not negotiated in time.
        """
        lacp = ("lacp=active", "other_config:lacp-time=fast") if has_lacp else ("lacp=off",)
        self.switch.change("--if-exists", "del-br", "far")
        interval = f"other_config:bond-rebalance-interval={REBALANCE_INTERVAL_MS}"
        self.switch.add_bond("near", self.member_names, (f"bond_mode={mode}", interval, *lacp))
        self.switch.change("add-port", "near", "in")
        if has_lacp:
            far_names = [member.interface for member in self.members]
            self.switch.add_bond("far", far_names, (f"bond_mode={mode}", *lacp))
        self.switch.wait_for_bond("near", lambda text: is_ready(text, len(self.members), has_lacp))

    def set_active_member(self, number: int) -> None:
        """Make a member the active one; raises BenchError."""
        self.switch.query("bond/set-active-member", _bond_name("near"), self.member_names[number])

    def wait_for_rebalance(self) -> None:
        """Wait until the switch has moved buckets, which it repeats an interval later."""
        due = re.search(r"^next rebalance: (-?\d+) ms$", self.read_bond(), re.MULTILINE)
        if due is not None:
            time.sleep(max(0, int(due[1])) / 1000 + REBALANCE_DURATION_S)

    def read_bond(self) -> str:
        """Return `ovs-appctl bond/show`; raises BenchError."""
        return self.switch.read_bond("near")


def is_ready(bond_show: str, member_count: int, has_lacp: bool) -> bool:
    """Return whether all members of a bond are enabled, and LACP is negotiated if it is on."""
    is_negotiated = "lacp_status: negotiated" in bond_show or not has_lacp
    enabled = re.findall(r"^(?:member|slave) .+: enabled$", bond_show, re.MULTILINE)
    return is_negotiated and len(enabled) == member_count


@contextmanager
def start_open_vswitch_team(member_count: int) -> Iterator[OpenVswitchTeam]:
    """Start Open vSwitch with a source and links; it ends with the context.

    Raises:
        BenchError: if the number is out of range, or Open vSwitch is not installed.
    """
    if not MIN_MEMBERS <= member_count <= MAX_MEMBERS:
        raise BenchError(
            f"a bond of Open vSwitch has {MIN_MEMBERS} to {MAX_MEMBERS} members here, not {member_count}",
            fix=f"request {MIN_MEMBERS} to {MAX_MEMBERS} members",
        )
    version = open_vswitch.installed_version()
    name = f"team-{secrets.token_hex(4)}"
    namespace = namespace_name(name, "sw")
    pairs = [("in", "source")]
    pairs += [(_member_interface_name(number), f"far{number}") for number in range(member_count)]
    registry.register_testbed(
        name, "team of Open vSwitch", {"name": name, "links": [far for _, far in pairs]}
    )
    try:
        builder.add_namespace(namespace, builder.NO_IPV6_SYSCTLS)
        with netlink.open_in_namespace(namespace) as ipr:
            for near, far in pairs:
                ipr.link("add", ifname=near, kind="veth", peer={"ifname": far})
                for interface in (near, far):
                    ipr.link("set", index=netlink.interface_index(ipr, interface), state="up")
        source, *members = (NetDevice(f"interface {far}", namespace, far) for _, far in pairs)
        yield OpenVswitchTeam(start_open_vswitch(name, namespace), source, tuple(members), version)
    finally:
        registry.remove_testbed_and_list_remaining_groups(name)


def _member_interface_name(number: int) -> str:
    return f"member{number}"


def _bond_name(bridge: str) -> str:
    return f"{TEAM_PORT}-{bridge}"
