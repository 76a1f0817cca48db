"""Teams of Open vSwitch (bonds) with its userspace datapath, as in any namespace of this machine."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab import netlink, registry
from vnetbench.lab.netns import builder, open_vswitch
from vnetbench.lab.netns.open_vswitch_bonds import (
    LACP_NEGOTIATED,
    OpenVswitch,
    bond_name,
    is_ready,
    lacp_columns,
    start_open_vswitch,
)
from vnetbench.lab.netns.topology import NetDevice, namespace_name
from vnetbench.study.teams import MAX_TEAM_LINKS, MIN_TEAM_LINKS

REBALANCE_INTERVAL_MS = 4000
"""Interval in which the switch moves buckets; its default is 10 s. A later change would reset the table.
`bond/show` counts loads of balance-tcp at rebalances only."""
REBALANCE_DURATION_S = 1.0
"""Longest time until frames follow a new table: revalidators replace the datapath's flows every 500 ms."""


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
        lacp = lacp_columns("fast" if has_lacp else "off")
        self.switch.change("--if-exists", "del-br", "far")
        interval = f"other_config:bond-rebalance-interval={REBALANCE_INTERVAL_MS}"
        self.switch.replace_bridge("near")
        self.switch.add_bond("near", self.member_names, (f"bond_mode={mode}", interval, *lacp))
        self.switch.change("add-port", "near", "in")
        if has_lacp:
            far_names = [member.interface for member in self.members]
            self.switch.replace_bridge("far")
            self.switch.add_bond("far", far_names, (f"bond_mode={mode}", *lacp))
        status = LACP_NEGOTIATED if has_lacp else None
        self.switch.wait_for_bond("near", lambda text: is_ready(text, len(self.members), status))

    def set_active_member(self, number: int) -> None:
        """Make a member the active one; raises BenchError."""
        self.switch.query("bond/set-active-member", bond_name("near"), self.member_names[number])

    def wait_for_rebalance(self) -> None:
        """Wait until the switch has moved buckets, which it repeats an interval later."""
        due = re.search(r"^next rebalance: (-?\d+) ms$", self.read_bond(), re.MULTILINE)
        if due is not None:
            time.sleep(max(0, int(due[1])) / 1000 + REBALANCE_DURATION_S)

    def read_bond(self) -> str:
        """Return `ovs-appctl bond/show`; raises BenchError."""
        return self.switch.read_bond("near")


@contextmanager
def start_open_vswitch_team(member_count: int) -> Iterator[OpenVswitchTeam]:
    """Start Open vSwitch with a source and links; it ends with the context.

    Raises:
        BenchError: if the number is out of range, or Open vSwitch is not installed.
    """
    if not MIN_TEAM_LINKS <= member_count <= MAX_TEAM_LINKS:
        raise BenchError(
            f"a bond of Open vSwitch has {MIN_TEAM_LINKS} to {MAX_TEAM_LINKS} members here, "
            f"not {member_count}",
            fix=f"request {MIN_TEAM_LINKS} to {MAX_TEAM_LINKS} members",
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
                builder.add_veth(ipr, near, far)
        source, *members = (NetDevice(f"interface {far}", namespace, far) for _, far in pairs)
        yield OpenVswitchTeam(start_open_vswitch(name, namespace), source, tuple(members), version)
    finally:
        registry.remove_testbed_and_list_remaining_groups(name)


def _member_interface_name(number: int) -> str:
    return f"member{number}"
