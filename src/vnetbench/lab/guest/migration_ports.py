"""Ports of a guest that migrates: those of its new QEMU, beside those of the old one."""

from __future__ import annotations

from dataclasses import replace

from pyroute2 import IPRoute

from vnetbench.lab import netlink
from vnetbench.lab.guest import network
from vnetbench.lab.guest.topology import Guest, GuestTopology, Nic
from vnetbench.lab.netns import builder

_SUFFIX = ".in"


class MigrationPorts:
    """Taps for the adapters of the new QEMU, as ports of the same virtual switches.

    They take over the names of the old taps when the guest has moved, so that the next trial finds the
    testbed as it was. All of them are in the switch namespace, and go with it.
    """

    def __init__(self, topology: GuestTopology, guest: Guest) -> None:
        """Describe the ports of the new QEMU of `guest`."""
        self._topology = topology
        self._nics = guest.nics
        self.guest = replace(guest, nics=tuple(_with_new_port(nic) for nic in guest.nics))
        """The guest with its new ports."""

    def add(self) -> None:
        """Create the new taps with the MTU of the old ones; raises BenchError."""
        namespace = self._topology.switch_namespace
        for old, new in zip(self._nics, self.guest.nics, strict=True):
            network.add_tap(new.host_device, self._topology.shape.queues)
            mtu = netlink.interface_mtu(namespace, old.host_device.interface)
            name = new.host_device.interface
            with netlink.open_in_namespace(namespace) as switch, netlink.translate_netlink_errors(name):
                switch.link("set", index=netlink.interface_index(switch, name), mtu=mtu)
                builder.attach_port(switch, name, netlink.interface_index(switch, new.vswitch))

    def replace_old(self) -> None:
        """Remove the old taps, whose QEMU has ended, and give their names to the new ones."""
        with netlink.open_in_namespace(self._topology.switch_namespace) as switch:
            for old, new in zip(self._nics, self.guest.nics, strict=True):
                name = old.host_device.interface
                with netlink.translate_netlink_errors(name):
                    switch.link("del", index=netlink.interface_index(switch, name))
                    index = netlink.interface_index(switch, new.host_device.interface)
                    # Kernels before 6.2 rename no interface that is up.
                    switch.link("set", index=index, state="down")
                    switch.link("set", index=index, ifname=name)
                    switch.link("set", index=index, state="up")

    def remove(self) -> None:
        """Remove the new taps, as far as they exist."""
        with netlink.open_in_namespace(self._topology.switch_namespace) as switch:
            for nic in self.guest.nics:
                for index in switch.link_lookup(ifname=nic.host_device.interface):
                    switch.link("del", index=index)

    def find_learned_ports(self) -> dict[str, str]:
        """Return the port at which a virtual switch has learned each adapter's address, by adapter."""
        with netlink.open_in_namespace(self._topology.switch_namespace) as switch:
            interface_by_index = {link["index"]: link.get_attr("IFLA_IFNAME") for link in switch.get_links()}
            return {
                nic.guest_interface: str(interface_by_index[index])
                for nic in self.guest.nics
                for index in _find_learned_indexes(switch, nic.mac)
            }


def _with_new_port(nic: Nic) -> Nic:
    interface = f"{nic.host_device.interface}{_SUFFIX}"
    return replace(nic, host_device=replace(nic.host_device, interface=interface))


def _find_learned_indexes(switch: IPRoute, mac: str) -> list[int]:
    entries = switch.fdb("dump")
    return [each["ifindex"] for each in entries if each.get_attr("NDA_LLADDR") == mac]
