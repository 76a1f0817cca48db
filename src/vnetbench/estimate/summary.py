"""A campaign as estimates: what `show`, `report` and `compare` read, and all that they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vnetbench.estimate.model import Estimate, Experiment
from vnetbench.published.tables import PublishedTable
from vnetbench.results.records import Histogram, StepRecord
from vnetbench.search.interface import GoalResult
from vnetbench.study.labs import IMPORTED, NETNS
from vnetbench.study.model import ALL_COMBINATIONS, FactorLevels, Level, Precision, Timing


@dataclass(frozen=True)
class TrialPoint:
    """One trial's values, steady part only."""

    trial: int
    block: int
    started_s: float
    """Seconds since the campaign began."""
    duration_s: float
    warmup_s: float
    has_steady_state: bool
    values: Mapping[str, float]
    """Metric name to value."""
    time_series: tuple[float, ...] = ()
    """The deciding metric in each sampling interval, warm-up included: it shows the part that was cut off."""
    idle_time_series: tuple[float, ...] = ()
    """The same in the idle phase before the load, where there is one."""
    notes: tuple[str, ...] = ()
    outstanding_frames: tuple[int, ...] = ()
    """Of frames: how many had been sent and had not come, at the end of each sampling interval."""
    steps: tuple[StepRecord, ...] = ()
    """Those that came before the run of a trial that is a series."""
    search: Mapping[str, Any] = field(default_factory=dict)
    """What these found: `method`, `asked`, `answers`, `ways` (docs/results-file.md)."""
    rounding_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of values that another tool rounded: the least and the most that they may have been."""
    imported: Mapping[str, Any] = field(default_factory=dict)
    """Of a trial that another tool ran: what its log tells (docs/results-file.md); empty for our own."""

    evidence: Mapping[str, float] = field(default_factory=dict)
    """What of its counters tells causes apart (`estimate/evidence`); absent where unknown."""
    evidence_time_series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Those of it that are near their most, in each sampling interval, warm-up included."""

    @property
    def search_answers(self) -> tuple[GoalResult, ...]:
        """The throughput for each goal, as loads of each direction of each pair; none without a search."""
        return tuple(GoalResult(**answer) for answer in self.search.get("answers", ()))


@dataclass(frozen=True)
class TreatmentSummary:
    """One treatment: what was asked, what was found, what was measured."""

    index: int
    factors: Mapping[str, Level]
    effective: Mapping[str, object]
    """What was read back: knob name to the value found, or to a mapping by endpoint where they differ."""
    stopped_by: str
    """`precision`, `most trials`, `time limit`, `interrupted`, `running`, `refused` or `failed`."""
    metrics: Mapping[str, Estimate]
    points: tuple[TrialPoint, ...]
    failures: tuple[str, ...] = ()
    """Why trials of it failed or why it was refused, in the words shown to the user."""
    notes: tuple[str, ...] = ()
    latency_histogram: Histogram = ()
    """Of all its trials together, steady part only: of requests, or one-way delays of datagrams."""
    idle_latency_histogram: Histogram = ()
    """The same of the idle phases before the load, where there are such."""

    @property
    def trials(self) -> int:
        """Number of finished trials."""
        return len(self.points)

    def levels_without(self, factor: str) -> frozenset[tuple[str, Level]]:
        """The levels of all other factors: treatments that share them differ in this factor alone."""
        return frozenset((name, level) for name, level in self.factors.items() if name != factor)

    def trial_values(self, metric: str) -> list[float]:
        """Of a metric, of the trials that have it, in their order."""
        return [point.values[metric] for point in self.points if metric in point.values]

    def evidence_values(self, name: str) -> list[float]:
        """The same of a figure of evidence."""
        return [point.evidence[name] for point in self.points if name in point.evidence]


@dataclass(frozen=True)
class CampaignSummary:
    """A whole results file, estimated."""

    path: str
    title: str
    question: str
    workload: str
    study_text: str
    overrides: tuple[str, ...]
    seed: int
    status: str
    """`running`, `finished`, `interrupted`."""
    started: str
    """ISO 8601, UTC."""
    elapsed_s: float
    precision: Precision
    timing: Timing
    factors: tuple[FactorLevels, ...]
    treatments: tuple[TreatmentSummary, ...]
    kind: str = NETNS
    """Of testbed (`TestbedAsked.kind`): which factors it has, and their defaults."""
    testbed: Mapping[str, object] = field(default_factory=dict)
    """The testbed's description: endpoints, virtual switches, links."""
    facts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Where (`host`, an endpoint's name, `bench`) to fact name to value."""
    warnings: tuple[str, ...] = ()
    combine: str = ALL_COMBINATIONS
    """How levels make treatments (`Study.combine`)."""
    published: str | None = None
    """The published figures that the study names (`Study.published`)."""
    reference: PublishedTable | None = None
    """The published table that all of it is; None of what was measured."""
    main_metric: str = "goodput_bps"
    """The metric that decides how often treatments are repeated."""
    experiments: tuple[Experiment, ...] = ()
    """What was run to prove what limits it, in the file that lies beside (`vnetbench explain --prove`)."""
    proof_note: str = ""
    """Whether that file is used, and why; empty where there is none."""
    study_path: str | None = None
    """Where the study was read from; None of one that was made by a program."""

    @property
    def is_imported(self) -> bool:
        """Whether its trials were read from other tools' logs, and nothing is known but what they tell."""
        return self.kind == IMPORTED and self.reference is None
