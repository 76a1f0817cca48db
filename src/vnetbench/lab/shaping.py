"""Shaped links: a rate limit on an interface's way out by tbf or htb, set and read back."""

from __future__ import annotations

from pyroute2 import IPRoute

from vnetbench.errors import BenchError
from vnetbench.lab.description import Device
from vnetbench.lab.netlink import attribute, in_namespace, index_of

HTB_ROOT = 0x10000
HTB_CLASS = 0x10001

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


def shape(device: Device, rate_bps: float | None, shaper: str) -> float | None:
    """Limit what leaves `device` to `rate_bps` (None: no limit) and return the rate read back in bit/s.

    Raises BenchError for a rate that the kernel's field cannot hold, or when the kernel lacks the shaper.
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
            _add(ipr, index, int(rate_bps / 8), shaper)
        kind, found_bytes_per_s = _found(ipr, index)
    if rate_bps is not None and kind != shaper:
        raise BenchError(
            f"the link is not shaped: its queueing discipline is {kind or 'the default'}, not {shaper}",
            where=device.label,
            fix="vnetbench doctor says which shapers this kernel has",
        )
    return None if found_bytes_per_s is None else found_bytes_per_s * 8.0


def _add(ipr: IPRoute, index: int, rate: int, shaper: str) -> None:
    burst = max(LEAST_BURST_BYTES, int(rate * BURST_S))
    queue = max(burst, int(rate * QUEUE_S))
    if shaper == "tbf":
        ipr.tc("add", "tbf", index, 0x10000, rate=rate, burst=burst, limit=burst + queue)
        return
    # The class's own queue is a pfifo as long as the interface's transmit queue when the class is made.
    ipr.link("set", index=index, txqlen=max(LEAST_QUEUE_PACKETS, queue // LARGEST_PACKET_BYTES))
    ipr.tc("add", "htb", index, HTB_ROOT, default=HTB_CLASS)
    ipr.tc(
        "add-class", "htb", index, HTB_CLASS, parent=HTB_ROOT, rate=rate, ceil=rate, burst=burst, cburst=burst
    )


def _found(ipr: IPRoute, index: int) -> tuple[str | None, int | None]:
    """The shaper at the root of an interface and its rate in bytes/s; (None, None) when there is none."""
    for qdisc in ipr.get_qdiscs(index):
        kind = qdisc.get_attr("TCA_KIND")
        if kind == "tbf":
            parms = attribute(qdisc, "TCA_OPTIONS", "TCA_TBF_PARMS")
            return "tbf", int(parms["rate"])
        if kind == "htb":
            for entry in ipr.get_classes(index):
                parms = attribute(entry, "TCA_OPTIONS", "TCA_HTB_PARMS")
                if parms is not None:
                    return "htb", int(parms["rate"])
            return "htb", None
    return None, None
