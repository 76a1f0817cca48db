"""The network of a testbed whose guests have a team: links, the bridges at their ends, and the far switch."""

from __future__ import annotations

from typing import Literal

from pyroute2 import IPRoute

from vnetbench.lab import netlink
from vnetbench.lab.guest.network import add_tap
from vnetbench.lab.guest.team_topology import FAR_SWITCH, NEAR_SWITCH, GuestTeamTopology
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetDevice

FarEnd = Literal["bond in a guest", "bond of Open vSwitch", "switch"]
"""What the far ends of the links lead to; the switch does not bundle them."""
LACP_GROUP_BIT = 1 << 2
"""Bit of the group address 01:80:c2:00:00:02, which a bridge otherwise keeps (IEEE 802.1Q, table 8-1)."""


def build_team_network(topology: GuestTeamTopology) -> None:
    """Create namespaces, switches, links, taps of the guests' adapters, and the host's endpoints.

    Raises:
        BenchError: if the kernel refuses.
    """
    builder.add_namespace(topology.switch_namespace, builder.NO_IPV6_SYSCTLS)
    for vm in topology.vms:
        builder.add_namespace(vm.namespace)
    with netlink.open_in_namespace(topology.switch_namespace) as switch:
        _connect(topology, switch)
    for vm in topology.vms:
        builder.configure_vm_network(vm)


def _connect(topology: GuestTeamTopology, switch: IPRoute) -> None:
    assert topology.team is not None
    bridges = builder.add_bridges(switch, topology.vswitches)
    builder.add_team_links(switch, topology.team)
    for vm in topology.vms:
        builder.add_vm_port(switch, vm, bridges[NEAR_SWITCH if vm.side == "a" else FAR_SWITCH])
    for nic in (nic for guest in topology.guests for nic in guest.nics):
        add_tap(nic.host_device, 1)
        builder.attach_port(switch, nic.host_device.interface, bridges[nic.vswitch])
    for end, devices in zip(topology.team_ends, (topology.team.near, topology.team.far), strict=True):
        for patch, device, tap in zip(end.patches, devices, end.member_taps, strict=True):
            builder.attach_port(switch, device.interface, bridges[patch])
            for port in (device, tap):
                _forward_as_a_cable(switch, port)


def connect_far_end(topology: GuestTeamTopology, far_end: FarEnd) -> None:
    """Join each link with its member of the far guest, with the far switch, or with no bridge of the kernel.

    A far guest that is an endpoint and has no bond has one adapter at the far switch.

    Raises:
        BenchError: if the kernel refuses.
    """
    assert topology.team is not None
    _, far = topology.team_ends
    with netlink.open_in_namespace(topology.switch_namespace) as ipr:
        has_guest_bond = far_end == "bond in a guest"
        for device, tap, patch in zip(topology.team.far, far.member_taps, far.patches, strict=True):
            if far_end == "bond of Open vSwitch":
                _leave_bridge(ipr, device)
            else:
                _move_port(ipr, device, patch if has_guest_bond else FAR_SWITCH, is_cable=has_guest_bond)
            # The first adapter of an endpoint leads to the switch, those of a gateway lead nowhere.
            is_single_adapter = not has_guest_bond and not far.inner_nics and patch == far.patches[0]
            _move_port(ipr, tap, FAR_SWITCH if is_single_adapter else patch, is_cable=not is_single_adapter)


def _move_port(ipr: IPRoute, device: NetDevice, bridge: str, *, is_cable: bool) -> None:
    index = netlink.interface_index(ipr, device.interface)
    master = netlink.interface_index(ipr, bridge)
    with netlink.translate_netlink_errors(device.display_name):
        (link,) = ipr.get_links(index)
        if link.get_attr("IFLA_MASTER") != master:
            ipr.link("set", index=index, master=master)
    if is_cable:
        _forward_as_a_cable(ipr, device)


def _leave_bridge(ipr: IPRoute, device: NetDevice) -> None:
    index = netlink.interface_index(ipr, device.interface)
    with netlink.translate_netlink_errors(device.display_name):
        ipr.link("set", index=index, master=0)


def _forward_as_a_cable(ipr: IPRoute, device: NetDevice) -> None:
    """Let a bridge of two ports forward each frame from this port as a cable does, also those of LACP."""
    with netlink.translate_netlink_errors(device.display_name):
        ipr.brport(
            "set",
            index=netlink.interface_index(ipr, device.interface),
            group_fwd_mask=LACP_GROUP_BIT,
            learning=0,
        )
