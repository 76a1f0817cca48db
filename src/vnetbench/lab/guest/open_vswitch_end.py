"""A bond of Open vSwitch on the host as the far end of a team of guests: both negotiate LACP."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pyroute2.ethtool.ioctl import IoctlEthtool

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.guest.team_topology import FAR_SWITCH, GuestTeamTopology
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.open_vswitch_bonds import OpenVswitch, bond_name, start_open_vswitch
from vnetbench.lab.netns.open_vswitch_team import bond_columns, is_bond_ready, read_bond_end
from vnetbench.lab.netns.testbed_team import interfaces_of
from vnetbench.study.teams import TeamSpec
from vnetbench.teaming.state.team_state import TeamState

OVS_BRIDGE = "sw2"
"""The bridge of Open vSwitch that has the bond."""
OVS_PORT, SWITCH_PORT = "sw2-to-sw1", "sw1-to-sw2"
"""The ends of the link that joins it with the far switch, where the far VMs are."""


class OpenVswitchEnd:
    """A bond of Open vSwitch at the far end of the links of one testbed.

    The switch starts with the first treatment that needs it, and ends with the testbed.
    """

    def __init__(self, topology: GuestTeamTopology) -> None:
        """Make the end of a testbed, without a bond."""
        self._topology = topology
        self._switch: OpenVswitch | None = None

    @property
    def _links(self) -> list[str]:
        assert self._topology.team is not None
        return interfaces_of(self._topology.team.far)

    def remove(self) -> None:
        """Remove the bond, if there is one, so that its links can be joined with something else."""
        if self._switch is not None:
            self._switch.change("--if-exists", "del-port", OVS_BRIDGE, bond_name(OVS_BRIDGE))
            self._set_checksum_offload(is_on=True)

    def create(self, spec: TeamSpec) -> None:
        """Create the bond with the policy of the team's far end; raises BenchError."""
        assert spec.far_policy is not None
        if self._switch is None:
            self._switch = self._start_switch()
        self._set_checksum_offload(is_on=False)
        is_active = spec.is_far_end_active
        columns = bond_columns(spec, spec.far_policy, self._links[0], is_active=is_active)
        self._switch.add_bond(OVS_BRIDGE, self._links, columns)

    def find_reason_not_ready(self, spec: TeamSpec) -> str:
        """Return why the bond may not carry the load yet; empty if all its members may send."""
        assert self._switch is not None
        if is_bond_ready(self._switch.read_bond(OVS_BRIDGE), spec):
            return ""
        return "LACP of the bond of Open vSwitch is not in the expected state on all links"

    def read_state(self, spec: TeamSpec) -> TeamState:
        """Return the state of the bond; raises BenchError."""
        assert self._switch is not None and self._topology.team is not None
        return read_bond_end(self._switch, OVS_BRIDGE, self._topology.team.far, spec)

    def _start_switch(self) -> OpenVswitch:
        topology = self._topology
        switch = start_open_vswitch(topology.testbed_name, topology.switch_namespace)
        switch.replace_bridge(OVS_BRIDGE)
        with netlink.open_in_namespace(topology.switch_namespace) as ipr:
            builder.add_veth(ipr, OVS_PORT, SWITCH_PORT)
            builder.attach_port(ipr, SWITCH_PORT, netlink.interface_index(ipr, FAR_SWITCH))
        switch.change("add-port", OVS_BRIDGE, OVS_PORT)
        return switch

    def _set_checksum_offload(self, *, is_on: bool) -> None:
        """Let the interfaces that send to Open vSwitch leave checksums and segments to it, or make them.

        Its packet sockets lose the metadata that a packet lacks its checksum or must be segmented.
        """
        assert self._topology.team is not None
        names = [*interfaces_of(self._topology.team.near), SWITCH_PORT]
        netlink.run_in_namespace(
            self._topology.switch_namespace, partial(_set_checksum_offload, names, is_on=is_on)
        )


def _set_checksum_offload(interfaces: Iterable[str], *, is_on: bool) -> None:
    for name in interfaces:
        tool = IoctlEthtool(name)
        try:
            tool.set_offload_flag("tx-checksumming", int(is_on))
            if tool.get_offload_flags()["tx-checksumming"] != is_on:
                raise BenchError(
                    "the kernel did not change the checksum offload",
                    where=name,
                    fix='use another far end than Open vSwitch, such as far_end = "same"',
                )
        finally:
            tool.close()
