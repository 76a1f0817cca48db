"""Shaped links: a rate limit on an interface's way out by tbf or htb, set and read back."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from vnetbench.errors import BenchError
from vnetbench.lab.netlink import attribute, in_namespace, index_of
from vnetbench.lab.netns.topology import Device
from vnetbench.quantity import spell_duration

AUTO = "auto"
ROOT, ONLY_CLASS, INNER = 0x10000, 0x10001, 0x100000

BURST_S = 0.001
"""A millisecond at full rate: shorter than any sample, longer than the timer's wake-up delay of a VM."""
LEAST_BURST_BYTES = 128 * 1024
"""Two 64 KiB super-frames: tbf cuts up what is larger than its bucket, which would be another experiment."""
QUEUE_S = 0.005
"""What a vNIC's ring and a switch's buffer hold together at 10 Gbit/s, about 6 MB."""
LARGEST_PACKET_BYTES = 64 * 1024
LEAST_QUEUE_PACKETS = 64
FASTEST_BPS = 8.0 * (2**32 - 1)
"""tc's 32-bit rate field; faster links than 34 Gbit/s are not shaped."""


@dataclass(frozen=True)
class Shaped:
    """A shaped link as it was read back."""

    rate_bps: float
    queue: str | int | None
    """What waits before it: a FIFO of so many bytes, or the name of a discipline; None: htb's own FIFO."""


def shape(device: Device, rate_bps: float | None, shaper: str, queue: str | float = AUTO) -> Shaped | None:
    """Limit what leaves `device` to `rate_bps` (None: no limit) and return what was read back.

    `queue` is what waits before the link: a FIFO of so many seconds at the rate (tbf only), the kernel's name
    of a discipline, or `auto`. Raises BenchError for what the kernel's fields cannot hold, or when the kernel
    lacks shaper or discipline.
    """
    if rate_bps is not None and not 8 <= rate_bps <= FASTEST_BPS:
        raise BenchError(
            f"a link cannot be shaped to {rate_bps:g} bit/s",
            where=device.label,
            fix=f"choose a rate from 8 bit/s to {FASTEST_BPS / 1e9:.1f} Gbit/s, or none",
        )
    with in_namespace(device.namespace) as ipr:
        index = index_of(ipr, device.interface)
        if _found(ipr, index)[0] is not None:
            ipr.tc("del", index=index, root=True)
        if rate_bps is not None:
            _add(ipr, index, int(rate_bps / 8), shaper, _fifo_bytes(device, rate_bps, queue))
            if isinstance(queue, str) and queue != AUTO:
                _put_before(ipr, index, queue, device)
        kind, shaped = _found(ipr, index)
    if rate_bps is not None and kind != shaper:
        raise BenchError(
            f"the link is not shaped: its queueing discipline is {kind or 'the default'}, not {shaper}",
            where=device.label,
            fix="vnetbench doctor says which shapers this kernel has",
        )
    return shaped


def _fifo_bytes(device: Device, rate_bps: float, queue: str | float) -> int | None:
    """The length of the FIFO that is asked for; None where none is."""
    if isinstance(queue, str):
        return None
    size = int(queue * rate_bps / 8)
    if not LARGEST_PACKET_BYTES <= size < 2**32:
        shortest, longest = (8 * limit / rate_bps for limit in (LARGEST_PACKET_BYTES, 2**32 - 1))
        raise BenchError(
            f"a queue of {spell_duration(queue)} at {rate_bps:g} bit/s has {size} bytes, and packets up to "
            f"{LARGEST_PACKET_BYTES} before they are segmented",
            where=device.label,
            fix=f"at this rate choose {shortest * 1e3:.3g} ms to {longest:.3g} s",
        )
    return size


def _add(ipr: IPRoute, index: int, rate: int, shaper: str, fifo_bytes: int | None) -> None:
    burst = max(LEAST_BURST_BYTES, int(rate * BURST_S))
    queue = max(burst, int(rate * QUEUE_S))
    if shaper == "tbf":
        limit = fifo_bytes or burst + queue
        ipr.tc("add", "tbf", index, ROOT, rate=rate, burst=burst, limit=limit)
        return
    # The class's own queue is a pfifo as long as the interface's transmit queue when the class is made.
    ipr.link("set", index=index, txqlen=max(LEAST_QUEUE_PACKETS, queue // LARGEST_PACKET_BYTES))
    ipr.tc("add", "htb", index, ROOT, default=ONLY_CLASS)
    ipr.tc(
        "add-class", "htb", index, ONLY_CLASS, parent=ROOT, rate=rate, ceil=rate, burst=burst, cburst=burst
    )


def _put_before(ipr: IPRoute, index: int, discipline: str, device: Device) -> None:
    """Have a discipline of its own settings queue before the shaper (tbf has one class, htb got one)."""
    try:
        ipr.tc("add", discipline, index, INNER, parent=ONLY_CLASS)
    except NetlinkError as error:
        if error.code != errno.ENOENT:
            raise
        raise BenchError(
            f"this kernel has no queueing discipline {discipline}",
            where=device.label,
            fix=f"modprobe sch_{discipline}, or leave it out",
        ) from error


def _found(ipr: IPRoute, index: int) -> tuple[str | None, Shaped | None]:
    """The shaper at the root of an interface and what it does; (None, None) when there is none."""
    disciplines = list(ipr.get_qdiscs(index))
    inner = next((q.get_attr("TCA_KIND") for q in disciplines if q["parent"] == ONLY_CLASS), None)
    for qdisc in disciplines:
        kind = qdisc.get_attr("TCA_KIND")
        if kind == "tbf":
            parms = attribute(qdisc, "TCA_OPTIONS", "TCA_TBF_PARMS")
            queue = inner if inner not in (None, "bfifo") else int(parms["limit"])
            return "tbf", Shaped(8.0 * int(parms["rate"]), queue)
        if kind == "htb":
            for entry in ipr.get_classes(index):
                parms = attribute(entry, "TCA_OPTIONS", "TCA_HTB_PARMS")
                if parms is not None:
                    return "htb", Shaped(8.0 * int(parms["rate"]), inner)
            return "htb", None
    return None, None
