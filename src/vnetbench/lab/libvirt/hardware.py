"""The hardware that a treatment requests of a VM's adapter, as parts of libvirt's domain XML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from vnetbench.errors import BenchError
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.guest_factors import ADAPTER, RX_RING, TX_RING
from vnetbench.study.factors.testbed_factors import MTU, QUEUES
from vnetbench.study.model import Level

VIRTIO, VHOST = "virtio", "vhost"
_MODEL_AND_DRIVER = {
    "virtio-net": (VIRTIO, "qemu"),
    "virtio-net-vhost": (VIRTIO, VHOST),
    **{level: (level, "") for level in ("vmxnet3", "e1000e", "e1000", "rtl8139", "igb")},
}
"""libvirt's model and driver by level of the factor `adapter`."""
_MODEL, _DRIVER, _MTU = "model@type", "driver@name", "mtu@size"
_QUEUES, _RX_RING, _TX_RING = "driver@queues", "driver@rx_queue_size", "driver@tx_queue_size"
"""Child element and attribute of an `<interface>` in libvirt's domain XML."""
_TYPES_WITH_VHOST = ("bridge", "network", "direct", "ethernet")
_TYPES_WITH_QUEUES = (*_TYPES_WITH_VHOST, "vhostuser", "vdpa")
"""Types of an adapter that can have several queues. libvirt starts no VM with `queues` for other types."""
MIN_VIRTIO_RING = 256
"""Smallest ring that libvirt sets. The driver in the guest can use less of it."""
MAX_VIRTIO_RING = 1024
"""Longest ring of a virtio adapter of QEMU (VIRTQUEUE_MAX_SIZE). With a longer one, QEMU does not start."""
MAX_TX_RING = 256
"""Longest transmit ring of other types than `_TYPES_WITH_LONG_TX_RING` (`virtio_net_max_tx_queue_size` in
QEMU's hw/net/virtio-net.c). With a longer one, QEMU from version 8.1 does not start, and an older one
silently uses this length."""
_TYPES_WITH_LONG_TX_RING = ("vhostuser", "vdpa")
_TYPES_WITH_TAP = ("bridge", "network", "ethernet")
MAX_TAP_MTU = 65521
"""Largest MTU of a tap: 65535 without the Ethernet header (Linux, drivers/net/tun.c)."""
_FIRST_QEMU_VERSION = {"igb": 8_000_000}
"""First version of QEMU that has a model, as libvirt writes versions."""


@dataclass(frozen=True)
class VmHardware:
    """What a treatment requests of the adapter of each VM; zero and empty leave the VM's own value."""

    adapter: str = ""
    """Level of the factor `adapter`."""
    queues: int = 0
    rx_ring: int = 0
    tx_ring: int = 0
    """Descriptors of a virtio adapter's ring: a power of two."""
    mtu: int = 0
    """MTU of the host's end of the adapter, and the largest one in the guest."""

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in asdict(self).items() if value]
        return " ".join(parts) or "unchanged hardware"


def requested_hardware(factors: Mapping[str, Level]) -> VmHardware:
    """Return the hardware that a treatment requests."""
    rx_ring, tx_ring, queues, mtu = (
        int(factor.read_level(factors)) if factor.is_present_in(factors) else 0
        for factor in (RX_RING, TX_RING, QUEUES, MTU)
    )
    adapter = str(ADAPTER.read_level(factors)) if ADAPTER.is_present_in(factors) else ""
    return VmHardware(adapter, queues, _hardware_ring(rx_ring), _hardware_ring(tx_ring), mtu)


def _hardware_ring(requested: int) -> int:
    """Return the smallest virtio ring that holds a requested one; 0 for none."""
    return max(MIN_VIRTIO_RING, 1 << (requested - 1).bit_length()) if requested else 0


def find_adapter(xml: str, mac: str, where: str) -> Element:
    """Return the `<interface>` with a MAC address from the XML of a domain; without an address, the only one.

    Raises:
        BenchError: there is no such adapter, or the choice is open.
    """
    adapters = ElementTree.fromstring(xml).findall("devices/interface")
    found = [each for each in adapters if not mac or read_mac(each) == mac.lower()]
    if len(found) == 1:
        return found[0]
    known = ", ".join(read_mac(each) for each in adapters) or "none"
    if mac:
        raise BenchError(
            f"the VM has no adapter {mac}", where=where, fix=f"name one of its adapters: {known}"
        )
    raise BenchError(
        f"the VM has {len(adapters)} adapters, so the study must name one",
        where=where,
        fix=f'write adapter_mac = "…" under its [[testbed.host]]. Its adapters: {known}',
    )


def read_mac(adapter: Element) -> str:
    """Return the MAC address of an `<interface>`."""
    element = adapter.find("mac")
    return "" if element is None else element.get("address", "").lower()


def request_hardware(
    adapter: Element, hardware: VmHardware, where: str, *, is_kvm: bool, qemu_version: int
) -> None:
    """Change an `<interface>` so that it requests this hardware.

    Args:
        adapter: The interface.
        hardware: What a treatment requests.
        where: The VM, for messages.
        is_kvm: Whether the VM runs under KVM.
        qemu_version: Version of QEMU as libvirt writes it: 7.2.1 is 7002001.

    Raises:
        TreatmentRefused: libvirt or QEMU has no such adapter.
    """
    if hardware.adapter:
        _check_model(adapter, hardware.adapter, where, is_kvm=is_kvm, qemu_version=qemu_version)
        _set_model(adapter, *_MODEL_AND_DRIVER[hardware.adapter])
    if _read(adapter, _MODEL).startswith(VIRTIO):
        _check_queues_and_rings(adapter, hardware, where)
        has_queues = adapter.get("type") in _TYPES_WITH_QUEUES
        for path, value in (
            (_QUEUES, hardware.queues if has_queues else 0),
            (_RX_RING, hardware.rx_ring),
            (_TX_RING, hardware.tx_ring),
        ):
            if value:
                _write(adapter, path, str(value))
    if hardware.mtu:
        if hardware.mtu > MAX_TAP_MTU and adapter.get("type") in _TYPES_WITH_TAP:
            raise TreatmentRefused(
                f"the host's end of the adapter has an MTU of at most {MAX_TAP_MTU}",
                where=where,
                fix=f"use mtu = {MAX_TAP_MTU} or less",
                factor=MTU.name,
            )
        _write(adapter, _MTU, str(hardware.mtu))


def _check_model(adapter: Element, level: str, where: str, *, is_kvm: bool, qemu_version: int) -> None:
    """Raise TreatmentRefused if the VM cannot have this level of the factor `adapter`."""
    if level not in _MODEL_AND_DRIVER:
        raise TreatmentRefused(
            f"the lab libvirt cannot make the adapter {level}",
            where=where,
            fix=f"use {', '.join(_MODEL_AND_DRIVER)}, or the lab qemu",
            factor=ADAPTER.name,
        )
    _, driver = _MODEL_AND_DRIVER[level]
    if driver == VHOST and adapter.get("type") not in _TYPES_WITH_VHOST:
        # libvirt accepts and ignores it.
        raise TreatmentRefused(
            f"an adapter of type {adapter.get('type')} cannot use vhost",
            where=where,
            fix="connect the adapter to a bridge or a network, or leave virtio-net-vhost out",
            factor=ADAPTER.name,
        )
    if driver == VHOST and not is_kvm:
        # libvirt accepts it here too, and starts QEMU without vhost.
        raise TreatmentRefused(
            "libvirt uses vhost only for VMs that run under KVM",
            where=where,
            fix="leave virtio-net-vhost out, or run the VM under KVM",
            factor=ADAPTER.name,
        )
    if qemu_version < (first := _FIRST_QEMU_VERSION.get(level, 0)):
        raise TreatmentRefused(
            f"the hypervisor's QEMU {_format_version(qemu_version)} has no adapter {level}",
            where=where,
            fix=f"leave {level} out, or use QEMU {_format_version(first)} or newer",
            factor=ADAPTER.name,
        )


def _format_version(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}"


def _check_queues_and_rings(adapter: Element, hardware: VmHardware, where: str) -> None:
    """Raise TreatmentRefused if a virtio adapter cannot have so many queues, or rings of this length."""
    if hardware.queues > 1 and adapter.get("type") not in _TYPES_WITH_QUEUES:
        raise TreatmentRefused(
            f"an adapter of type {adapter.get('type')} has only one queue",
            where=where,
            fix="connect the adapter to a bridge or a network, or use queues = 1",
            factor=QUEUES.name,
        )
    has_long_tx_ring = adapter.get("type") in _TYPES_WITH_LONG_TX_RING
    limits = (
        (RX_RING.name, "receive", hardware.rx_ring, MAX_VIRTIO_RING),
        (TX_RING.name, "transmit", hardware.tx_ring, MAX_VIRTIO_RING if has_long_tx_ring else MAX_TX_RING),
    )
    for factor, direction, length, limit in limits:
        if length > limit:
            raise TreatmentRefused(
                f"the {direction} ring of a virtio adapter of type {adapter.get('type')} has at most {limit}"
                " descriptors",
                where=where,
                fix=f"use {factor} = {limit} or less, or leave {factor} out",
                factor=factor,
            )


def read_hardware(adapter: Element) -> dict[str, str]:
    """Return model, driver and MTU of an `<interface>`: equal values are equal hardware."""
    paths = (_MODEL, _DRIVER, _QUEUES, _RX_RING, _TX_RING, _MTU)
    return {path: value for path in paths if (value := _read(adapter, path))}


def _set_model(adapter: Element, model: str, driver: str) -> None:
    # The PCI address stays, so that the guest's interface keeps its name. libvirt accepts a conventional PCI
    # model at the address of a PCIe one, and the reverse, if the definition names the address.
    _write(adapter, _MODEL, model)
    if driver:
        _write(adapter, _DRIVER, driver)
    elif (settings := adapter.find("driver")) is not None:
        adapter.remove(settings)  # Its settings are those of virtio.


def _write(adapter: Element, path: str, value: str) -> None:
    tag, name = path.split("@")
    child = adapter.find(tag)
    (ElementTree.SubElement(adapter, tag) if child is None else child).set(name, value)


def _read(adapter: Element, path: str) -> str:
    tag, name = path.split("@")
    child = adapter.find(tag)
    return "" if child is None else child.get(name, "")
