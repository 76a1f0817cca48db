"""The metrics of a trial: their names, units and labels, and how each comes from samples and counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.model import Warmup
from vnetbench.estimate.warmup import find_warmup, fixed_warmup, shared_warmup
from vnetbench.results.records import Sample, SideRecord, TrialRecord
from vnetbench.study.model import Timing


@dataclass(frozen=True)
class Metric:
    """One metric. `unit` is the unit of the stored number, `better` says which way is good (or neither)."""

    name: str
    unit: str
    label: str
    better: str = "neither"
    meaning: str = ""


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
    """How goodput went in one trial, sample by sample, warm-up included."""

    goodput_bps: tuple[float, ...]
    lengths_s: tuple[float, ...]
    """Seconds that each sample covers."""

    def mean(self, cut: int) -> float:
        """Goodput after the first `cut` samples, bit/s: the same figure as the metric `goodput_bps`."""
        after = list(zip(self.goodput_bps, self.lengths_s, strict=True))[cut:]
        return sum(rate * length for rate, length in after) / sum(length for _, length in after)


def course(trial: TrialRecord) -> Course:
    """The goodput of a trial at its sinks, in time; raises ValueError for a trial without samples."""
    sides = list(_intervals(trial).values())
    together = list(zip(*sides, strict=True))
    lengths = tuple(max(sum(x.interval_s for x in side) for side in at_once) for at_once in together)
    received = (sum(x.bytes_received for side in at_once for x in side) for at_once in together)
    return Course(tuple(8 * b / s for b, s in zip(received, lengths, strict=True)), lengths)


def warmups(courses: Sequence[Course], timing: Timing) -> tuple[Warmup, ...]:
    """What of each trial of one treatment is warm-up; at least one sample of each is left."""
    if timing.warmup_s is not None:
        own = [fixed_warmup(c.goodput_bps, timing.interval_s, timing.warmup_s) for c in courses]
        return tuple(own)
    found = shared_warmup([c.goodput_bps for c in courses], [find_warmup(c.goodput_bps) for c in courses])
    return tuple(
        replace(w, cut=min(w.cut, len(c.goodput_bps) - 1)) for w, c in zip(found, courses, strict=True)
    )


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
    return dict(_of_endpoints(sides, steady_s)) | dict(_of_host(watched, sides, steady_s))


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
    streams = [x for _, samples in given for s in samples for x in s.streams if x.role == "source"]
    yield "segments_per_s", sum(_number(x.tcp_info.get("segments_out")) for x in streams) / steady_s
    yield "retransmits_per_s", sum(x.retransmits or 0 for x in streams) / steady_s
    if trips := [x.rtt_us for x in streams if x.rtt_us]:
        yield "rtt_us", sum(trips) / len(trips)
    switches = _total(sides, "voluntary_switches") + _total(sides, "involuntary_switches")
    yield "context_switches_per_s", switches / steady_s


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
    if received and (cycles := _total(host, "cycles")):
        # Both per second, as the two windows may differ by a sample.
        yield "cycles_per_byte", (cycles / watched_s) / (received / steady_s)
    yield "interrupts_per_s", _total(host, "interrupts") / watched_s
    softirqs = _total(host, "softirq_net_rx") / watched_s
    yield "net_rx_softirqs_per_s", softirqs
    packets = sum(_total([side], "rx_packets") for side in sides) / steady_s
    if softirqs:
        yield "packets_per_interrupt", packets / softirqs


def _total(sides: Steady, counter: str) -> float:
    return sum(x.counters.get(counter, 0.0) for _, samples in sides for x in samples)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
