"""Evidence of TCP windows: what senders waited for, data in flight, buffers and pacing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_total,
    knob_value,
    largest,
    mean,
    median,
    percent,
    rate_per_s,
    ratio,
    smallest,
    sum_known,
)
from vnetbench.estimate.evidence.flows import Flow, median_over_flows
from vnetbench.estimate.evidence.metric import YES_OR_NO, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart

_TCP_CA_RECOVERY = 3
"""From this state on (include/uapi/linux/tcp.h, enum tcp_ca_state), a loss has reduced the window."""
_PACING_ALGORITHMS = ("bbr",)
"""Congestion control algorithms that always pace; others pace only if a rate is set."""

WINDOW_METRICS = (
    EvidenceMetric(
        "busy_percent",
        "% of time",
        "data outstanding",
        "share of the time in which streams had unacknowledged data, mean of the streams",
        ("busy_s",),
    ),
    EvidenceMetric(
        "rwnd_limited_percent",
        "% of time",
        "waiting for the receiver's window",
        "share of the time in which the receiver's window limited streams, mean of the streams",
        ("rwnd_limited_s",),
    ),
    EvidenceMetric(
        "sndbuf_limited_percent",
        "% of time",
        "waiting for the send buffer",
        "share of the time in which a full send buffer limited streams, mean of the streams. Small "
        "buffers can limit at 0 too",
        ("sndbuf_limited_s",),
    ),
    EvidenceMetric(
        "cwnd_limited_percent",
        "% of time",
        "waiting for congestion window or network",
        "busy time not limited by the receiver's window or the send buffer, mean of the streams",
        ("busy_s", "rwnd_limited_s", "sndbuf_limited_s"),
    ),
    EvidenceMetric(
        "app_limited_percent",
        "% of samples",
        "sender had nothing to send",
        "share of the samples in which the sending program limited the last rate measurement",
        ("app_limited",),
    ),
    EvidenceMetric(
        "rtt_us",
        "µs",
        "round-trip time",
        "TCP's smoothed round-trip time, median of the samples, then of the streams",
        ("rtt_us",),
    ),
    EvidenceMetric(
        "min_rtt_us",
        "µs",
        "shortest round-trip time",
        "minimum round-trip time that TCP measured, median of the streams",
        ("min_rtt_us",),
    ),
    EvidenceMetric(
        "rtt_over_min",
        "1",
        "round-trip time over the shortest",
        "round-trip time over the minimum, median of the samples, then of the streams: much more than 1 if "
        "packets wait in a queue",
        ("rtt_us", "min_rtt_us"),
    ),
    EvidenceMetric(
        "queueing_us",
        "µs",
        "time in queues",
        "round-trip time minus the minimum, median of the samples, then of the streams",
        ("rtt_us", "min_rtt_us"),
    ),
    EvidenceMetric(
        "window_bytes",
        "B",
        "congestion window",
        "congestion window, median of the samples, then of the streams",
        ("cwnd", "mss_bytes"),
    ),
    EvidenceMetric(
        "peer_window_bytes",
        "B",
        "receiver's window",
        "window that the receiver advertises, median of the samples, then of the streams",
        ("snd_wnd_bytes",),
    ),
    EvidenceMetric(
        "in_flight_bytes",
        "B",
        "bytes in flight",
        "bytes sent and not acknowledged, mean of the samples, median of the streams",
        ("unacked", "mss_bytes"),
    ),
    EvidenceMetric(
        "unsent_bytes",
        "B",
        "bytes not yet sent",
        "bytes in the send buffer not yet sent, median of the samples, then of the streams",
        ("notsent_bytes",),
    ),
    EvidenceMetric(
        "in_flight_over_window",
        "1",
        "share of the congestion window in use",
        "segments in flight over the congestion window, median of the samples, then of the streams; near "
        "1 if the congestion window limits",
        ("unacked", "cwnd"),
    ),
    EvidenceMetric(
        "in_flight_over_send_buffer",
        "1",
        "bytes in flight over send buffer",
        "bytes in flight over the send buffer, mean of the samples, median of the streams; a full buffer "
        "shows less than 1 because it includes kernel overhead, and a small one more than 1 because of "
        "TSO packets",
        ("unacked", "mss_bytes", "sndbuf_bytes"),
    ),
    EvidenceMetric(
        "in_flight_over_peer_window",
        "1",
        "bytes in flight over receiver's window",
        "bytes in flight over the receiver's window, mean of the samples, median of the streams; near 1 "
        "if the receiver's window limits",
        ("unacked", "mss_bytes", "snd_wnd_bytes"),
    ),
    EvidenceMetric(
        "send_buffer_full_percent",
        "% of the buffer",
        "send buffer in use",
        "share of the send buffer in use, kernel overhead included, mean of the samples, median of the "
        "streams",
        ("wmem_queued_bytes", "sndbuf_bytes"),
    ),
    EvidenceMetric(
        "goodput_over_window_law",
        "1",
        "goodput over window law",
        "goodput of a stream over its bytes in flight per round-trip time, median of the streams: near 1 if "
        "both are measured correctly (Little's law)",
        ("bytes_acked", "unacked", "mss_bytes", "rtt_us"),
    ),
    EvidenceMetric(
        "send_buffer_bytes",
        "B",
        "send buffer",
        "current SO_SNDBUF, median of the samples, then of the streams",
        ("sndbuf_bytes",),
    ),
    EvidenceMetric(
        "receive_buffer_bytes",
        "B",
        "receive buffer",
        "current SO_RCVBUF, median of the samples, then of the streams",
        ("rcvbuf_bytes",),
    ),
    EvidenceMetric(
        "receive_queue_percent",
        "% of the buffer",
        "receive buffer in use",
        "share of the receive buffer with unread data, mean of the samples, median of the streams",
        ("rmem_bytes", "rcvbuf_bytes"),
    ),
    EvidenceMetric(
        "retransmitted_percent",
        "% of segments",
        "retransmitted",
        "share of the segments that were retransmitted; for connections of one request, in the whole network "
        "namespace",
        ("retransmits", "segments_out", "tcp_segments_retransmitted", "tcp_segments_out"),
    ),
    EvidenceMetric(
        "recovering_percent",
        "% of samples",
        "recovering from loss",
        "share of the samples in which a stream was recovering from a loss",
        ("ca_state",),
    ),
    EvidenceMetric(
        "timeouts_per_s", "1/s", "timeouts", "retransmission timeouts of all senders", ("tcp_timeouts",)
    ),
    EvidenceMetric(
        "goodput_over_pacing_rate",
        "1",
        "ratio of goodput to pacing rate",
        "goodput of a stream divided by its kernel's pacing rate, median of the streams; near 1 if pacing is "
        "active (`pacing_capped`, `pacing_by_congestion_control`) and limits",
        ("bytes_acked", "pacing_rate_bps"),
    ),
    EvidenceMetric(
        "pacing_capped",
        YES_OR_NO,
        "pacing rate set",
        "1 if a maximum pacing rate is set (SO_MAX_PACING_RATE, read back)",
        ("pacing_max_bps", "pacing_rate_bps"),
    ),
    EvidenceMetric(
        "pacing_by_congestion_control",
        YES_OR_NO,
        "pacing congestion control",
        "1 if the congestion control always paces (bbr)",
        ("congestion_control",),
    ),
    EvidenceMetric(
        "stream_goodput_bps",
        "bit/s",
        "goodput of a stream",
        "goodput of one stream, median of the streams",
        ("bytes_acked", "bytes"),
    ),
    EvidenceMetric(
        "goodput_variation_percent",
        "%",
        "variation within a trial",
        "standard deviation over mean of the deciding metric, of the samples after the warm-up",
        ("bytes_received",),
    ),
)


def window_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of WINDOW_METRICS."""
    part, senders = data.steady_part, data.tcp_senders
    return {
        **_time_shares(senders),
        **_window_values(senders, data.tcp_receivers),
        **_retransmit_values(part, senders),
        **_pacing_values(part, senders),
        "stream_goodput_bps": median_over_flows(data.sending_flows, lambda flow: flow.goodput_bps or None),
        "goodput_variation_percent": variation_percent(data.time_series),
    }


def variation_percent(values: Sequence[float]) -> float | None:
    """Return the standard deviation over the mean in percent; None for fewer than three values."""
    if len(values) < 3:
        return None
    return percent(statistics.stdev(values), statistics.fmean(values))


def _time_shares(senders: Sequence[Flow]) -> EvidenceValues:
    busy, rwnd_limited, sndbuf_limited = (
        _mean_time_percent(senders, counter) for counter in ("busy_s", "rwnd_limited_s", "sndbuf_limited_s")
    )
    limited = sum_known(rwnd_limited, sndbuf_limited) or 0.0
    return {
        "busy_percent": busy,
        "rwnd_limited_percent": rwnd_limited,
        "sndbuf_limited_percent": sndbuf_limited,
        "cwnd_limited_percent": None if busy is None else max(0.0, busy - limited),
        "app_limited_percent": percent(
            sum_known(*(flow.total("app_limited") for flow in senders)),
            sum(len(flow.values("app_limited")) for flow in senders),
        ),
        "recovering_percent": _percent_of_samples(senders, "ca_state", _TCP_CA_RECOVERY),
    }


def _mean_time_percent(flows: Sequence[Flow], counter: str) -> float | None:
    """Return a counter of seconds as a share of the time, mean of the flows."""
    return percent(
        sum_known(*(flow.total(counter) for flow in flows)), sum(flow.duration_s for flow in flows)
    )


def _percent_of_samples(flows: Sequence[Flow], name: str, at_least: float) -> float | None:
    values = [value for flow in flows for value in flow.values(name)]
    return percent(sum(value >= at_least for value in values), len(values))


def _window_values(senders: Sequence[Flow], receivers: Sequence[Flow]) -> EvidenceValues:
    return {
        "rtt_us": median_over_flows(senders, lambda flow: median(flow.values("rtt_us"))),
        "min_rtt_us": median_over_flows(senders, lambda flow: smallest(flow.values("min_rtt_us"))),
        "rtt_over_min": median_over_flows(senders, lambda flow: median(flow.ratios("rtt_us", "min_rtt_us"))),
        "queueing_us": median_over_flows(senders, _queueing_us),
        "window_bytes": median_over_flows(senders, _window_bytes),
        "peer_window_bytes": median_over_flows(senders, lambda flow: median(flow.values("snd_wnd_bytes"))),
        "in_flight_bytes": median_over_flows(senders, _in_flight_bytes),
        "unsent_bytes": median_over_flows(senders, lambda flow: median(flow.values("notsent_bytes"))),
        "in_flight_over_window": median_over_flows(
            senders, lambda flow: median(flow.ratios("unacked", "cwnd"))
        ),
        "in_flight_over_send_buffer": median_over_flows(
            senders, lambda flow: _in_flight_over(flow, "sndbuf_bytes")
        ),
        "in_flight_over_peer_window": median_over_flows(
            senders, lambda flow: _in_flight_over(flow, "snd_wnd_bytes")
        ),
        "send_buffer_full_percent": _mean_ratio_percent(senders, "wmem_queued_bytes", "sndbuf_bytes"),
        "goodput_over_window_law": median_over_flows(senders, _goodput_over_window_law),
        "send_buffer_bytes": median_over_flows(senders, lambda flow: median(flow.values("sndbuf_bytes"))),
        "receive_buffer_bytes": median_over_flows(
            receivers, lambda flow: median(flow.values("rcvbuf_bytes"))
        ),
        "receive_queue_percent": _mean_ratio_percent(receivers, "rmem_bytes", "rcvbuf_bytes"),
    }


def _mean_ratio_percent(flows: Sequence[Flow], part: str, whole: str) -> float | None:
    share = median_over_flows(flows, lambda flow: mean(flow.ratios(part, whole)))
    return None if share is None else 100 * share


def _window_bytes(flow: Flow) -> float | None:
    segments = median(flow.values("cwnd"))
    return None if segments is None or flow.mss_bytes is None else segments * flow.mss_bytes


def _queueing_us(flow: Flow) -> float | None:
    rtt_us, min_rtt_us = median(flow.values("rtt_us")), smallest(flow.values("min_rtt_us"))
    return None if rtt_us is None or min_rtt_us is None else rtt_us - min_rtt_us


def _in_flight_over(flow: Flow, name: str) -> float | None:
    mean_ratio = mean(flow.ratios("unacked", name))
    return None if mean_ratio is None or flow.mss_bytes is None else mean_ratio * flow.mss_bytes


def _in_flight_bytes(flow: Flow) -> float | None:
    # Little's law needs the mean. A median would fail if data leaves in bursts: a sample then finds either
    # everything or nothing in flight.
    segments = mean(flow.values("unacked"))
    return None if segments is None or flow.mss_bytes is None else segments * flow.mss_bytes


def _goodput_over_window_law(flow: Flow) -> float | None:
    in_flight_bytes, rtt_us = _in_flight_bytes(flow), mean(flow.values("rtt_us"))
    return ratio(flow.goodput_bps, ratio(8e6 * in_flight_bytes, rtt_us) if in_flight_bytes else None)


def _retransmit_values(part: SteadyPart, senders: Sequence[Flow]) -> EvidenceValues:
    sent = sum_known(*(flow.total("segments_out") for flow in senders))
    retransmits = sum_known(*(flow.total("retransmits") for flow in senders))
    if not senders:
        samples = [x for _, of_endpoint in part.senders for x in of_endpoint]
        retransmits = counter_total(samples, "tcp_segments_retransmitted")
        # A network namespace counts retransmits separately; a connection includes them in all segments.
        sent = sum_known(counter_total(samples, "tcp_segments_out"), retransmits)
    return {
        "retransmitted_percent": percent(retransmits, sent),
        "timeouts_per_s": sum_known(*(rate_per_s(samples, "tcp_timeouts") for _, samples in part.senders)),
    }


def _pacing_values(part: SteadyPart, senders: Sequence[Flow]) -> EvidenceValues:
    if not senders:
        return {}
    max_rates = [flow.values("pacing_max_bps") for flow in senders]
    is_capped = any(max_rates) or part.trial.effective.get("pacing_rate_bps") is not None
    endpoints = {flow.endpoint for flow in senders}
    algorithms = [str(knob_value(part.trial, "congestion_control", name)) for name in endpoints]
    return {
        "goodput_over_pacing_rate": median_over_flows(
            senders, lambda flow: ratio(flow.goodput_bps, median(flow.values("pacing_rate_bps")))
        ),
        "pacing_capped": float(is_capped),
        "pacing_by_congestion_control": largest(
            float(each.startswith(_PACING_ALGORITHMS)) for each in algorithms
        ),
    }
