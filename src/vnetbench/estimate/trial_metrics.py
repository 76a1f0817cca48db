"""How each metric of a trial comes from its samples and counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vnetbench.estimate.course import course, intervals, load_end_s, merged_of
from vnetbench.estimate.datagrams import arrived_in, datagram_metrics
from vnetbench.estimate.latency import count_of, latency_metrics
from vnetbench.results.records import Histogram, Sample, SideRecord, TrialRecord

Steady = Sequence[tuple[SideRecord, Sequence[Sample]]]


def metric_values(trial: TrialRecord, cut: int) -> dict[str, float]:
    """All metrics of a trial, from its samples after the first `cut`.

    Counters are added up over these samples only. A metric whose counters are missing is absent. Raises
    ValueError for a trial without samples.
    """
    load = intervals(trial)
    lengths = course(trial).lengths_s
    sides = [
        (s, [x for interval in load[s.endpoint][cut:] for x in interval])
        for s in trial.sides
        if s.endpoint in load
    ]
    host = next((s for s in trial.sides if s.role == "observe"), None)
    from_s, steady_s = sum(lengths[:cut]), sum(lengths[cut:])
    # Its samples begin a moment apart from the endpoints': each counts where its middle lies.
    watched = (
        [x for x in host.samples if from_s < x.t_s - x.interval_s / 2 and x.t_s <= load_end_s(trial, x)]
        if host
        else []
    )
    return {
        **dict(_of_endpoints(sides, steady_s)),
        **dict(_of_requests(trial, sides, steady_s)),
        **dict(datagram_metrics(trial, load, cut, steady_s)),
        **dict(_of_host(watched, sides, steady_s)),
    }


def _of_endpoints(sides: Steady, steady_s: float) -> Iterator[tuple[str, float]]:
    if not _transactions(sides):
        received = sum(x.bytes_received for _, samples in sides for x in samples)
        yield "goodput_bps", 8 * received / steady_s
    senders = [(s, x) for s, x in sides if s.role in ("source", "both")]
    # With direction both each endpoint does both; the endpoints of side a then stand as senders.
    if all(s.role == "both" for s, _ in sides):
        senders = [(s, x) for s, x in sides if s.endpoint.startswith("a")]
    receivers = [(s, x) for s, x in sides if (s, x) not in senders]
    for name, group in (("sender_cpu_percent", senders), ("receiver_cpu_percent", receivers)):
        spent = _total(group, "process_cpu_user_s") + _total(group, "process_cpu_system_s")
        yield name, 100 * spent / steady_s
    taken = [(s, x) for s, x in sides if s.role in ("sink", "both")]
    given = [(s, x) for s, x in sides if s.role in ("source", "both")]
    yield "packets_per_s", _total(taken, "rx_packets") / steady_s
    if packets := _total(given, "tx_packets"):
        yield "mean_segment_bytes", _total(given, "tx_bytes") / packets
    switches = _total(sides, "voluntary_switches") + _total(sides, "involuntary_switches")
    yield "context_switches_per_s", switches / steady_s
    streams = [x for _, samples in given for s in samples for x in s.streams if x.role == "source"]
    if _of_kind(sides, "connect") or any("datagrams" in x.info for x in streams):
        return  # what follows is known of the streams' own connections only, which carry none of the load
    yield "segments_per_s", sum(_number(x.info.get("segments_out")) for x in streams) / steady_s
    yield "retransmits_per_s", sum(x.retransmits or 0 for x in streams) / steady_s
    if trips := [x.rtt_us for x in streams if x.rtt_us]:
        yield "rtt_us", sum(trips) / len(trips)


def _of_kind(sides: Steady, kind: str) -> Histogram:
    return merged_of((x for _, samples in sides for x in samples), kind)


def _transactions(sides: Steady) -> int:
    return count_of(_of_kind(sides, "latency"))


def _of_requests(trial: TrialRecord, sides: Steady, steady_s: float) -> Iterator[tuple[str, float]]:
    """What there is only where requests are made."""
    latency, connect = _of_kind(sides, "latency"), _of_kind(sides, "connect")
    if not (transactions := count_of(latency)):
        return
    if not connect:
        yield "transactions_per_s", transactions / steady_s
    yield from latency_metrics(latency, "latency")
    if connect:
        yield "connections_per_s", count_of(connect) / steady_s
        yield from latency_metrics(connect, "connect")
    paced = [s.totals for s in trial.sides if "pacing" in _mapping(s.totals.get("instrument"))]
    if paced:
        yield "outstanding_at_end", sum(_number(totals.get("outstanding_at_end")) for totals in paced)
    switches = _total(sides, "voluntary_switches") + _total(sides, "involuntary_switches")
    yield "context_switches_per_transaction", switches / transactions
    yield "packets_per_transaction", _total(sides, "rx_packets") / transactions


def _of_host(watched: Sequence[Sample], sides: Steady, steady_s: float) -> Iterator[tuple[str, float]]:
    if not watched:
        return
    watched_s = sum(x.interval_s for x in watched)
    received = sum(x.bytes_received for _, samples in sides for x in samples)
    times: dict[str, float] = {}
    for x in watched:
        for cpu in x.cpu:
            for kind, spent in cpu.items():
                times[kind] = times.get(kind, 0.0) + spent
    times.pop("cpu", None)
    if (total := sum(times.values())) > 0:
        idle = times.get("idle_s", 0.0) + times.get("iowait_s", 0.0)
        yield "host_cpu_percent", 100 * (total - idle) / total
        yield "host_softirq_percent", 100 * times.get("softirq_s", 0.0) / watched_s
    host: Steady = [(SideRecord("host", "observe", {}, ()), watched)]
    transactions = _transactions(sides)
    cycles = _total(host, "cycles")
    # Both per second, as the two windows may differ by a sample.
    if transactions and cycles:
        yield "cycles_per_transaction", (cycles / watched_s) / (transactions / steady_s)
    elif received and cycles:
        yield "cycles_per_byte", (cycles / watched_s) / (received / steady_s)
    if cycles and (datagrams := sum(arrived_in(x) for _, samples in sides for x in samples)):
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


def _total(sides: Steady, counter: str) -> float:
    return sum(x.counters.get(counter, 0.0) for _, samples in sides for x in samples)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
