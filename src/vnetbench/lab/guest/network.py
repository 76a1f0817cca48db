"""The network of a testbed of guests: switches and their ports, and what QEMU plugs adapters into."""

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
from vnetbench.lab.guest.hardware import Plug
from vnetbench.lab.guest.topology import MACVTAP_PARENT, PORTS, TAPS, Guest, GuestTestbed, Nic
from vnetbench.lab.guest.virtual_functions import functions_of
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import Device, Vm

TUN = Path("/dev/net/tun")
VHOST_VSOCK = Path("/dev/vhost-vsock")
VHOST = Path("/dev/vhost-net")
# <linux/if_tun.h>
_TUNSETIFF = 0x400454CA
_TUNSETPERSIST = 0x400454CB
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR, _IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x4000, 0x0100


def build(testbed: GuestTestbed, start_lines: Callable[[], None]) -> None:
    """Make namespaces, switches, ports and the host's own ends; raises BenchError when the kernel refuses.

    `start_lines` makes the delay line, where the testbed has one, when there is a namespace for it.
    """
    builder.add_namespace(testbed.switch_namespace, builder.NO_IPV6)
    if testbed.lines:
        start_lines()
    for vm in testbed.vms:
        builder.add_namespace(vm.namespace)
    with netlink.in_namespace(testbed.switch_namespace) as switch:
        if testbed.shape.adapter == "macvtap":
            _add_macvtaps(testbed, switch)
            return
        bridges = builder.add_bridges(switch, testbed.vswitches)
        if testbed.uplinks:
            builder.add_uplink(switch, testbed, bridges)
        for vm in testbed.vms:
            if testbed.shape.ends == PORTS:
                builder.add_vm_port(switch, vm, bridges[_vswitch_of(testbed, vm)])
        for nic in (nic for guest in testbed.guests for nic in guest.nics):
            if nic.vswitch in bridges:
                _add_tap(nic.port, testbed.shape.queues)
                builder.plug_in(switch, nic.port.interface, bridges[nic.vswitch])
            elif testbed.shape.ends == TAPS:
                _add_tap(nic.port, testbed.shape.queues)
    for vm in testbed.vms:
        builder.give_addresses(vm)


@contextmanager
def plugs(testbed: GuestTestbed, guest: Guest) -> Iterator[list[Plug]]:
    """What QEMU plugs a guest's adapters into, while it is being started; raises BenchError."""
    kind = testbed.shape.adapter
    if kind == "vf":
        place = testbed.guests.index(guest)
        yield [Plug(device=f"host={functions_of(testbed.shape.vf_of)[place]}")]
        return
    vhost = ",vhost=on" if kind == "virtio-net-vhost" else ""
    if kind == "macvtap" or testbed.shape.ends == TAPS:
        open_one = _open_macvtap if kind == "macvtap" else _open_tap
        with ExitStack() as opened:
            yield [_by_descriptor(nic, testbed.shape.queues, open_one, opened, vhost) for nic in guest.nics]
        return
    options = f"script=no,downscript=no{vhost}"
    if testbed.shape.queues > 1:
        options += f",queues={testbed.shape.queues}"
    yield [Plug(f"tap,ifname={nic.port.interface},{options}", nic.mac) for nic in guest.nics]


def _by_descriptor(
    nic: Nic, queues: int, open_one: Callable[[Device, int], int], opened: ExitStack, options: str
) -> Plug:
    """A tap that QEMU cannot open by its name: it is of another namespace, or a macvtap."""
    descriptors = []
    for _ in range(queues):
        descriptors.append(open_one(nic.port, queues))
        opened.callback(os.close, descriptors[-1])
    own = ":".join(map(str, descriptors))
    return Plug(f"tap,fds={own}{options}", nic.mac, descriptors=tuple(descriptors))


def _vswitch_of(testbed: GuestTestbed, vm: Vm) -> str:
    """The one that an end of the host's own is plugged into."""
    for guest in testbed.guests:
        if guest.pair == vm.pair and not guest.side:
            return guest.nics["ab".index(vm.side)].vswitch
    return testbed.vswitches[-1]


def _add_tap(device: Device, queues: int) -> None:
    """A tap that stays when nobody has it open, as QEMU will open it."""
    netlink.do_inside(device.namespace, partial(_make_tap, device, queues))


def _make_tap(device: Device, queues: int) -> None:
    descriptor = _attach(device, queues)
    try:
        fcntl.ioctl(descriptor, _TUNSETPERSIST, 1)
    finally:
        os.close(descriptor)


def _open_tap(device: Device, queues: int) -> int:
    """A queue of a tap that is there, in whatever namespace."""
    return netlink.do_inside(device.namespace, partial(_attach, device, queues))


def _attach(device: Device, queues: int) -> int:
    """A queue of the tap of this name, which is made where it is not there yet; raises BenchError."""
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR | (_IFF_MULTI_QUEUE if queues > 1 else 0)
    try:
        descriptor = os.open(TUN, os.O_RDWR)
        try:
            fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", device.interface.encode(), flags))
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise BenchError(
            f"no tap can be made for a guest: {error.strerror}", where=str(TUN),
            fix="modprobe tun; in a container it needs the device /dev/net/tun",
        ) from error  # fmt: skip
    return descriptor


def _add_macvtaps(testbed: GuestTestbed, switch: IPRoute) -> None:
    """Macvtaps of a parent that leads nowhere: they switch between themselves."""
    switch.link("add", ifname=MACVTAP_PARENT, kind="veth", peer={"ifname": "low1"})
    parent = netlink.index_of(switch, MACVTAP_PARENT)
    for interface in (MACVTAP_PARENT, "low1"):
        switch.link("set", index=netlink.index_of(switch, interface), state="up")
    for nic in (nic for guest in testbed.guests for nic in guest.nics):
        # /dev/tapN is named by the interface's index, which another namespace may have too: a rare one.
        switch.link(
            "add", ifname=nic.port.interface, kind="macvtap", link=parent, macvtap_mode="bridge",
            index=2**20 + secrets.randbits(29), address=nic.mac,
        )  # fmt: skip
        switch.link("set", index=netlink.index_of(switch, nic.port.interface), state="up")


def _open_macvtap(device: Device, _queues: int) -> int:
    with netlink.in_namespace(device.namespace) as ipr:
        path = Path(f"/dev/tap{netlink.index_of(ipr, device.interface)}")
    try:
        return os.open(path, os.O_RDWR)
    except OSError as error:
        raise BenchError(
            f"the macvtap cannot be opened: {error.strerror}", where=str(path),
            fix="run as root on the machine itself, where /dev is the kernel's own (devtmpfs)",
        ) from error  # fmt: skip
