"""Records that are written to and read from the results file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = Mapping[str, object]
Histogram = tuple[tuple[int, int], ...]
"""Latency histogram: the middle of each bucket in nanoseconds, ascending, with its count."""
HISTOGRAM_KINDS = ("latency", "connect_time", "delay")
"""Kinds of histograms: `latency` of requests, `connect_time` if each request opens a connection, and
`delay` of received datagrams if both endpoints share a clock."""


@dataclass(frozen=True)
class StreamSample:
    """Counters of one stream in one interval."""

    stream_id: int
    role: str
    bytes: int
    rtt_us: float | None
    cwnd: int | None
    """Congestion window: in segments from an agent, in bytes from an imported log."""
    retransmits: int | None
    details: JsonObject = field(default_factory=dict)
    """Further counters: TCP_INFO of a connection, or the counts of a flow of datagrams."""
    load_part: str = ""
    """`requests` or `transfers` in the workload `mixed`, else empty."""

    @property
    def bytes_acked(self) -> int:
        """Bytes that the receiver's kernel acknowledged in this interval; 0 for a sink."""
        return int(str(self.details.get("bytes_acked", 0)))


OBSERVE, HOST = "observe", "host"
"""Role of an agent that only observes, and the endpoint name of the observer on the bench's machine."""

IMPORTED_LOG_KEY = "imported"
"""Key in `effective` of an imported trial: the contents of its log (docs/results-file.md)."""
LOW_SUFFIX, HIGH_SUFFIX = ".low", ".high"
"""Suffixes of the smallest and largest possible value of a counter that a log rounded."""
OMITTED_SAMPLE_COUNTER = "omitted"
"""Counter that marks samples which the tool omitted from its result."""

RUNNING, FINISHED, INTERRUPTED = "running", "finished", "interrupted"
"""Status of a campaign: a bench is running it, all treatments are closed, or `resume` can continue it."""
CampaignStatus = str
"""One of RUNNING, FINISHED and INTERRUPTED."""

GENERATOR_STEP, SEARCH_STEP, LOSS_CURVE_STEP, BURST_STEP = "generator", "search", "curve", "burst"
"""Purposes of steps: the generator's maximum rate, throughput search, loss curve, longest bursts."""


@dataclass(frozen=True)
class Observation:
    """Threads, interfaces and guests that an observer watched in one interval."""

    thread_cpu_s: Mapping[str, float]
    """CPU seconds by name: `a1 vcpu0`, `a1 emulator`, `a1 vhost0`."""
    interface_counters: Mapping[str, Mapping[str, Any]]
    """By name: `rx_packets`, `tx_packets`, `rx_bytes`, `tx_bytes`, `rx_dropped`, `tx_dropped`.

    An interface with a queueing discipline also has `qdisc`, a mapping with `kind`, `drops`, `overlimits`,
    `requeues` and, at the end of the trial, `backlog_bytes` and `backlog_packets`. Samples that have it
    also have `carrier_changes`."""
    kvm_exits: Mapping[str, int] | None
    """VM exits of all guests by the kernel's names; None if the kernel does not report them."""
    thread_wait_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds in which a thread was runnable without a CPU, for threads whose kernel reports it."""


@dataclass(frozen=True)
class Sample:
    """One interval of one endpoint. `counters` are differences over the interval.

    Each element of `cpu` has one CPU's time by kind and its received packets (docs/protocol.md).
    """

    seq: int
    end_s: float
    interval_s: float
    bytes_sent: int
    bytes_received: int
    counters: Mapping[str, float]
    cpu: tuple[Mapping[str, float], ...] = ()
    streams: tuple[StreamSample, ...] = ()
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    """Histograms by kind (see HISTOGRAM_KINDS)."""
    observation: Observation | None = None
    """Set for observers that watch threads or interfaces."""


@dataclass(frozen=True)
class EndpointRecord:
    """One endpoint's data of a trial; `role` is source, sink, both or observe.

    Observers are the bench's machine (`host`) and guests that forward between endpoints.
    """

    name: str
    role: str
    totals: JsonObject
    samples: tuple[Sample, ...]

    @property
    def is_sampled(self) -> bool:
        """Whether an agent sampled this endpoint. An iperf3 server reports totals only."""
        return self.totals.get("protocol") != "iperf3"

    @property
    def bytes_sent(self) -> int:
        """Payload bytes written to the kernel in the whole trial."""
        return int(str(self.totals.get("bytes_sent", 0)))

    @property
    def bytes_received(self) -> int:
        """Payload bytes read from the kernel in the whole trial, including the drain."""
        return int(str(self.totals.get("bytes_received", 0)))


@dataclass(frozen=True)
class StepRecord:
    """One step of a trial: a constant load of frames or a burst, with its counts.

    Loads and bursts are per direction of each pair. Counts are sums over all of them.
    """

    number: int
    """Number of the step in its trial, from 0."""
    purpose: str
    """`generator`, `search`, `curve` or `burst`."""
    load_fps: float | None
    """None for the generator's maximum rate."""
    burst_frames: int | None
    """Number of frames of a burst; None for a load of `duration_s`."""
    duration_s: float
    since_campaign_start_s: float
    """Running time of the campaign at the start of the step."""
    elapsed_s: float
    """Duration of the step including its set-up."""
    sent: int
    received: int
    """Distinct frames received."""
    details: JsonObject = field(default_factory=dict)
    """Counts by direction, duplicates, frames out of order, foreign frames, delays and path counters."""

    @property
    def loss_ratio(self) -> float:
        """Share of the sent frames that did not arrive; 0 if none were sent."""
        return max(0, self.sent - self.received) / self.sent if self.sent else 0.0


@dataclass(frozen=True)
class TrialRecord:
    """One execution of a treatment, finished or failed."""

    treatment: int
    block: int
    testbed_shape: str | None
    since_campaign_start_s: float
    duration_s: float
    setup_s: float
    effective: JsonObject
    endpoints: tuple[EndpointRecord, ...]
    failure: str = ""
    notes: tuple[str, ...] = ()
    id: int = 0
    idle_s: float = 0.0
    """Duration of the phase with requests only before the load (workload `mixed`); else 0."""
    steps: tuple[StepRecord, ...] = ()
    """Steps before the load, if the trial has a step series."""

    @property
    def state(self) -> str:
        """`done` or `failed`."""
        return "failed" if self.failure else "done"


@dataclass(frozen=True)
class TreatmentRecord:
    """A treatment and its state: open, precision, trial limit, time limit, refused or failed."""

    index: int
    factors: Mapping[str, str | int | float]
    state: str
    reason: str


@dataclass(frozen=True)
class CampaignRecord:
    """The campaign's description and status."""

    title: str
    study_text: str
    study_path: str | None
    overrides: tuple[str, ...]
    seed: int
    started_at: str
    status: str
    elapsed_s: float
    vnetbench_version: str


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """Return a stored JSON object; an empty one if the value is missing or of another type."""
    return value if isinstance(value, Mapping) else {}
