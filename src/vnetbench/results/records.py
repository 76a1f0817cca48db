"""What one trial leaves: the values that go into the results file and come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, object]
Histogram = tuple[tuple[int, int], ...]
"""Latencies counted by size: the middle of each bucket in nanoseconds, ascending, and its count."""
HISTOGRAMS = ("latency", "connect", "delay")
"""Their kinds: `latency` where requests are made, `connect` where each has a connection of its own, `delay`
where datagrams come in and both ends have one clock."""


@dataclass(frozen=True)
class StreamSample:
    """One stream in one interval."""

    stream: int
    role: str
    bytes: int
    rtt_us: float | None
    cwnd: int | None
    retransmits: int | None
    info: Json = field(default_factory=dict)
    """The rest of what the agent says of it: TCP_INFO of a connection, the counts of a flow of datagrams."""
    part: str = ""
    """`requests` or `transfers`; empty where all streams of the load do the same."""

    @property
    def bytes_acked(self) -> int:
        """Bytes of this interval that the other side's kernel has acknowledged; 0 for a sink."""
        return int(str(self.info.get("bytes_acked", 0)))


OBSERVE, HOST = "observe", "host"
"""The role of a side that has no end of the load, and the name of the one that is the bench's own machine."""

TOLD = "imported"
"""In `effective` of a trial that another tool ran: what its log tells (docs/results-file.md)."""
LOW, HIGH = ".low", ".high"
"""What follows the name of a counter that a log rounded: the least and the most that it may have been."""
OMITTED = "omitted"
"""A counter of samples that the tool itself left out of its result."""

RUNNING, FINISHED, INTERRUPTED = "running", "finished", "interrupted"
"""How a campaign stands: a bench is at work on it, nothing is open any more, or `resume` would go on."""

GENERATOR, SEARCH, CURVE, BURST = "generator", "search", "curve", "burst"
"""Purposes of steps: to find what the generator can, the throughput, a course of loss, longest bursts."""


@dataclass(frozen=True)
class Watched:
    """What an observer saw in one interval beside its machine as a whole."""

    threads: Mapping[str, float]
    """CPU seconds by name: `a1 vcpu0`, `a1 emulator`, `a1 vhost0`."""
    interfaces: Mapping[str, Mapping[str, Any]]
    """By name: `rx_packets`, `tx_packets`, `rx_bytes`, `tx_bytes`, `rx_dropped`, `tx_dropped`.

    Where something can wait to leave also `qdisc`, a mapping with `kind`, `drops`, `overlimits`, `requeues`
    and, at the end, `backlog_bytes` and `backlog_packets`."""
    kvm_exits: Mapping[str, int] | None
    """Of all guests, by the kernel's names; None where it shows none."""
    waited: Mapping[str, float] = field(default_factory=dict)
    """Seconds for which those of `threads` were ready to run and had no CPU; of those whose kernel tells."""


@dataclass(frozen=True)
class Sample:
    """One interval of one side of a trial. `counters` are differences over the interval.

    An element of `cpu` has a CPU's seconds by kind, and the packets that it took in (docs/protocol.md).
    """

    seq: int
    t_s: float
    interval_s: float
    bytes_sent: int
    bytes_received: int
    counters: Mapping[str, float]
    cpu: tuple[Mapping[str, float], ...] = ()
    streams: tuple[StreamSample, ...] = ()
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    """By kind: see HISTOGRAMS."""
    watched: Watched | None = None
    """Of an observer that was told to watch something."""


@dataclass(frozen=True)
class SideRecord:
    """One endpoint's share of a trial; `role` is source, sink, both or observe.

    Observers are the bench's own machine, as `host`, and guests that forward from one endpoint to another.
    """

    endpoint: str
    role: str
    totals: Json
    samples: tuple[Sample, ...]

    @property
    def is_sampled(self) -> bool:
        """Whether an agent kept samples and counters of it; an iperf3 server only tells its totals."""
        return self.totals.get("speaks") != "iperf3"

    @property
    def bytes_sent(self) -> int:
        """Payload bytes handed to the kernel in the whole trial."""
        return int(str(self.totals.get("bytes_sent", 0)))

    @property
    def bytes_received(self) -> int:
        """Payload bytes taken from the kernel in the whole trial, the drain included."""
        return int(str(self.totals.get("bytes_received", 0)))


@dataclass(frozen=True)
class StepRecord:
    """One step of a trial of several: a load of frames held for a time, or a burst, and what came of it.

    Loads and bursts are of each direction of each pair, counts are over all of them.
    """

    number: int
    """From 0."""
    purpose: str
    """`generator`, `search`, `curve` or `burst`."""
    load_fps: float | None
    """None: as fast as the generator goes."""
    burst_frames: int | None
    """The most that is sent; None: as long as it lasts."""
    duration_s: float
    started_s: float
    """Time at work of the campaign when it began."""
    took_s: float
    """With all that a step costs beside its load."""
    sent: int
    received: int
    """Distinct frames of those."""
    details: Json = field(default_factory=dict)
    """`directions`: `sent` and `received` of each; `duplicates`, `out_of_order`, `foreign`, `delay`."""

    @property
    def loss_ratio(self) -> float:
        """Share of the frames sent that did not arrive; 0 where none were sent."""
        return max(0, self.sent - self.received) / self.sent if self.sent else 0.0


@dataclass(frozen=True)
class TrialRecord:
    """One execution of a treatment, finished or failed."""

    treatment: int
    block: int
    shape: str | None
    started_s: float
    duration_s: float
    setup_s: float
    effective: Json
    sides: tuple[SideRecord, ...]
    failure: str = ""
    notes: tuple[str, ...] = ()
    id: int = 0
    idle_s: float = 0.0
    """How long there were only requests before the load of `duration_s` began; 0 for other workloads."""
    steps: tuple[StepRecord, ...] = ()
    """Those that came before the load of `duration_s`, where the trial is a series of them."""

    @property
    def state(self) -> str:
        """`done` or `failed`."""
        return "failed" if self.failure else "done"


@dataclass(frozen=True)
class TreatmentRecord:
    """A treatment as it stands. `state`: open, precision, most trials, time limit, refused, failed."""

    index: int
    factors: Mapping[str, str | int | float]
    state: str
    reason: str


@dataclass(frozen=True)
class CampaignRecord:
    """The head of a results file."""

    title: str
    study_text: str
    study_path: str | None
    overrides: tuple[str, ...]
    seed: int
    started_at: str
    status: str
    elapsed_s: float
    vnetbench: str
