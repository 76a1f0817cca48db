"""The metrics of a trial: their names, units and labels, and how each comes from samples and counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.latency import count_of, latency_metrics, merged, percentile_us
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.warmup import find_warmup, fixed_warmup, shared_warmup
from vnetbench.results.records import Histogram, Sample, SideRecord, TrialRecord
from vnetbench.study.model import Timing


@dataclass(frozen=True)
class Metric:
    """One metric. `unit` is the unit of the stored number, `better` says which way is good (or neither)."""

    name: str
    unit: str
    label: str
    better: str = "neither"
    meaning: str = ""


_SHARES = {"p50": "50", "p90": "90", "p99": "99", "p99_9": "99.9", "p99_99": "99.99", "p99_999": "99.999"}


def _percentiles(of: str, label: str, what: str) -> Iterator[Metric]:
    yield Metric(f"{of}_mean_us", "µs", f"{label}, mean", "lower", f"mean of {what}")
    for name, share in _SHARES.items():
        meaning = f"{share} % of {what} are no longer"
        yield Metric(f"{of}_{name}_us", "µs", f"{label}, {share} %", "lower", meaning)


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "goodput_bps",
            "bit/s",
            "Goodput",
            "higher",
            "TCP payload that arrived at the sinks, all streams and pairs",
        ),
        Metric(
            "transactions_per_s",
            "1/s",
            "Transaction rate",
            "higher",
            "requests that were answered, all connections and pairs",
        ),
        Metric(
            "connections_per_s",
            "1/s",
            "Connection rate",
            "higher",
            "connections made, used for one request and closed, all pairs",
        ),
        *_percentiles("latency", "Latency", "all times from a request (when it was due) to its answer"),
        *_percentiles("connect", "Connecting", "all times that connecting took"),
        Metric(
            "outstanding_at_end",
            "1",
            "Outstanding at the end",
            "lower",
            "requests that were due before the end of an open loop and had no answer by then",
        ),
        Metric(
            "sender_cpu_percent",
            "% of one CPU",
            "Sender CPU",
            "lower",
            "CPU time of the sending endpoints' processes, 100 % = one CPU full",
        ),
        Metric(
            "receiver_cpu_percent",
            "% of one CPU",
            "Receiver CPU",
            "lower",
            "CPU time of the receiving endpoints' processes, 100 % = one CPU full",
        ),
        Metric(
            "host_cpu_percent",
            "% of all CPUs",
            "Host CPU",
            "lower",
            "busy share of all the host's CPUs together",
        ),
        Metric(
            "host_softirq_percent",
            "% of one CPU",
            "Host soft-interrupt CPU",
            "lower",
            "time in soft interrupts, all CPUs added up, 100 % = one CPU full",
        ),
        Metric(
            "cycles_per_byte",
            "cycles/B",
            "Cycles per byte",
            "lower",
            "all of the host's CPU cycles over the bytes that arrived",
        ),
        Metric(
            "cycles_per_transaction",
            "cycles",
            "Cycles per transaction",
            "lower",
            "all of the host's CPU cycles over the requests that were answered",
        ),
        Metric(
            "context_switches_per_transaction",
            "1",
            "Context switches per transaction",
            "lower",
            "of both endpoints' processes",
        ),
        Metric(
            "interrupts_per_transaction",
            "1",
            "Interrupts per transaction",
            "lower",
            "hardware interrupts of the whole host",
        ),
        Metric(
            "packets_per_transaction",
            "1",
            "Packets per transaction",
            "neither",
            "packets that both sides' interfaces took in",
        ),
        Metric("packets_per_s", "1/s", "Packets", "neither", "packets the receiving interfaces took in"),
        Metric("segments_per_s", "1/s", "TCP segments", "neither", "MSS-sized TCP segments that were sent"),
        Metric(
            "mean_segment_bytes",
            "B",
            "Mean segment",
            "neither",
            "bytes of a packet as the sending interface was handed it (before segmentation by hardware)",
        ),
        Metric(
            "interrupts_per_s",
            "1/s",
            "Interrupts",
            "lower",
            "interrupts of the whole host, timers and calls between CPUs included",
        ),
        Metric(
            "net_rx_softirqs_per_s",
            "1/s",
            "NET_RX soft interrupts",
            "neither",
            "NET_RX soft interrupts of the host",
        ),
        Metric(
            "packets_per_interrupt",
            "1",
            "Packets per interrupt",
            "neither",
            "packets received over NET_RX soft interrupts: virtual links have no hardware interrupt",
        ),
        Metric("context_switches_per_s", "1/s", "Context switches", "lower", "of both endpoints' processes"),
        Metric("retransmits_per_s", "1/s", "Retransmits", "lower", "TCP segments sent again"),
        Metric(
            "rtt_us",
            "µs",
            "Round trip",
            "lower",
            "TCP's smoothed round-trip time, mean over the sending streams",
        ),
    )
}


@dataclass(frozen=True)
class Course:
    """How a metric went in one trial, sample by sample, warm-up included."""

    values: tuple[float, ...]
    lengths_s: tuple[float, ...]
    """Seconds that each sample covers."""
    histograms: tuple[Histogram, ...] = ()
    """Of a percentile: what each sample counted; empty for a rate."""
    share: float = 0.0
    """Of a percentile: the share that does not exceed it."""

    def value(self, cut: int) -> float:
        """The metric after the first `cut` samples: the same figure as in `metric_values`."""
        if self.histograms:
            return percentile_us(merged(self.histograms[cut:]), self.share) or 0.0
        after = list(zip(self.values, self.lengths_s, strict=True))[cut:]
        return sum(rate * length for rate, length in after) / sum(length for _, length in after)


def course(trial: TrialRecord, metric: str = "goodput_bps") -> Course:
    """A deciding metric (`study.workloads`) in time; raises ValueError for a trial without samples."""
    sides = list(_intervals(trial).values())
    together = list(zip(*sides, strict=True))
    lengths = tuple(max(sum(x.interval_s for x in side) for side in at_once) for at_once in together)
    if metric == "goodput_bps":
        received = (sum(x.bytes_received for side in at_once for x in side) for at_once in together)
        return Course(tuple(8 * b / s for b, s in zip(received, lengths, strict=True)), lengths)
    kind = "connect" if metric.startswith("connect_") else "latency"
    histograms = tuple(_merged((x for side in at_once for x in side), kind) for at_once in together)
    if metric.endswith("_per_s"):
        counts = (count_of(histogram) for histogram in histograms)
        return Course(tuple(n / s for n, s in zip(counts, lengths, strict=True)), lengths)
    share = {"p50": 0.5, "p99": 0.99}[metric.split("_")[1]]
    # Too few values for the percentile: the longest of them stands for it, and none for the one before.
    values: list[float] = []
    for histogram in histograms:
        longest = histogram[-1][0] / 1e3 if histogram else (values[-1] if values else 0.0)
        values.append(percentile_us(histogram, share) or longest)
    return Course(tuple(values), lengths, histograms, share)


def steady_latencies(trial: TrialRecord, cut: int) -> Histogram:
    """The latencies of all sides after the first `cut` samples; empty where no requests were made."""
    return _merged((x for side in _intervals(trial).values() for part in side[cut:] for x in part), "latency")


def _merged(samples: Iterable[Sample], kind: str) -> Histogram:
    return merged(x.histograms[kind] for x in samples if kind in x.histograms)


def warmups(courses: Sequence[Course], timing: Timing) -> tuple[Warmup, ...]:
    """What of each trial of one treatment is warm-up; at least one sample of each is left."""
    if timing.warmup_s is not None:
        own = [fixed_warmup(c.values, timing.interval_s, timing.warmup_s) for c in courses]
        return tuple(own)
    found = shared_warmup([c.values for c in courses], [find_warmup(c.values) for c in courses])
    return tuple(replace(w, cut=min(w.cut, len(c.values) - 1)) for w, c in zip(found, courses, strict=True))


def metric_values(trial: TrialRecord, cut: int) -> dict[str, float]:
    """All metrics of a trial, from its samples after the first `cut`.

    Counters are added up over these samples only. A metric whose counters are missing is absent. Raises
    ValueError for a trial without samples.
    """
    load = _intervals(trial)
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
        [x for x in host.samples if from_s < x.t_s - x.interval_s / 2 and x.t_s <= _end(trial, x)]
        if host
        else []
    )
    return {
        **dict(_of_endpoints(sides, steady_s)),
        **dict(_of_requests(trial, sides, steady_s)),
        **dict(_of_host(watched, sides, steady_s)),
    }


def _intervals(trial: TrialRecord) -> dict[str, list[list[Sample]]]:
    """Endpoint to its samples, in intervals that are the same for all, without the drain after the load.

    An interval is one sample of each endpoint, but where an agent's sample came so late that it closes
    several at once (docs/protocol.md, trial.sample): then it is as long as that one.
    """
    load = {
        s.endpoint: [x for x in s.samples if x.t_s <= _end(trial, x)]
        for s in trial.sides
        if s.role != "observe"
    }
    ends = sorted(set.intersection(*({x.seq for x in samples} for samples in load.values()))) if load else []
    if not ends:
        raise ValueError(f"trial {trial.id} has no samples")
    return {
        endpoint: [
            [x for x in samples if after < x.seq <= end]
            for after, end in zip([-1, *ends], ends, strict=False)
        ]
        for endpoint, samples in load.items()
    }


def _end(trial: TrialRecord, sample: Sample) -> float:
    return trial.duration_s + sample.interval_s / 2


Steady = Sequence[tuple[SideRecord, Sequence[Sample]]]


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
    if _of_kind(sides, "connect"):
        return  # what follows is known of the streams' own connections only, which carry no requests
    streams = [x for _, samples in given for s in samples for x in s.streams if x.role == "source"]
    yield "segments_per_s", sum(_number(x.tcp_info.get("segments_out")) for x in streams) / steady_s
    yield "retransmits_per_s", sum(x.retransmits or 0 for x in streams) / steady_s
    if trips := [x.rtt_us for x in streams if x.rtt_us]:
        yield "rtt_us", sum(trips) / len(trips)


def _of_kind(sides: Steady, kind: str) -> Histogram:
    return _merged((x for _, samples in sides for x in samples), kind)


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
