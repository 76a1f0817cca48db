"""How each metric of a trial comes from its samples and counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vnetbench.estimate.time_series import (
    SteadySamples,
    arrived_bytes,
    received_load_bytes,
    idle_samples,
    merged_histogram,
)
from vnetbench.estimate.datagrams import count_arrived_datagrams, datagram_metrics
from vnetbench.estimate.frames import RECEIVED, SENT, frame_metrics
from vnetbench.estimate.guests import busy_percent, guest_metrics, cpu_times
from vnetbench.estimate.latency import histogram_count, latency_metrics
from vnetbench.estimate.steady_state import SteadyPart, select_steady_part
from vnetbench.results.records import (
    HOST,
    OBSERVE,
    Histogram,
    Sample,
    EndpointRecord,
    StreamSample,
    TrialRecord,
)

_RATIOS = ("p50_us", "p99_us")
"""The latencies of which the increase is told as a ratio too."""


def trial_metrics(trial: TrialRecord, warmup_samples: int) -> dict[str, float]:
    """All metrics of a trial, from its samples after the first `cut`.

    Counters are added up over these samples only. A metric whose counters are missing is absent. Raises
    ValueError for a trial without samples.
    """
    return steady_metrics(select_steady_part(trial, warmup_samples))


def steady_metrics(part: SteadyPart) -> dict[str, float]:
    """The same of a steady part."""
    trial, load, cut = part.trial, part.load_intervals, part.warmup_samples
    sides, host, steady_s = part.endpoints, part.host_samples, part.duration_s
    arrived = arrived_bytes(trial, [x for _, samples in sides for x in samples])
    latency = _of_kind(sides, "latency")
    return {
        **dict(_of_endpoints(sides, arrived, steady_s)),
        **dict(_of_pairs(trial, sides, steady_s)),
        **dict(_of_requests(trial, sides, latency, steady_s)),
        **dict(_of_load(trial, latency)),
        **dict(datagram_metrics(trial, load, cut, steady_s)),
        **dict(frame_metrics(trial, load, cut, steady_s)),
        **dict(_of_host(host, sides, arrived, steady_s)),
        **dict(guest_metrics({**_groups(sides), "forwarder": part.forwarders}, host)),
        **dict(_of_servers(trial)),
    }


def _groups(sides: SteadySamples) -> dict[str, SteadySamples]:
    """The endpoints whose CPUs are told together, by how the names of those metrics begin."""
    if any(s.role == "both" for s, _ in sides):
        # Each endpoint sends and receives, and the kernel does not tell what it spent on which.
        # One whose other side keeps no samples stands alone.
        first = [(s, x) for s, x in sides if len(sides) == 1 or _sends_forward(x)]
        return {"first_vm": first, "second_vm": [(s, x) for s, x in sides if (s, x) not in first]}
    return {
        "sender": [(s, x) for s, x in sides if s.role == "source"],
        "receiver": [(s, x) for s, x in sides if s.role == "sink"],
    }


def _sends_forward(samples: Sequence[Sample]) -> bool:
    """Whether these are of side a, whatever the endpoint is called: stream 0 goes from there to side b."""
    return any(stream.stream == 0 and stream.role == "source" for x in samples for stream in x.streams)


def _of_endpoints(sides: SteadySamples, arrived: int, steady_s: float) -> Iterator[tuple[str, float]]:
    groups = _groups(sides)
    if not _only_requests(sides) and not _are_frames(sides):
        yield "goodput_bps", 8 * arrived / steady_s
        if "first_vm" in groups:
            reverse = _received(groups["first_vm"])
            yield "goodput_forward_bps", 8 * (arrived - reverse) / steady_s
            yield "goodput_reverse_bps", 8 * reverse / steady_s
    for name, group in groups.items():
        if group:
            spent = _total(group, "process_cpu_user_s") + _total(group, "process_cpu_system_s")
            yield f"{name}_cpu_percent", 100 * spent / steady_s
    taken = [(s, x) for s, x in sides if s.role in ("sink", "both")]
    given = [(s, x) for s, x in sides if s.role in ("source", "both")]
    if taken:
        yield "packets_per_s", _total(taken, "rx_packets") / steady_s
    if packets := _total(given, "tx_packets"):
        yield "mean_segment_bytes", _total(given, "tx_bytes") / packets
    streams = [x for _, samples in given for s in samples for x in s.streams if _loads(x)]
    has_others = _are_frames(sides) or any("datagrams" in x.info for x in streams)
    if not given or _of_kind(sides, "connect") or has_others:
        return  # what follows is known of the streams' own connections only, which carry none of the load
    yield "segments_per_s", sum(_number(x.info.get("segments_out")) for x in streams) / steady_s
    yield "retransmits_per_s", sum(x.retransmits or 0 for x in streams) / steady_s
    if trips := [x.rtt_us for x in streams if x.rtt_us]:
        yield "rtt_us", sum(trips) / len(trips)


def _of_pairs(trial: TrialRecord, sides: SteadySamples, steady_s: float) -> Iterator[tuple[str, float]]:
    """What is of both ends of every stream together."""
    if all(side.is_sampled for side in trial.endpoints):
        switches = _total(sides, "voluntary_switches") + _total(sides, "involuntary_switches")
        yield "context_switches_per_s", switches / steady_s


def _of_servers(trial: TrialRecord) -> Iterator[tuple[str, float]]:
    """What an iperf3 server tells of its side, of whole trials."""
    for side in trial.endpoints:
        if side.is_sampled:
            continue
        # A system that does not tell it has 0 there.
        if total := _number(_mapping(side.totals.get("cpu_percent")).get("total")):
            yield "server_cpu_percent", total
        streams = side.totals.get("streams")
        told = [_mapping(each).get("retransmits") for each in streams] if isinstance(streams, list) else []
        if known := [_number(count) for count in told if count is not None]:
            yield "server_retransmits", sum(known)


def _of_kind(sides: SteadySamples, kind: str) -> Histogram:
    return merged_histogram((x for _, samples in sides for x in samples), kind)


def _loads(stream: StreamSample) -> bool:
    return stream.role == "source" and stream.part != "requests"


def _only_requests(sides: SteadySamples) -> bool:
    """Whether requests are the load, and not beside one (`mixed`)."""
    parts = {x.part for _, samples in sides for sample in samples for x in sample.streams}
    return "transfers" not in parts and _has_transactions(sides)


def _has_transactions(sides: SteadySamples) -> bool:
    return any(histogram_count(x.histograms.get("latency", ())) for _, samples in sides for x in samples)


def _are_frames(sides: SteadySamples) -> bool:
    """Whether the load is frames, whose bytes are no goodput and whose streams have no connection."""
    streams = (x for _, samples in sides for sample in samples for x in sample.streams)
    return any(kind in x.info for x in streams for kind in (SENT, RECEIVED))


def _transactions(sides: SteadySamples) -> int:
    return histogram_count(_of_kind(sides, "latency"))


def _of_requests(
    trial: TrialRecord, sides: SteadySamples, latency: Histogram, steady_s: float
) -> Iterator[tuple[str, float]]:
    """What there is only where requests are made."""
    connect = _of_kind(sides, "connect")
    if not (transactions := histogram_count(latency)):
        return
    if not connect:
        yield "transactions_per_s", transactions / steady_s
    yield from latency_metrics(latency, "latency")
    if connect:
        yield "connections_per_s", histogram_count(connect) / steady_s
        yield from latency_metrics(connect, "connect")
    paced = [s.totals for s in trial.endpoints if "pacing" in _mapping(s.totals.get("instrument"))]
    if paced:
        yield "outstanding_at_end", sum(_number(totals.get("outstanding_at_end")) for totals in paced)
    if not _only_requests(sides):
        return
    switches = _total(sides, "voluntary_switches") + _total(sides, "involuntary_switches")
    yield "context_switches_per_transaction", switches / transactions
    yield "packets_per_transaction", _total(sides, "rx_packets") / transactions


def _of_load(trial: TrialRecord, latency: Histogram) -> Iterator[tuple[str, float]]:
    """What a load adds to the latency of the requests beside it, against the same of before."""
    idle = dict(latency_metrics(merged_histogram(idle_samples(trial), "latency"), "latency"))
    loaded = dict(latency_metrics(latency, "latency"))
    for name, before_us in idle.items():
        kind = name.removeprefix("latency_")
        yield f"latency_idle_{kind}", before_us
        if name in loaded:
            yield f"latency_increase_{kind}", loaded[name] - before_us
        if name in loaded and kind in _RATIOS:
            yield f"latency_ratio_{kind.removesuffix('_us')}", loaded[name] / before_us


def _of_host(
    watched: Sequence[Sample], sides: SteadySamples, arrived: int, steady_s: float
) -> Iterator[tuple[str, float]]:
    if not watched:
        return
    watched_s = sum(x.interval_s for x in watched)
    times = cpu_times(watched)
    if (busy := busy_percent(times)) is not None:
        yield "host_cpu_percent", busy
        yield "host_softirq_percent", 100 * times.get("softirq_s", 0.0) / watched_s
    host: SteadySamples = [(EndpointRecord(HOST, OBSERVE, {}, ()), watched)]
    transactions = _transactions(sides) if _only_requests(sides) else 0
    cycles = _total(host, "cycles")
    # Both per second, as the two windows may differ by a sample.
    if transactions and cycles:
        yield "cycles_per_transaction", (cycles / watched_s) / (transactions / steady_s)
    elif arrived and cycles:
        yield "cycles_per_byte", (cycles / watched_s) / (arrived / steady_s)
    if cycles and (datagrams := sum(count_arrived_datagrams(x) for _, samples in sides for x in samples)):
        yield "cycles_per_datagram", (cycles / watched_s) / (datagrams / steady_s)
    interrupts = _total(host, "interrupts") / watched_s
    yield "interrupts_per_s", interrupts
    if transactions:
        yield "interrupts_per_transaction", interrupts / (transactions / steady_s)
    softirqs = _total(host, "softirq_net_rx") / watched_s
    yield "net_rx_softirqs_per_s", softirqs
    packets = sum(_total([side], "rx_packets") for side in sides) / steady_s
    if softirqs:
        yield "packets_per_interrupt", packets / softirqs


def _received(sides: SteadySamples) -> int:
    return sum(received_load_bytes(x) for _, samples in sides for x in samples)


def _total(sides: SteadySamples, counter: str) -> float:
    return sum(x.counters.get(counter, 0.0) for _, samples in sides for x in samples)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
