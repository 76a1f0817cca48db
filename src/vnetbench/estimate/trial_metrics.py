"""Calculation of a trial's metrics from its samples and counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vnetbench.estimate.datagrams import count_distinct_arrived_datagrams, datagram_metrics
from vnetbench.estimate.frames import FRAMES_RECEIVED, FRAMES_SENT, frame_metrics
from vnetbench.estimate.guests import busy_percent, guest_metrics, sum_cpu_seconds_by_state
from vnetbench.estimate.latency import count_histogram_values, latency_metrics
from vnetbench.estimate.outage_metrics import outage_metrics
from vnetbench.estimate.segment_order import segment_order_metrics
from vnetbench.estimate.steady_state import SteadyPart, select_steady_part
from vnetbench.estimate.team_traffic import team_metrics
from vnetbench.estimate.time_series import (
    SteadySamples,
    merge_sample_histograms,
    received_load_bytes,
    received_or_acknowledged_bytes,
    trimmed_idle_samples,
)
from vnetbench.results.records import (
    HOST,
    OBSERVE,
    EndpointRecord,
    Histogram,
    Sample,
    StreamSample,
    TrialRecord,
    mapping_or_empty,
)

_LATENCY_RATIO_PERCENTILES = ("p50_us", "p99_us")
"""Latencies whose increase is also reported as a ratio."""


def trial_metrics(trial: TrialRecord, warmup_samples: int) -> dict[str, float]:
    """Return all metrics of a trial from its samples after the warm-up.

    A metric whose counters are missing is absent.

    Raises:
        ValueError: The trial has no samples.
    """
    return metrics_of_steady_part(select_steady_part(trial, warmup_samples))


def metrics_of_steady_part(part: SteadyPart) -> dict[str, float]:
    """Return all metrics of the steady part of a trial."""
    trial, load, warmup_samples = part.trial, part.load_intervals_with_warmup, part.warmup_samples
    endpoints, host_samples, steady_s = part.endpoints, part.host_samples, part.duration_s
    arrived = received_or_acknowledged_bytes(trial, [x for _, samples in endpoints for x in samples])
    latency = _merged_histogram(endpoints, "latency")
    return {
        **dict(_goodput_cpu_and_packet_metrics(endpoints, arrived, steady_s)),
        **dict(_metrics_of_both_endpoints(trial, endpoints, steady_s)),
        **dict(_request_metrics(trial, endpoints, latency, steady_s)),
        **dict(_idle_latency_and_increase_metrics(trial, latency)),
        **dict(datagram_metrics(trial, load, warmup_samples, steady_s)),
        **dict(outage_metrics(trial)),
        **dict(frame_metrics(trial, load, warmup_samples, steady_s)),
        **dict(_host_metrics(host_samples, endpoints, arrived, steady_s)),
        **dict(
            guest_metrics(
                {**_endpoint_groups_by_prefix(endpoints), "forwarder": part.forwarding_guest_observers},
                host_samples,
            )
        ),
        **dict(segment_order_metrics(part.receivers)),
        **dict(team_metrics(part)),
        **dict(_iperf3_server_metrics(trial)),
    }


def _endpoint_groups_by_prefix(endpoints: SteadySamples) -> dict[str, SteadySamples]:
    """Return the endpoints whose CPU time is summed, by the prefix of the metrics' names."""
    if any(s.role == "both" for s, _ in endpoints):
        # Each endpoint sends and receives, and the kernel does not separate the CPU time of the two.
        # An endpoint whose peer keeps no samples forms a group alone.
        first = [(s, x) for s, x in endpoints if len(endpoints) == 1 or _is_first_vm_of_pair(x)]
        return {"first_vm": first, "second_vm": [(s, x) for s, x in endpoints if (s, x) not in first]}
    return {
        "sender": [(s, x) for s, x in endpoints if s.role == "source"],
        "receiver": [(s, x) for s, x in endpoints if s.role == "sink"],
    }


def _is_first_vm_of_pair(samples: Sequence[Sample]) -> bool:
    """Return whether these samples are from the first VM of a pair, which is the source of stream 0."""
    return any(stream.stream_id == 0 and stream.role == "source" for x in samples for stream in x.streams)


def _goodput_cpu_and_packet_metrics(
    endpoints: SteadySamples, arrived: int, steady_s: float
) -> Iterator[tuple[str, float]]:
    groups = _endpoint_groups_by_prefix(endpoints)
    if not _is_request_only_load(endpoints) and not _is_frame_load(endpoints):
        yield "goodput_bps", 8 * arrived / steady_s
        if "first_vm" in groups:
            reverse = _received_bytes(groups["first_vm"])
            yield "goodput_forward_bps", 8 * (arrived - reverse) / steady_s
            yield "goodput_reverse_bps", 8 * reverse / steady_s
    for name, group in groups.items():
        if group:
            cpu_s = _counter_total(group, "process_cpu_user_s", "process_cpu_system_s")
            yield f"{name}_cpu_percent", 100 * cpu_s / steady_s
    receivers = [(s, x) for s, x in endpoints if s.role in ("sink", "both")]
    senders = [(s, x) for s, x in endpoints if s.role in ("source", "both")]
    if receivers:
        yield "packets_per_s", _counter_total(receivers, "rx_packets") / steady_s
    if packets := _counter_total(senders, "tx_packets"):
        yield "mean_segment_bytes", _counter_total(senders, "tx_bytes") / packets
    streams = [x for _, samples in senders for s in samples for x in s.streams if _is_load_stream(x)]
    has_no_connections = _is_frame_load(endpoints) or any("datagrams" in x.details for x in streams)
    if not senders or _merged_histogram(endpoints, "connect_time") or has_no_connections:
        return  # the metrics below need TCP connections that carry the load
    yield "segments_per_s", sum(_number_or_zero(x.details.get("segments_out")) for x in streams) / steady_s
    yield "retransmits_per_s", sum(x.retransmits or 0 for x in streams) / steady_s
    if rtts_us := [x.rtt_us for x in streams if x.rtt_us]:
        yield "rtt_us", sum(rtts_us) / len(rtts_us)


def _metrics_of_both_endpoints(
    trial: TrialRecord, endpoints: SteadySamples, steady_s: float
) -> Iterator[tuple[str, float]]:
    """Yield metrics that need the counters of both endpoints."""
    if all(endpoint.is_sampled for endpoint in trial.endpoints):
        switches = _counter_total(endpoints, "voluntary_switches", "involuntary_switches")
        yield "context_switches_per_s", switches / steady_s


def _iperf3_server_metrics(trial: TrialRecord) -> Iterator[tuple[str, float]]:
    """Yield metrics that an iperf3 server reports for the whole trial."""
    for endpoint in trial.endpoints:
        if endpoint.is_sampled:
            continue
        # The value is 0 on systems that do not report it.
        if total := _number_or_zero(mapping_or_empty(endpoint.totals.get("cpu_percent")).get("total")):
            yield "server_cpu_percent", total
        streams = endpoint.totals.get("streams")
        reported = (
            [mapping_or_empty(each).get("retransmits") for each in streams]
            if isinstance(streams, list)
            else []
        )
        if known := [_number_or_zero(count) for count in reported if count is not None]:
            yield "server_retransmits", sum(known)


def _merged_histogram(endpoints: SteadySamples, kind: str) -> Histogram:
    return merge_sample_histograms((x for _, samples in endpoints for x in samples), kind)


def _is_load_stream(stream: StreamSample) -> bool:
    return stream.role == "source" and stream.load_part != "requests"


def _is_request_only_load(endpoints: SteadySamples) -> bool:
    """Return whether the load consists of requests only, unlike with `mixed`."""
    parts = {x.load_part for _, samples in endpoints for sample in samples for x in sample.streams}
    return "transfers" not in parts and _has_transactions(endpoints)


def _has_transactions(endpoints: SteadySamples) -> bool:
    return any(
        count_histogram_values(x.histograms.get("latency", ())) for _, samples in endpoints for x in samples
    )


def _is_frame_load(endpoints: SteadySamples) -> bool:
    """Return whether the load is frames, which have neither goodput nor connections."""
    streams = (x for _, samples in endpoints for sample in samples for x in sample.streams)
    return any(kind in x.details for x in streams for kind in (FRAMES_SENT, FRAMES_RECEIVED))


def _count_transactions(endpoints: SteadySamples) -> int:
    return count_histogram_values(_merged_histogram(endpoints, "latency"))


def _request_metrics(
    trial: TrialRecord, endpoints: SteadySamples, latency: Histogram, steady_s: float
) -> Iterator[tuple[str, float]]:
    """Yield metrics of workloads with requests."""
    connect = _merged_histogram(endpoints, "connect_time")
    if not (transactions := count_histogram_values(latency)):
        return
    if not connect:
        yield "transactions_per_s", transactions / steady_s
    yield from latency_metrics(latency, "latency")
    if connect:
        yield "connections_per_s", count_histogram_values(connect) / steady_s
        yield from latency_metrics(connect, "connect")
    paced = [s.totals for s in trial.endpoints if "pacing" in mapping_or_empty(s.totals.get("instrument"))]
    if paced:
        yield "outstanding_at_end", sum(_number_or_zero(totals.get("outstanding_at_end")) for totals in paced)
    if not _is_request_only_load(endpoints):
        return
    switches = _counter_total(endpoints, "voluntary_switches", "involuntary_switches")
    yield "context_switches_per_transaction", switches / transactions
    yield "packets_per_transaction", _counter_total(endpoints, "rx_packets") / transactions


def _idle_latency_and_increase_metrics(trial: TrialRecord, latency: Histogram) -> Iterator[tuple[str, float]]:
    """Yield the idle latency, and its increase under load."""
    idle = dict(latency_metrics(merge_sample_histograms(trimmed_idle_samples(trial), "latency"), "latency"))
    loaded = dict(latency_metrics(latency, "latency"))
    for name, before_us in idle.items():
        kind = name.removeprefix("latency_")
        yield f"latency_idle_{kind}", before_us
        if name in loaded:
            yield f"latency_increase_{kind}", loaded[name] - before_us
        if name in loaded and kind in _LATENCY_RATIO_PERCENTILES:
            yield f"latency_ratio_{kind.removesuffix('_us')}", loaded[name] / before_us


def _host_metrics(
    host_samples: Sequence[Sample], endpoints: SteadySamples, arrived_payload_bytes: int, steady_s: float
) -> Iterator[tuple[str, float]]:
    if not host_samples:
        return
    observed_s = sum(x.interval_s for x in host_samples)
    times = sum_cpu_seconds_by_state(host_samples)
    if (busy := busy_percent(times)) is not None:
        yield "host_cpu_percent", busy
        yield "host_softirq_percent", 100 * times.get("softirq_s", 0.0) / observed_s
    host: SteadySamples = [(EndpointRecord(HOST, OBSERVE, {}, ()), host_samples)]
    transactions = _count_transactions(endpoints) if _is_request_only_load(endpoints) else 0
    cycles = _counter_total(host, "cycles")
    # Rates instead of counts, because the two time windows may differ by a sample.
    if transactions and cycles:
        yield "cycles_per_transaction", (cycles / observed_s) / (transactions / steady_s)
    elif arrived_payload_bytes and cycles:
        yield "cycles_per_byte", (cycles / observed_s) / (arrived_payload_bytes / steady_s)
    if cycles and (
        datagrams := sum(count_distinct_arrived_datagrams(x) for _, samples in endpoints for x in samples)
    ):
        yield "cycles_per_datagram", (cycles / observed_s) / (datagrams / steady_s)
    interrupts = _counter_total(host, "interrupts") / observed_s
    yield "interrupts_per_s", interrupts
    if transactions:
        yield "interrupts_per_transaction", interrupts / (transactions / steady_s)
    softirqs = _counter_total(host, "softirq_net_rx") / observed_s
    yield "net_rx_softirqs_per_s", softirqs
    packets = _counter_total(endpoints, "rx_packets") / steady_s
    if softirqs:
        yield "packets_per_interrupt", packets / softirqs


def _received_bytes(endpoints: SteadySamples) -> int:
    return sum(received_load_bytes(x) for _, samples in endpoints for x in samples)


def _counter_total(endpoints: SteadySamples, *counters: str) -> float:
    return sum(x.counters.get(each, 0.0) for each in counters for _, samples in endpoints for x in samples)


def _number_or_zero(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
