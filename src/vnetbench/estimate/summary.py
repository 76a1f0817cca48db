"""The summary of a campaign: the only input of `show`, `report` and `compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from vnetbench.estimate.failures import FailedTrials
from vnetbench.estimate.model import Estimate, Experiment
from vnetbench.estimate.team_traffic import TeamTraffic
from vnetbench.published.tables import PublishedTable
from vnetbench.results.records import Histogram, StepRecord
from vnetbench.search.interface import GoalResult
from vnetbench.study.labs import IMPORTED_LAB, NETNS
from vnetbench.study.model import ALL_COMBINATIONS, FactorLevels, Level, Precision, Timing

_NO_ENTRIES: Mapping[str, Any] = MappingProxyType({})


def _no_entries() -> Mapping[str, Any]:
    """Return the empty mapping that all points share, because a file may have very many points."""
    return _NO_ENTRIES


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """The values of one trial, without its warm-up."""

    trial_id: int
    block: int
    since_campaign_start_s: float
    """Seconds since the campaign began."""
    duration_s: float
    warmup_s: float
    has_steady_state: bool
    values: Mapping[str, float]
    """Metric name to value."""
    time_series: tuple[float, ...] = ()
    """The deciding metric in each sampling interval, warm-up included."""
    idle_time_series: tuple[float, ...] = ()
    """The deciding metric in the idle phase before the load, if there is one."""
    notes: tuple[str, ...] = ()
    outstanding_frames_at_interval_ends: tuple[int, ...] = ()
    """For frames: the number sent but not received at the end of each sampling interval."""
    arrivals_around_event: tuple[tuple[float, float], ...] = ()
    """For `disruption`: seconds since the event began, and datagrams per second that arrived then."""
    event_s: float = 0.0
    """For `disruption`: from before the first system call of the event until after its last."""
    steps: tuple[StepRecord, ...] = ()
    """The search steps that preceded the run, if the trial has any."""
    search_result: Mapping[str, Any] = field(default_factory=_no_entries)
    """Result of these steps: `method`, `parameters`, `goal_results`, `direction_count`, …
    (docs/results-file.md)."""
    rounding_ranges: Mapping[str, tuple[float, float]] = field(default_factory=_no_entries)
    """For values that another tool rounded: the smallest and the largest possible exact value."""
    imported_log: Mapping[str, Any] = field(default_factory=_no_entries)
    """For a trial that another tool ran: the contents of its log (docs/results-file.md); otherwise empty."""
    evidence: Mapping[str, float] = field(default_factory=_no_entries)
    """Values of the evidence metrics (`estimate/evidence`); a metric without its counters is absent."""
    location_by_metric: Mapping[str, str] = field(default_factory=_no_entries)
    """Where an evidence metric was measured, in words, for metrics that one queue, hop or kernel decides."""
    near_limit_evidence_series: Mapping[str, tuple[float, ...]] = field(default_factory=_no_entries)
    """Evidence metrics near their limit, in each sampling interval, warm-up included."""
    teams: tuple[TeamTraffic, ...] = ()
    """What each link of the testbed's teams carried."""

    @property
    def goal_results(self) -> tuple[GoalResult, ...]:
        """The throughput for each loss goal, as load of each direction of each pair; may be empty."""
        return tuple(
            GoalResult.from_json(goal_result) for goal_result in self.search_result.get("goal_results", ())
        )


@dataclass(frozen=True)
class TreatmentSummary:
    """One treatment: its levels, its effective settings and its estimates."""

    index: int
    factors: Mapping[str, Level]
    effective: Mapping[str, object]
    """Settings that were read back: knob name to value, or to values by endpoint if they differ."""
    stop_reason: str
    """`precision`, `trial limit`, `time limit`, `interrupted`, `refused` or `failed`; else `running`."""
    metrics: Mapping[str, Estimate]
    points: tuple[TrialPoint, ...]
    failures: tuple[str, ...] = ()
    """Reasons why trials failed or the treatment was refused, as shown to the user."""
    failed_trials: tuple[FailedTrials, ...] = ()
    """Failed attempts of trials, with their kind and number."""
    notes: tuple[str, ...] = ()
    latency_histogram: Histogram = ()
    """Request latencies, or one-way delays of datagrams, of all trials without their warm-ups."""
    idle_latency_histogram: Histogram = ()
    """Request latencies of the idle phases before the load, if there are any."""
    stopped_search_result: Mapping[str, Any] = field(default_factory=dict)
    """Result of a search without a final run, if no trial is finished (`estimate/stopped_search.py`)."""

    @property
    def trial_count(self) -> int:
        """Number of finished trials."""
        return len(self.points)

    def levels_without(self, factor: str) -> frozenset[tuple[str, Level]]:
        """Return the levels of all other factors. Treatments with equal results differ only in `factor`."""
        return frozenset((name, level) for name, level in self.factors.items() if name != factor)

    def values_of_trials_with_metric(self, metric: str) -> list[float]:
        """Return the values of a metric in the trials that have it, in trial order."""
        return [point.values[metric] for point in self.points if metric in point.values]

    def evidence_values(self, name: str) -> list[float]:
        """Return the values of an evidence metric in the trials that have it, in trial order."""
        return [point.evidence[name] for point in self.points if name in point.evidence]


@dataclass(frozen=True)
class CampaignSummary:
    """The estimates of a results file."""

    path: str
    title: str
    question: str
    workload: str
    study_text: str
    overrides: tuple[str, ...]
    seed: int
    status: str
    """`running`, `finished`, `interrupted`."""
    started_at: str
    """ISO 8601, UTC."""
    elapsed_s: float
    required_precision: Precision
    """The precision that the study demands, with its limits of trials and time."""
    timing: Timing
    factors: tuple[FactorLevels, ...]
    treatments: tuple[TreatmentSummary, ...]
    testbed_backend: str = NETNS
    """Backend of the testbed (`TestbedSpec.backend`): it decides the available factors and their defaults."""
    testbed: Mapping[str, object] = field(default_factory=dict)
    """The testbed's description: endpoints, virtual switches, links."""
    facts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Where (`host`, an endpoint's name, `bench`) to fact name to value."""
    warnings: tuple[str, ...] = ()
    level_combination_method: str = ALL_COMBINATIONS
    """How levels are combined into treatments (`Study.combine`)."""
    published_table_named_by_study: str | None = None
    """Name of the published table that the study refers to (`Study.published`)."""
    represented_table: PublishedTable | None = None
    """The published table that this summary represents; None for measured results."""
    deciding_metric: str = "goodput_bps"
    """The metric that the stopping rule uses."""
    experiments: tuple[Experiment, ...] = ()
    """Experiments that test candidate causes (`vnetbench explain --prove`), from a second file."""
    proof_file_note: str = ""
    """Whether the file of experiments is used, and why; empty without such a file."""
    study_path: str | None = None
    """Path of the study file; None for a study made by a program."""
    change_counter: int | None = field(default=None, compare=False)
    """Number of changes of the results file that contains this summary; None if it contains none."""

    @property
    def is_imported(self) -> bool:
        """Whether the trials come from the logs of other tools."""
        return self.testbed_backend == IMPORTED_LAB and self.represented_table is None
