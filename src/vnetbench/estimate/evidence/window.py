"""Evidence of TCP windows: what senders waited for, data in flight, buffers and pacing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    effective_knob_value,
    largest,
    mean,
    median,
    percent,
    percent_at_most_100,
    ratio,
    smallest,
    sum_known_values,
    total_of_counter,
)
from vnetbench.estimate.evidence.flows import Flow, median_over_flows
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart

_FIRST_REDUCED_WINDOW_STATE = 3
"""From this state on (include/uapi/linux/tcp.h, enum tcp_ca_state), a loss has reduced the window."""
_PACING_ALGORITHMS = ("bbr",)
"""Congestion control algorithms that always pace; others pace only if a rate is set."""

_MEDIAN_OF_MEDIANS_TEXT = "median over each stream's samples, then median over the streams"
_MEDIAN_OF_MEANS_TEXT = "mean over each stream's samples, then median over the streams"

WINDOW_EVIDENCE_METRICS = (
    EvidenceMetric(
        "busy_percent",
        "% of time",
        "time with unacknowledged data",
        "share of the time in which a stream had unacknowledged data, mean of the streams",
        ("busy_s",),
    ),
    EvidenceMetric(
        "rwnd_limited_percent",
        "% of time",
        "time waiting for the receiver's window",
        "share of the time in which the receiver's window limited a stream, mean of the streams",
        ("rwnd_limited_s",),
    ),
    EvidenceMetric(
        "sndbuf_limited_percent",
        "% of time",
        "time waiting for the send buffer",
        "share of the time in which a full send buffer limited a stream, mean of the streams. A small "
        "buffer can limit a stream although this metric is 0",
        ("sndbuf_limited_s",),
    ),
    EvidenceMetric(
        "cwnd_limited_percent",
        "% of time",
        "time waiting for congestion window or network",
        "share of the time in which a stream had unacknowledged data and neither the receiver's window nor "
        "the send buffer limited it, mean of the streams",
        ("busy_s", "rwnd_limited_s", "sndbuf_limited_s"),
    ),
    EvidenceMetric(
        "app_limited_percent",
        "% of samples",
        "samples in which the sender had nothing to send",
        "share of the samples in which the sending program limited TCP's last rate measurement",
        ("app_limited",),
    ),
    EvidenceMetric(
        "rtt_us",
        "µs",
        "round-trip time",
        f"TCP's smoothed round-trip time, {_MEDIAN_OF_MEDIANS_TEXT}",
        ("rtt_us",),
    ),
    EvidenceMetric(
        "min_rtt_us",
        "µs",
        "shortest round-trip time",
        "minimum round-trip time that TCP measured in a stream, median of the streams",
        ("min_rtt_us",),
    ),
    EvidenceMetric(
        "rtt_over_min",
        "1",
        "ratio of round-trip time to the shortest",
        f"smoothed round-trip time divided by the minimum round-trip time, {_MEDIAN_OF_MEDIANS_TEXT}. "
        "It is much more than 1 if packets wait in a queue",
        ("rtt_us", "min_rtt_us"),
    ),
    EvidenceMetric(
        "queueing_us",
        "µs",
        "time in queues",
        f"smoothed round-trip time minus the minimum round-trip time, {_MEDIAN_OF_MEDIANS_TEXT}",
        ("rtt_us", "min_rtt_us"),
    ),
    EvidenceMetric(
        "window_bytes",
        "B",
        "congestion window",
        f"congestion window in bytes, {_MEDIAN_OF_MEDIANS_TEXT}",
        ("cwnd", "mss_bytes"),
    ),
    EvidenceMetric(
        "peer_window_bytes",
        "B",
        "receiver's window",
        f"window that the receiver advertises, {_MEDIAN_OF_MEDIANS_TEXT}",
        ("snd_wnd_bytes",),
    ),
    EvidenceMetric(
        "in_flight_bytes",
        "B",
        "bytes in flight",
        f"bytes of a stream that are sent and not acknowledged, {_MEDIAN_OF_MEANS_TEXT}",
        ("unacked", "mss_bytes"),
    ),
    EvidenceMetric(
        "unsent_bytes",
        "B",
        "bytes not yet sent",
        f"bytes in a stream's send buffer that are not yet sent, {_MEDIAN_OF_MEDIANS_TEXT}",
        ("notsent_bytes",),
    ),
    EvidenceMetric(
        "in_flight_over_window",
        "1",
        "share of the congestion window in use",
        f"segments in flight divided by the congestion window, {_MEDIAN_OF_MEDIANS_TEXT}. "
        "It is near 1 if the congestion window limits the stream",
        ("unacked", "cwnd"),
    ),
    EvidenceMetric(
        "in_flight_over_send_buffer",
        "1",
        "ratio of bytes in flight to send buffer",
        f"bytes in flight divided by the size of the send buffer, {_MEDIAN_OF_MEANS_TEXT}. A full buffer "
        "shows less than 1, because it includes kernel overhead. A small buffer shows more than 1, because "
        "of TSO packets",
        ("unacked", "mss_bytes", "sndbuf_bytes"),
    ),
    EvidenceMetric(
        "in_flight_over_peer_window",
        "1",
        "ratio of bytes in flight to receiver's window",
        f"bytes in flight divided by the receiver's window, {_MEDIAN_OF_MEANS_TEXT}. It is near 1 if the "
        "receiver's window limits the stream",
        ("unacked", "mss_bytes", "snd_wnd_bytes"),
    ),
    EvidenceMetric(
        "send_buffer_full_percent",
        "% of the buffer",
        "used share of the send buffer",
        f"share of the send buffer in use, at most 100 with the kernel's overhead, {_MEDIAN_OF_MEANS_TEXT}",
        ("wmem_queued_bytes", "sndbuf_bytes"),
    ),
    EvidenceMetric(
        "goodput_over_window_law",
        "1",
        "ratio of goodput to bytes in flight per round-trip time",
        "goodput of a stream divided by its bytes in flight per round-trip time, median of the streams. It "
        "is near 1 if goodput, bytes and time are measured correctly (Little's law)",
        ("bytes_acked", "unacked", "mss_bytes", "rtt_us"),
    ),
    EvidenceMetric(
        "send_buffer_bytes",
        "B",
        "send buffer",
        f"size of a stream's send buffer (SO_SNDBUF), {_MEDIAN_OF_MEDIANS_TEXT}",
        ("sndbuf_bytes",),
    ),
    EvidenceMetric(
        "receive_buffer_bytes",
        "B",
        "receive buffer",
        f"size of a stream's receive buffer (SO_RCVBUF), {_MEDIAN_OF_MEDIANS_TEXT}",
        ("rcvbuf_bytes",),
    ),
    EvidenceMetric(
        "receive_queue_percent",
        "% of the buffer",
        "used share of the receive buffer",
        f"share of the receive buffer that holds unread data, {_MEDIAN_OF_MEANS_TEXT}",
        ("rmem_bytes", "rcvbuf_bytes"),
    ),
    EvidenceMetric(
        "retransmitted_percent",
        "% of segments",
        "retransmitted segments",
        "share of the segments that were retransmitted. For connections of one request, the share in the "
        "sender's whole network namespace",
        ("retransmits", "segments_out", "tcp_segments_retransmitted", "tcp_segments_out"),
    ),
    EvidenceMetric(
        "recovering_percent",
        "% of samples",
        "samples in which streams recover from loss",
        "share of the streams' samples in which a stream was recovering from a loss",
        ("ca_state",),
    ),
    EvidenceMetric(
        "timeouts_per_s",
        "1/s",
        "retransmission timeouts",
        "retransmission timeouts per second, sum of all senders",
        ("tcp_timeouts",),
    ),
    EvidenceMetric(
        "goodput_over_pacing_rate",
        "1",
        "ratio of goodput to pacing rate",
        "goodput of a stream divided by its kernel's pacing rate, median of the streams. It is near 1 if "
        "pacing is active (`pacing_capped`, `pacing_by_congestion_control`) and limits the stream",
        ("bytes_acked", "pacing_rate_bps"),
    ),
    EvidenceMetric(
        "pacing_capped",
        YES_OR_NO_UNIT,
        "maximum pacing rate set",
        "1 if a stream has a maximum pacing rate (SO_MAX_PACING_RATE)",
        ("pacing_max_bps", "pacing_rate_bps"),
    ),
    EvidenceMetric(
        "pacing_by_congestion_control",
        YES_OR_NO_UNIT,
        "congestion control with pacing",
        "1 if a stream's congestion control always paces (bbr)",
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
        "goodput_variation",
        "1",
        "variation within a trial",
        "standard deviation of the deciding metric over the samples after the warm-up, divided by its mean",
        ("bytes_received",),
    ),
)


def window_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of WINDOW_EVIDENCE_METRICS."""
    part, senders = data.steady_part, data.tcp_senders
    return {
        **_limited_time_percents(senders),
        **_rtt_and_window_values(senders, data.tcp_receivers),
        **_retransmit_values(part, senders),
        **_pacing_values(part, senders),
        "stream_goodput_bps": median_over_flows(data.sending_flows, lambda flow: flow.goodput_bps or None),
        "goodput_variation": coefficient_of_variation(data.steady_deciding_series),
    }


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Return the standard deviation over the mean; None for fewer than three values."""
    if len(values) < 3:
        return None
    return ratio(statistics.stdev(values), statistics.fmean(values))


def _limited_time_percents(senders: Sequence[Flow]) -> EvidenceValues:
    busy, rwnd_limited, sndbuf_limited = (
        _mean_time_percent(senders, counter) for counter in ("busy_s", "rwnd_limited_s", "sndbuf_limited_s")
    )
    limited = sum_known_values(rwnd_limited, sndbuf_limited) or 0.0
    return {
        "busy_percent": busy,
        "rwnd_limited_percent": rwnd_limited,
        "sndbuf_limited_percent": sndbuf_limited,
        "cwnd_limited_percent": None if busy is None else max(0.0, busy - limited),
        "app_limited_percent": percent(
            sum_known_values(*(flow.total("app_limited") for flow in senders)),
            sum(len(flow.values("app_limited")) for flow in senders),
        ),
        "recovering_percent": _percent_of_samples_reaching(senders, "ca_state", _FIRST_REDUCED_WINDOW_STATE),
    }


def _mean_time_percent(flows: Sequence[Flow], counter: str) -> float | None:
    """Return a counter of seconds as a share of the time, mean of the flows."""
    return percent_at_most_100(
        sum_known_values(*(flow.total(counter) for flow in flows)), sum(flow.duration_s for flow in flows)
    )


def _percent_of_samples_reaching(flows: Sequence[Flow], name: str, min_value: float) -> float | None:
    values = [value for flow in flows for value in flow.values(name)]
    return percent(sum(value >= min_value for value in values), len(values))


def _rtt_and_window_values(senders: Sequence[Flow], receivers: Sequence[Flow]) -> EvidenceValues:
    return {
        "rtt_us": median_over_flows(senders, lambda flow: median(flow.values("rtt_us"))),
        "min_rtt_us": median_over_flows(senders, lambda flow: smallest(flow.values("min_rtt_us"))),
        "rtt_over_min": median_over_flows(
            senders, lambda flow: median(flow.sample_ratios("rtt_us", "min_rtt_us"))
        ),
        "queueing_us": median_over_flows(senders, _median_rtt_above_minimum_us),
        "window_bytes": median_over_flows(senders, _median_cwnd_bytes),
        "peer_window_bytes": median_over_flows(senders, lambda flow: median(flow.values("snd_wnd_bytes"))),
        "in_flight_bytes": median_over_flows(senders, _mean_in_flight_bytes),
        "unsent_bytes": median_over_flows(senders, lambda flow: median(flow.values("notsent_bytes"))),
        "in_flight_over_window": median_over_flows(
            senders, lambda flow: median(flow.sample_ratios("unacked", "cwnd"))
        ),
        "in_flight_over_send_buffer": median_over_flows(
            senders, lambda flow: _mean_in_flight_share(flow, "sndbuf_bytes")
        ),
        "in_flight_over_peer_window": median_over_flows(
            senders, lambda flow: _mean_in_flight_share(flow, "snd_wnd_bytes")
        ),
        "send_buffer_full_percent": _mean_ratio_percent(senders, "wmem_queued_bytes", "sndbuf_bytes"),
        "goodput_over_window_law": median_over_flows(senders, _goodput_over_littles_law),
        "send_buffer_bytes": median_over_flows(senders, lambda flow: median(flow.values("sndbuf_bytes"))),
        "receive_buffer_bytes": median_over_flows(
            receivers, lambda flow: median(flow.values("rcvbuf_bytes"))
        ),
        "receive_queue_percent": _mean_ratio_percent(receivers, "rmem_bytes", "rcvbuf_bytes"),
    }


def _mean_ratio_percent(flows: Sequence[Flow], part_counter: str, whole_counter: str) -> float | None:
    share = median_over_flows(
        flows, lambda flow: mean(min(1.0, each) for each in flow.sample_ratios(part_counter, whole_counter))
    )
    return None if share is None else 100 * share


def _median_cwnd_bytes(flow: Flow) -> float | None:
    segments = median(flow.values("cwnd"))
    return None if segments is None or flow.mss_bytes is None else segments * flow.mss_bytes


def _median_rtt_above_minimum_us(flow: Flow) -> float | None:
    rtt_us, min_rtt_us = median(flow.values("rtt_us")), smallest(flow.values("min_rtt_us"))
    return None if rtt_us is None or min_rtt_us is None else rtt_us - min_rtt_us


def _mean_in_flight_share(flow: Flow, limit_counter: str) -> float | None:
    mean_ratio = mean(flow.sample_ratios("unacked", limit_counter))
    return None if mean_ratio is None or flow.mss_bytes is None else mean_ratio * flow.mss_bytes


def _mean_in_flight_bytes(flow: Flow) -> float | None:
    # Little's law needs the mean. A median would fail if data leaves in bursts: a sample then finds either
    # everything or nothing in flight.
    segments = mean(flow.values("unacked"))
    return None if segments is None or flow.mss_bytes is None else segments * flow.mss_bytes


def _goodput_over_littles_law(flow: Flow) -> float | None:
    in_flight_bytes, rtt_us = _mean_in_flight_bytes(flow), mean(flow.values("rtt_us"))
    return ratio(flow.goodput_bps, ratio(8e6 * in_flight_bytes, rtt_us) if in_flight_bytes else None)


def _retransmit_values(part: SteadyPart, senders: Sequence[Flow]) -> EvidenceValues:
    sent = sum_known_values(*(flow.total("segments_out") for flow in senders))
    retransmits = sum_known_values(*(flow.total("retransmits") for flow in senders))
    if not senders:
        samples = [x for _, of_endpoint in part.senders for x in of_endpoint]
        retransmits = total_of_counter(samples, "tcp_segments_retransmitted")
        # A network namespace counts retransmits separately; a connection includes them in all segments.
        sent = sum_known_values(total_of_counter(samples, "tcp_segments_out"), retransmits)
    return {
        "retransmitted_percent": percent(retransmits, sent),
        "timeouts_per_s": sum_known_values(
            *(counter_rate_per_s(samples, "tcp_timeouts") for _, samples in part.senders)
        ),
    }


def _pacing_values(part: SteadyPart, senders: Sequence[Flow]) -> EvidenceValues:
    if not senders:
        return {}
    max_rates = [flow.values("pacing_max_bps") for flow in senders]
    is_capped = any(max_rates) or part.trial.effective.get("pacing_rate_bps") is not None
    endpoints = {flow.endpoint for flow in senders}
    algorithms = [str(effective_knob_value(part.trial, "congestion_control", name)) for name in endpoints]
    return {
        "goodput_over_pacing_rate": median_over_flows(
            senders, lambda flow: ratio(flow.goodput_bps, median(flow.values("pacing_rate_bps")))
        ),
        "pacing_capped": float(is_capped),
        "pacing_by_congestion_control": largest(
            float(each.startswith(_PACING_ALGORITHMS)) for each in algorithms
        ),
    }
