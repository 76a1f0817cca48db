"""Builds the network of a testbed of guests, and opens the backends of their adapters."""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.endpoint import SIDES
from vnetbench.lab.guest.hardware import AdapterBackend
from vnetbench.lab.guest.topology import MACVTAP_PARENT_INTERFACE, PORTS, TAPS, Guest, GuestTopology, Nic
from vnetbench.lab.guest.virtual_functions import find_vfio_function_pci_addresses
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetDevice, Vm

TUN_DEVICE = Path("/dev/net/tun")
VHOST_VSOCK_DEVICE = Path("/dev/vhost-vsock")
VHOST_NET_DEVICE = Path("/dev/vhost-net")
# <linux/if_tun.h>
_TUNSETIFF = 0x400454CA
_TUNSETPERSIST = 0x400454CB
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR, _IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x4000, 0x0100


def build_network(topology: GuestTopology, start_delay_lines: Callable[[], None]) -> None:
    """Create namespaces, switches, ports and the host's endpoints.

    Args:
        topology: What to build.
        start_delay_lines: Starts the delay line, if there is one, as soon as the switch namespace exists.

    Raises:
        BenchError: if the kernel refuses.
    """
    builder.add_namespace(topology.switch_namespace, builder.NO_IPV6_SYSCTLS)
    if topology.delay_lines:
        start_delay_lines()
    for vm in topology.vms:
        builder.add_namespace(vm.namespace)
    with netlink.open_in_namespace(topology.switch_namespace) as switch:
        if topology.shape.adapter == "macvtap":
            _add_macvtaps(topology, switch)
            return
        bridges = builder.add_bridges(switch, topology.vswitches)
        if topology.uplink_ends:
            builder.add_uplink_between_bridges(switch, topology, bridges)
        for vm in topology.vms:
            if topology.shape.host_endpoint_device_type == PORTS:
                builder.add_vm_port(switch, vm, bridges[_vswitch_for(topology, vm)])
        for nic in (nic for guest in topology.guests for nic in guest.nics):
            if nic.vswitch in bridges:
                add_tap(nic.host_device, topology.shape.queues)
                builder.attach_port(switch, nic.host_device.interface, bridges[nic.vswitch])
            elif topology.shape.host_endpoint_device_type == TAPS:
                add_tap(nic.host_device, topology.shape.queues)
    for vm in topology.vms:
        builder.configure_vm_network(vm)


@contextmanager
def open_backends(topology: GuestTopology, guest: Guest) -> Iterator[list[AdapterBackend]]:
    """Open the backends of a guest's adapters while QEMU starts; raises BenchError."""
    adapter = topology.shape.adapter
    if adapter == "vf":
        function = find_vfio_function_pci_addresses(topology.shape.vf_interface)[topology.guests.index(guest)]
        yield [AdapterBackend(device_options=f"host={function}")]
        return
    vhost = ",vhost=on" if adapter == "virtio-net-vhost" else ""
    if adapter == "macvtap" or topology.shape.host_endpoint_device_type == TAPS:
        open_device = _open_macvtap if adapter == "macvtap" else _open_tap_queue
        with ExitStack() as exit_stack:
            yield [
                _open_backend(nic, topology.shape.queues, open_device, exit_stack, vhost)
                for nic in guest.nics
            ]
        return
    options = f"script=no,downscript=no{vhost}"
    if topology.shape.queues > 1:
        options += f",queues={topology.shape.queues}"
    yield [AdapterBackend(f"tap,ifname={nic.host_device.interface},{options}", nic.mac) for nic in guest.nics]


def _open_backend(
    nic: Nic, queues: int, open_device: Callable[[NetDevice, int], int], exit_stack: ExitStack, options: str
) -> AdapterBackend:
    """Open a tap that QEMU cannot open by name, because it is a macvtap or in another namespace."""
    descriptors = []
    for _ in range(queues):
        descriptors.append(open_device(nic.host_device, queues))
        exit_stack.callback(os.close, descriptors[-1])
    numbers = ":".join(map(str, descriptors))
    return AdapterBackend(f"tap,fds={numbers}{options}", nic.mac, file_descriptors=tuple(descriptors))


def _vswitch_for(topology: GuestTopology, vm: Vm) -> str:
    """Return the virtual switch of an endpoint on the host."""
    for guest in topology.guests:
        if guest.pair == vm.pair and not guest.side:
            return guest.nics[SIDES.index(vm.side)].vswitch
    return topology.vswitches[-1]


def add_tap(device: NetDevice, queues: int) -> None:
    """Create a tap that exists without a process, in the mode in which QEMU will open it."""
    netlink.run_in_namespace(device.namespace, partial(_create_persistent_tap, device, queues))


def _create_persistent_tap(device: NetDevice, queues: int) -> None:
    descriptor = _open_or_create_queue(device, queues)
    try:
        fcntl.ioctl(descriptor, _TUNSETPERSIST, 1)
    finally:
        os.close(descriptor)


def _open_tap_queue(device: NetDevice, total_queue_count: int) -> int:
    """Open a queue of an existing tap in any namespace."""
    return netlink.run_in_namespace(
        device.namespace, partial(_open_or_create_queue, device, total_queue_count)
    )


def _open_or_create_queue(device: NetDevice, total_queue_count: int) -> int:
    """Open a queue of the tap with this name, and create the tap if needed; raises BenchError."""
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR | (_IFF_MULTI_QUEUE if total_queue_count > 1 else 0)
    try:
        descriptor = os.open(TUN_DEVICE, os.O_RDWR)
        try:
            fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", device.interface.encode(), flags))
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise BenchError(
            f"cannot create a tap for a guest: {error.strerror}",
            where=str(TUN_DEVICE),
            fix="run modprobe tun. A container needs the device /dev/net/tun",
        ) from error
    return descriptor


def _add_macvtaps(topology: GuestTopology, switch: IPRoute) -> None:
    """Create macvtaps whose parent leads nowhere; they switch between themselves."""
    switch.link("add", ifname=MACVTAP_PARENT_INTERFACE, kind="veth", peer={"ifname": "low1"})
    parent = netlink.interface_index(switch, MACVTAP_PARENT_INTERFACE)
    for interface in (MACVTAP_PARENT_INTERFACE, "low1"):
        switch.link("set", index=netlink.interface_index(switch, interface), state="up")
    for nic in (nic for guest in topology.guests for nic in guest.nics):
        # The name /dev/tapN contains the interface's index, so it must be unique across namespaces.
        switch.link(
            "add",
            ifname=nic.host_device.interface,
            kind="macvtap",
            link=parent,
            macvtap_mode="bridge",
            index=2**20 + secrets.randbits(29),
            address=nic.mac,
        )
        switch.link("set", index=netlink.interface_index(switch, nic.host_device.interface), state="up")


def _open_macvtap(device: NetDevice, _queues: int) -> int:
    with netlink.open_in_namespace(device.namespace) as ipr:
        path = Path(f"/dev/tap{netlink.interface_index(ipr, device.interface)}")
    try:
        return os.open(path, os.O_RDWR)
    except OSError as error:
        raise BenchError(
            f"cannot open the macvtap: {error.strerror}",
            where=str(path),
            fix="run as root on the machine itself, where /dev is the kernel's own (devtmpfs)",
        ) from error
