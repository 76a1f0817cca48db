"""Limits the rate at which packets leave an interface, with tbf or htb, and reads it back."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import NamedTuple

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from vnetbench.errors import BenchError
from vnetbench.lab.netlink import interface_index, nested_attribute, open_in_namespace
from vnetbench.lab.netns.topology import NetDevice
from vnetbench.quantity import format_exact_duration

AUTO_QUEUE = "auto"
ROOT_HANDLE, CLASS_HANDLE, INNER_HANDLE = 0x10000, 0x10001, 0x100000
"""Handles 1:0, 1:1 and 10:0 of the shaper, its class and the queue before it."""

BURST_DURATION_S = 0.001
"""Burst at full rate: shorter than any sample, longer than the wake-up delay of a VM's timer."""
MIN_BURST_BYTES = 128 * 1024
"""Two 64 KiB super-frames: tbf segments what exceeds its bucket, which would change the experiment."""
DEFAULT_QUEUE_S = 0.005
"""Queue length at full rate: 6 MB at 10 Gbit/s, as a vNIC's ring and a switch's buffer hold together."""
MAX_PACKET_BYTES = 64 * 1024
MIN_QUEUE_PACKETS = 64
BITS_PER_BYTE = 8
MAX_RATE_BPS = float(BITS_PER_BYTE * (2**32 - 1))
"""Limit of tc's 32-bit rate field, 34 Gbit/s."""


@dataclass(frozen=True)
class ShapedLink:
    """A shaped link as it was read back."""

    rate_bps: float
    fifo_bytes_or_qdisc: str | int | None
    """The queue before the link: a FIFO's length in bytes or a discipline's name; None for htb's own FIFO."""


def is_requested_rate(found_bps: float | None, requested_bps: float | None) -> bool:
    """Return whether a rate that was read back is the requested one; None is no limit.

    The kernel keeps whole bytes per second.
    """
    if found_bps is None or requested_bps is None:
        return found_bps is requested_bps
    return abs(found_bps - requested_bps) <= BITS_PER_BYTE


def limit_transmit_rate(
    device: NetDevice, rate_bps: float | None, shaper: str, queue_s_or_qdisc: str | float = AUTO_QUEUE
) -> ShapedLink | None:
    """Limit the rate at which packets leave a device.

    Args:
        device: The interface.
        rate_bps: The limit; None removes it.
        shaper: `tbf` or `htb`.
        queue_s_or_qdisc: The queue before the link: a FIFO's length in seconds at the rate (tbf only),
            the kernel's name of a discipline, or `auto`.

    Returns:
        The shaped link as it was read back; None without a limit.

    Raises:
        BenchError: if a value exceeds the kernel's fields, or the kernel lacks the shaper or discipline.
    """
    if rate_bps is not None and not 8 <= rate_bps <= MAX_RATE_BPS:
        raise BenchError(
            f"cannot shape a link to {rate_bps:g} bit/s",
            where=device.display_name,
            fix=f"choose a rate from 8 bit/s to {MAX_RATE_BPS / 1e9:.1f} Gbit/s, or none",
        )
    with open_in_namespace(device.namespace) as ipr:
        index = interface_index(ipr, device.interface)
        if _read_shaper(ipr, index) is not None:
            ipr.tc("del", index=index, root=True)
        if rate_bps is not None:
            _add_shaper(
                ipr,
                index,
                int(rate_bps / 8),
                shaper,
                _requested_fifo_bytes(device, rate_bps, queue_s_or_qdisc),
            )
            if isinstance(queue_s_or_qdisc, str) and queue_s_or_qdisc != AUTO_QUEUE:
                _add_inner_qdisc(ipr, index, queue_s_or_qdisc, device)
        root_shaper = _read_shaper(ipr, index)
    kind = root_shaper.discipline if root_shaper else None
    if rate_bps is not None and kind != shaper:
        raise BenchError(
            f"the link is not shaped: its queueing discipline is {kind or 'the default'}, not {shaper}",
            where=device.display_name,
            fix="run vnetbench doctor to see the shapers of this kernel",
        )
    return root_shaper.link if root_shaper else None


def read_rate_limit_bps(device: NetDevice) -> float | None:
    """Return the rate to which a device is limited, in bit/s; None without a limit."""
    with open_in_namespace(device.namespace) as ipr:
        shaper = _read_shaper(ipr, interface_index(ipr, device.interface))
    return shaper.link.rate_bps if shaper and shaper.link else None


def _requested_fifo_bytes(device: NetDevice, rate_bps: float, queue_s_or_qdisc: str | float) -> int | None:
    """Return the length of the requested FIFO in bytes; None for another kind of queue."""
    if isinstance(queue_s_or_qdisc, str):
        return None
    size = int(queue_s_or_qdisc * rate_bps / 8)
    if not MAX_PACKET_BYTES <= size < 2**32:
        shortest, longest = (8 * limit / rate_bps for limit in (MAX_PACKET_BYTES, 2**32 - 1))
        raise BenchError(
            f"a queue of {format_exact_duration(queue_s_or_qdisc)} at {rate_bps:g} bit/s holds {size} bytes, "
            f"but packets have up to {MAX_PACKET_BYTES} bytes before segmentation",
            where=device.display_name,
            fix=f"choose a queue of {shortest * 1e3:.3g} ms to {longest * 1e3:.3g} ms at this rate",
        )
    return size


def _add_shaper(ipr: IPRoute, index: int, rate_bytes_per_s: int, shaper: str, fifo_bytes: int | None) -> None:
    burst = max(MIN_BURST_BYTES, int(rate_bytes_per_s * BURST_DURATION_S))
    queue = max(burst, int(rate_bytes_per_s * DEFAULT_QUEUE_S))
    if shaper == "tbf":
        limit = fifo_bytes or burst + queue
        ipr.tc("add", "tbf", index, ROOT_HANDLE, rate=rate_bytes_per_s, burst=burst, limit=limit)
        return
    # The class's own queue is a pfifo with the transmit queue length that the interface has at its creation.
    ipr.link("set", index=index, txqlen=max(MIN_QUEUE_PACKETS, queue // MAX_PACKET_BYTES))
    ipr.tc("add", "htb", index, ROOT_HANDLE, default=CLASS_HANDLE)
    ipr.tc(
        "add-class",
        "htb",
        index,
        CLASS_HANDLE,
        parent=ROOT_HANDLE,
        rate=rate_bytes_per_s,
        ceil=rate_bytes_per_s,
        burst=burst,
        cburst=burst,
    )


def _add_inner_qdisc(ipr: IPRoute, index: int, discipline: str, device: NetDevice) -> None:
    """Add a discipline with default settings before the shaper, in tbf's only class or htb's."""
    try:
        ipr.tc("add", discipline, index, INNER_HANDLE, parent=CLASS_HANDLE)
    except NetlinkError as error:
        if error.code != errno.ENOENT:
            raise
        raise BenchError(
            f"this kernel has no queueing discipline {discipline}",
            where=device.display_name,
            fix=f"modprobe sch_{discipline}, or leave the level out",
        ) from error


class _RootShaper(NamedTuple):
    discipline: str
    link: ShapedLink | None
    """None for an htb without a class."""


def _read_shaper(ipr: IPRoute, index: int) -> _RootShaper | None:
    """Return the shaper at an interface's root; None without one."""
    disciplines = list(ipr.get_qdiscs(index))
    inner = next((q.get_attr("TCA_KIND") for q in disciplines if q["parent"] == CLASS_HANDLE), None)
    for qdisc in disciplines:
        kind = qdisc.get_attr("TCA_KIND")
        if kind == "tbf":
            parms = nested_attribute(qdisc, "TCA_OPTIONS", "TCA_TBF_PARMS")
            queue = inner if inner not in (None, "bfifo") else int(parms["limit"])
            return _RootShaper("tbf", ShapedLink(8.0 * int(parms["rate"]), queue))
        if kind == "htb":
            for entry in ipr.get_classes(index):
                parms = nested_attribute(entry, "TCA_OPTIONS", "TCA_HTB_PARMS")
                if parms is not None:
                    return _RootShaper("htb", ShapedLink(8.0 * int(parms["rate"]), inner))
            return _RootShaper("htb", None)
    return None
