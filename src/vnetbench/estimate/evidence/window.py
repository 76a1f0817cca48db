"""Evidence of windows and latency: what TCP waited for, what was on its way, how data was handed over."""

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

_LIMITED = ("rwnd_limited_s", "sndbuf_limited_s")
_RECOVERING = 3
"""From TCP_CA_Recovery on (include/uapi/linux/tcp.h, enum tcp_ca_state) a loss has made the window small."""
_PACING = ("bbr",)
"""Congestion controls that pace by themselves; the others do only where a rate is set."""

WINDOW_METRICS = (
    EvidenceMetric(
        "busy_percent",
        "% of time",
        "data waiting",
        "for how much of the time streams had data that was not yet acknowledged; mean of the streams",
        ("busy_s",),
    ),
    EvidenceMetric(
        "rwnd_limited_percent",
        "% of time",
        "waiting for the receiver's window",
        "for how much of the time the receiver's window kept streams from sending; mean of the streams",
        ("rwnd_limited_s",),
    ),
    EvidenceMetric(
        "sndbuf_limited_percent",
        "% of time",
        "waiting for the send buffer",
        "for how much of the time streams could not send because their send buffer was full; mean of the "
        "streams. Small buffers limit without it too",
        ("sndbuf_limited_s",),
    ),
    EvidenceMetric(
        "cwnd_limited_percent",
        "% of time",
        "waiting for congestion window or network",
        "busy time that is none of the other two; mean of the streams",
        ("busy_s", "rwnd_limited_s", "sndbuf_limited_s"),
    ),
    EvidenceMetric(
        "app_limited_percent",
        "% of samples",
        "sender had nothing to send",
        "share of the samples in which the last rate was limited by the sending program",
        ("app_limited",),
    ),
    EvidenceMetric(
        "rtt_us",
        "µs",
        "round trip",
        "TCP's smoothed round-trip time, median of the samples, then of the streams",
        ("rtt_us",),
    ),
    EvidenceMetric(
        "min_rtt_us",
        "µs",
        "shortest round trip",
        "the shortest that TCP has seen, median of the streams",
        ("min_rtt_us",),
    ),
    EvidenceMetric(
        "rtt_over_min",
        "1",
        "round trip over the shortest",
        "how many times as long round trips are as the shortest, median of the samples, then of the streams: "
        "much more than 1 where packets wait in a queue",
        ("rtt_us", "min_rtt_us"),
    ),
    EvidenceMetric(
        "queueing_us",
        "µs",
        "time in queues",
        "how much longer round trips are than the shortest, likewise",
        ("rtt_us", "min_rtt_us"),
    ),
    EvidenceMetric(
        "window_bytes",
        "B",
        "congestion window",
        "median of the samples, then of the streams",
        ("cwnd", "mss_bytes"),
    ),
    EvidenceMetric(
        "peer_window_bytes",
        "B",
        "receiver's window",
        "the window that the receiver offers, likewise",
        ("snd_wnd_bytes",),
    ),
    EvidenceMetric(
        "in_flight_bytes",
        "B",
        "bytes on their way",
        "sent and not acknowledged, mean of the samples, median of the streams",
        ("unacked", "mss_bytes"),
    ),
    EvidenceMetric(
        "unsent_bytes",
        "B",
        "bytes not yet sent",
        "in the send buffer and not yet sent, median of the samples, then of the streams",
        ("notsent_bytes",),
    ),
    EvidenceMetric(
        "in_flight_over_window",
        "1",
        "share of the congestion window in use",
        "likewise; near 1 where the congestion window limits",
        ("unacked", "cwnd"),
    ),
    EvidenceMetric(
        "in_flight_over_send_buffer",
        "1",
        "bytes on their way over send buffer",
        "mean of the samples, median of the streams; a buffer counts the kernel's own overhead too, so a "
        "full one shows less than 1; a packet of TSO may overrun a small one, which then shows more",
        ("unacked", "mss_bytes", "sndbuf_bytes"),
    ),
    EvidenceMetric(
        "in_flight_over_peer_window",
        "1",
        "bytes on their way over receiver's window",
        "likewise; near 1 where the receiver's window limits",
        ("unacked", "mss_bytes", "snd_wnd_bytes"),
    ),
    EvidenceMetric(
        "send_buffer_full_percent",
        "% of the buffer",
        "send buffer in use",
        "what of it is in use, with the kernel's overhead, likewise",
        ("wmem_queued_bytes", "sndbuf_bytes"),
    ),
    EvidenceMetric(
        "goodput_over_window_law",
        "1",
        "goodput over window law",
        "goodput of a stream over its bytes on their way a round trip, median of the streams: near 1 where "
        "these are what they seem (Little's law)",
        ("bytes_acked", "unacked", "mss_bytes", "rtt_us"),
    ),
    EvidenceMetric(
        "send_buffer_bytes",
        "B",
        "send buffer",
        "SO_SNDBUF as it stands, median of the samples, then of the streams",
        ("sndbuf_bytes",),
    ),
    EvidenceMetric(
        "receive_buffer_bytes", "B", "receive buffer", "SO_RCVBUF as it stands, likewise", ("rcvbuf_bytes",)
    ),
    EvidenceMetric(
        "receive_queue_percent",
        "% of the buffer",
        "receive buffer in use",
        "what of it waits for the reader, mean of the samples, median of the streams",
        ("rmem_bytes", "rcvbuf_bytes"),
    ),
    EvidenceMetric(
        "retransmitted_percent",
        "% of segments",
        "sent again",
        "share of the segments that were sent again; of connections that live for one request those of the "
        "whole network namespace",
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
        "pacing_share",
        "1",
        "goodput over pacing rate",
        "goodput of a stream over the rate that its kernel paces it to, median of the streams; near 1 where "
        "pacing limits, if it is in force (`pacing_capped`, `pacing_by_congestion_control`)",
        ("bytes_acked", "pacing_rate_bps"),
    ),
    EvidenceMetric(
        "pacing_capped",
        YES_OR_NO,
        "pacing rate set",
        "1 where a highest pacing rate is set (SO_MAX_PACING_RATE, read back)",
        ("pacing_max_bps", "pacing_rate_bps"),
    ),
    EvidenceMetric(
        "pacing_by_congestion_control",
        YES_OR_NO,
        "pacing congestion control",
        "1 where the congestion control paces by itself (bbr)",
        ("congestion_control",),
    ),
    EvidenceMetric(
        "stream_goodput_bps",
        "bit/s",
        "goodput of a stream",
        "median of the streams",
        ("bytes_acked", "bytes"),
    ),
    EvidenceMetric(
        "goodput_variation_percent",
        "%",
        "variation within a trial",
        "standard deviation of the deciding metric over its mean, of the samples of the steady part",
        ("bytes_received",),
    ),
)


def window_evidence(case: TrialData) -> EvidenceValues:
    """The figures of WINDOW_FIGURES."""
    part, flows = case.steady_part, case.tcp_senders
    return {
        **_of_time(flows),
        **_of_levels(flows, case.tcp_receivers),
        **_of_loss(part, flows),
        **_of_pacing(part, flows),
        "stream_goodput_bps": median_over_flows(case.sending_flows, lambda flow: flow.goodput_bps or None),
        "goodput_variation_percent": variation_percent(case.time_series),
    }


def _limited_percent(flows: Sequence[Flow], limit: str) -> float | None:
    """For how much of the time a counter of seconds went on, mean of the flows."""
    return percent(sum_known(*(flow.total(limit) for flow in flows)), sum(flow.duration_s for flow in flows))


def variation_percent(values: Sequence[float]) -> float | None:
    """Standard deviation over mean; None of fewer than three values."""
    if len(values) < 3:
        return None
    return percent(statistics.stdev(values), statistics.fmean(values))


def _of_time(flows: Sequence[Flow]) -> EvidenceValues:
    busy, *limited = (_limited_percent(flows, kind) for kind in ("busy_s", *_LIMITED))
    return {
        "busy_percent": busy,
        "rwnd_limited_percent": limited[0],
        "sndbuf_limited_percent": limited[1],
        "cwnd_limited_percent": None if busy is None else max(0.0, busy - (sum_known(*limited) or 0.0)),
        "app_limited_percent": percent(
            sum_known(*(flow.total("app_limited") for flow in flows)),
            sum(len(flow.values("app_limited")) for flow in flows),
        ),
        "recovering_percent": _share_of_levels(flows, "ca_state", _RECOVERING),
    }


def _share_of_levels(flows: Sequence[Flow], level: str, least_value: float) -> float | None:
    levels = [value for flow in flows for value in flow.values(level)]
    return percent(sum(value >= least_value for value in levels), len(levels))


def _of_levels(flows: Sequence[Flow], sinks: Sequence[Flow]) -> EvidenceValues:
    return {
        "rtt_us": median_over_flows(flows, lambda flow: median(flow.values("rtt_us"))),
        "min_rtt_us": median_over_flows(flows, lambda flow: smallest(flow.values("min_rtt_us"))),
        "rtt_over_min": median_over_flows(flows, lambda flow: median(flow.ratios("rtt_us", "min_rtt_us"))),
        "queueing_us": median_over_flows(flows, _queueing_us),
        "window_bytes": median_over_flows(flows, _window_bytes),
        "peer_window_bytes": median_over_flows(flows, lambda flow: median(flow.values("snd_wnd_bytes"))),
        "in_flight_bytes": median_over_flows(flows, _in_flight_bytes),
        "unsent_bytes": median_over_flows(flows, lambda flow: median(flow.values("notsent_bytes"))),
        "in_flight_over_window": median_over_flows(
            flows, lambda flow: median(flow.ratios("unacked", "cwnd"))
        ),
        "in_flight_over_send_buffer": median_over_flows(
            flows, lambda flow: _in_flight_over(flow, "sndbuf_bytes")
        ),
        "in_flight_over_peer_window": median_over_flows(
            flows, lambda flow: _in_flight_over(flow, "snd_wnd_bytes")
        ),
        "send_buffer_full_percent": _percent(flows, "wmem_queued_bytes", "sndbuf_bytes"),
        "goodput_over_window_law": median_over_flows(flows, _over_window_law),
        "send_buffer_bytes": median_over_flows(flows, lambda flow: median(flow.values("sndbuf_bytes"))),
        "receive_buffer_bytes": median_over_flows(sinks, lambda flow: median(flow.values("rcvbuf_bytes"))),
        "receive_queue_percent": _percent(sinks, "rmem_bytes", "rcvbuf_bytes"),
    }


def _percent(flows: Sequence[Flow], part: str, whole: str) -> float | None:
    share = median_over_flows(flows, lambda flow: mean(flow.ratios(part, whole)))
    return None if share is None else 100 * share


def _window_bytes(flow: Flow) -> float | None:
    segments = median(flow.values("cwnd"))
    return None if segments is None or flow.mss_bytes is None else segments * flow.mss_bytes


def _queueing_us(flow: Flow) -> float | None:
    rtt_us, shortest_us = median(flow.values("rtt_us")), smallest(flow.values("min_rtt_us"))
    return None if rtt_us is None or shortest_us is None else rtt_us - shortest_us


def _in_flight_over(flow: Flow, level: str) -> float | None:
    ratio = mean(flow.ratios("unacked", level))
    return None if ratio is None or flow.mss_bytes is None else ratio * flow.mss_bytes


def _in_flight_bytes(flow: Flow) -> float | None:
    # A mean, as Little's law wants it: where all is taken at once a sample finds everything on its way, or
    # nothing.
    segments = mean(flow.values("unacked"))
    return None if segments is None or flow.mss_bytes is None else segments * flow.mss_bytes


def _over_window_law(flow: Flow) -> float | None:
    in_flight, trip_us = _in_flight_bytes(flow), mean(flow.values("rtt_us"))
    return ratio(flow.goodput_bps, ratio(8e6 * in_flight, trip_us) if in_flight else None)


def _of_loss(part: SteadyPart, flows: Sequence[Flow]) -> EvidenceValues:
    sent = sum_known(*(flow.total("segments_out") for flow in flows))
    again = sum_known(*(flow.total("retransmits") for flow in flows))
    if not flows:
        samples = [x for _, of_side in part.senders for x in of_side]
        again = counter_total(samples, "tcp_segments_retransmitted")
        # The namespace counts these apart, a connection among all that it sent.
        sent = sum_known(counter_total(samples, "tcp_segments_out"), again)
    return {
        "retransmitted_percent": percent(again, sent),
        "timeouts_per_s": sum_known(*(rate_per_s(samples, "tcp_timeouts") for _, samples in part.senders)),
    }


def _of_pacing(part: SteadyPart, flows: Sequence[Flow]) -> EvidenceValues:
    if not flows:
        return {}
    ends = {flow.endpoint for flow in flows}
    told = [flow.values("pacing_max_bps") for flow in flows]
    set_rate = any(told) or part.trial.effective.get("pacing_rate_bps") is not None
    controls = [str(knob_value(part.trial, "congestion_control", end)) for end in ends]
    return {
        "pacing_share": median_over_flows(
            flows, lambda flow: ratio(flow.goodput_bps, median(flow.values("pacing_rate_bps")))
        ),
        "pacing_capped": float(set_rate),
        "pacing_by_congestion_control": largest(float(name.startswith(_PACING)) for name in controls),
    }
