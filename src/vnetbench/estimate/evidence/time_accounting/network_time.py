"""The time in which neither endpoint has work: what the data in the network waits for."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from vnetbench.estimate.evidence.aggregation import largest, median, smallest
from vnetbench.estimate.evidence.flows import Flow
from vnetbench.estimate.evidence.ports import Port
from vnetbench.estimate.evidence.shapers import unsampled_shaper_busy_share
from vnetbench.estimate.evidence.trial_data import TrialData

_RECOVERY_STATES = (3, 4)
"""Values of `ca_state`: fast recovery, and recovery after a timeout (enum tcp_ca_state, linux/tcp.h)."""
_SHAPER_COUNTER, _BACKLOG = "overlimits", "backlog_bytes"


def split_network_time(data: TrialData) -> dict[str, float]:
    """Return the shares of the network's time by use; they add up to 1.

    The order matters: a full link makes windows fill, and loss makes them small. What comes first takes its
    share of the time, and the rest is left to what follows.
    """
    shares: dict[str, float] = {}
    rest = 1.0
    for name, share in (
        ("load_pause", _nothing_outstanding_share(data.tcp_senders)),
        ("link_queue", max(time_share_of_most_queued_link(data.ports), unsampled_shaper_busy_share(data))),
        ("loss_recovery", _recovery_share(data.tcp_senders)),
        ("receive_window", _limited_share(data.tcp_senders, "rwnd_limited_s")),
        (
            "send_buffer",
            max(_limited_share(data.tcp_senders, "sndbuf_limited_s"), _full_send_buffer_share(data)),
        ),
        ("pacing", _goodput_share_of_pacing_rate(data.tcp_senders)),
        ("queueing", _queueing_share(data.tcp_senders)),
    ):
        shares[name] = rest * min(1.0, share)
        rest -= shares[name]
    return {**shares, "round_trip": rest}


def _nothing_outstanding_share(senders: Sequence[Flow]) -> float:
    """Return the share of the time in which TCP had no data to send or to wait for, mean of the streams."""
    shares = [
        max(0.0, 1 - busy_s / flow.duration_s)
        for flow in senders
        if (busy_s := flow.total("busy_s")) is not None and flow.duration_s > 0
    ]
    return fmean(shares) if shares else 0.0


def time_share_of_most_queued_link(ports: Sequence[Port]) -> float:
    """Return the share of the time in which the worst shaped link delays and holds packets, 0 to 1."""
    return largest(_share_of_time_delaying_shaper_queued(port) for port in ports) or 0.0


def _share_of_time_delaying_shaper_queued(port: Port) -> float | None:
    """Return the share of readings at which a link delayed packets and held some; None if it delayed none."""
    if not any(port.counter_sum_per_complete_sample(_SHAPER_COUNTER)):
        return None
    readings = port.counter_values_per_complete_sample(_SHAPER_COUNTER, _BACKLOG)
    return fmean(all(values) for values in readings) if readings else None


def _recovery_share(senders: Sequence[Flow]) -> float:
    states = [value for flow in senders for value in flow.values("ca_state")]
    return fmean(value in _RECOVERY_STATES for value in states) if states else 0.0


def _limited_share(senders: Sequence[Flow], counter: str) -> float:
    """Return a counter of TCP's waiting time over the time in which data was outstanding."""
    busy_s = sum(flow.total("busy_s") or 0.0 for flow in senders)
    return sum(flow.total(counter) or 0.0 for flow in senders) / busy_s if busy_s else 0.0


def _full_send_buffer_share(data: TrialData) -> float:
    """Return the share of time in which the send buffer is full and the window still has room.

    The kernel's own counter of this state is 0 in most cases (docs/evidence.md, `sndbuf_limited_percent`).
    """
    shares = []
    for flow in data.tcp_senders:
        full = list(flow.sample_ratios("wmem_queued_bytes", "sndbuf_bytes"))
        window = list(flow.sample_ratios("unacked", "cwnd"))
        if full and window:
            shares.append(max(0.0, min(1.0, fmean(full)) * (1 - min(1.0, fmean(window)))))
    return fmean(shares) if shares else 0.0


def _goodput_share_of_pacing_rate(senders: Sequence[Flow]) -> float:
    """Return how close streams with a maximum pacing rate come to it; 0 without such a rate."""
    shares = [
        min(1.0, flow.goodput_bps / rate_bps)
        for flow in senders
        if flow.values("pacing_max_bps") and (rate_bps := median(flow.values("pacing_rate_bps")))
    ]
    return fmean(shares) if shares else 0.0


def _queueing_share(senders: Sequence[Flow]) -> float:
    """Return the part of the round-trip time above its minimum."""
    shares = [
        max(0.0, 1 - min_us / rtt_us)
        for flow in senders
        if (rtt_us := median(flow.values("rtt_us"))) and (min_us := smallest(flow.values("min_rtt_us")))
    ]
    return fmean(shares) if shares else 0.0
