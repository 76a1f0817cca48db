"""Progress of a campaign: trials of each treatment, the running trial and the remaining time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vnetbench.campaign import schedule
from vnetbench.campaign.agent_parameters import needs_throughput_search
from vnetbench.campaign.running_median import RunningMedian
from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.model import Estimate, Warmup
from vnetbench.estimate.time_series import TimeSeries, find_warmups
from vnetbench.estimate.trial_length import PastTrial
from vnetbench.estimate.warmup import find_warmup
from vnetbench.results.records import StepRecord
from vnetbench.search.interface import SearchEstimate
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Plan, SearchSpec, Study, Treatment
from vnetbench.study.workloads import SEARCH_METRIC_NAMES, choose_deciding_metric

OPEN_STATE = "open"
MAX_TRIALS_UPDATING_ESTIMATE_AT_ONCE = 100
"""Up to this number of trials, each trial updates the estimate of its treatment at once."""
NEW_TRIALS_SHARE_PER_UPDATE = 0.02
"""Above that number, this share of new trials updates it: an update reads all trials of the treatment."""
OVERDUE_REMAINDER_SHARE_OF_ELAPSED = 0.25
"""Share of its elapsed time that a step series is expected to take longer, once it is overdue."""


@dataclass
class TreatmentProgress:
    """Progress of one treatment."""

    treatment: Treatment
    time_series_by_block: dict[int, TimeSeries] = field(default_factory=dict)
    """Time series of the deciding metric in each finished trial, by block."""
    own_warmups: dict[int, Warmup] = field(default_factory=dict)
    """Warm-up of each finished trial by its own samples only, by block."""
    deciding_values: list[float] = field(default_factory=list)
    """Deciding metric of each finished trial without its warm-up, in the order of blocks.

    With many trials, the latest trials may be absent until `CampaignProgress.update_estimate`."""
    next_load_duration_s: float = 0.0
    """Duration of the load in its next trial."""
    steps_time_median_s: RunningMedian = field(default_factory=RunningMedian)
    """Running median of the total duration of the steps of a trial."""
    state: str = OPEN_STATE
    """`open`, or the reason why no further trial is measured."""
    reason: str = ""
    estimate: Estimate | None = None
    """Estimate of the deciding metric."""
    last_campaign_trial_number: int = 0
    """Number of its latest trial in the campaign, from 1; 0 if it has none."""

    @property
    def trial_count(self) -> int:
        """Number of finished trials."""
        return len(self.time_series_by_block)

    @property
    def needs_update(self) -> bool:
        """Whether the estimate lacks so many trials that they may change it noticeably."""
        missing = self.trial_count - len(self.deciding_values)
        return missing > 0 and (
            self.trial_count <= MAX_TRIALS_UPDATING_ESTIMATE_AT_ONCE
            or missing >= NEW_TRIALS_SHARE_PER_UPDATE * self.trial_count
        )


class RemainingTrials(NamedTuple):
    """The trials that a campaign still needs."""

    trial_count: int
    duration_s: float


@dataclass
class CampaignProgress:
    """Progress of a running campaign. The campaign updates it, and displays read it.

    Statistics are computed when a trial has finished, never while one runs, so that they do not load the
    machine during a measurement.
    """

    study: Study
    plan: Plan
    treatments: list[TreatmentProgress] = field(default_factory=list)
    earlier_sessions_s: float = 0.0
    """Running time of earlier sessions."""
    running_treatment: int | None = None
    """Index of the treatment whose trial is running."""
    running_trial_start_monotonic_s: float = 0.0
    """Start of that trial (monotonic clock)."""
    running_trial_steps: tuple[StepRecord, ...] = ()
    """Finished steps of that trial, if it has a step series."""
    running_search_estimate: SearchEstimate | None = None
    """What the running search knows, if its method reports that."""
    running_search_estimate_monotonic_s: float = 0.0
    """Time of that estimate (monotonic clock)."""
    is_removing_testbeds: bool = False
    """Whether measuring has ended and the testbeds are being removed."""
    session_start_monotonic_s: float = field(default_factory=time.monotonic)
    _setup_time_median_s: RunningMedian = field(default_factory=RunningMedian)
    _steps_time_median_s: RunningMedian = field(default_factory=RunningMedian)

    def __post_init__(self) -> None:
        self.treatments = [TreatmentProgress(t) for t in self.plan.treatments]
        for treatment in self.treatments:
            treatment.next_load_duration_s = self._next_load_duration_s([])

    @property
    def elapsed_s(self) -> float:
        """Running time of all sessions together."""
        return self.earlier_sessions_s + time.monotonic() - self.session_start_monotonic_s

    @property
    def trial_count(self) -> int:
        """Number of finished trials."""
        return sum(t.trial_count for t in self.treatments)

    def open_treatments(self) -> list[int]:
        """Return the indexes of the treatments that need further trials."""
        return [t.treatment.index for t in self.treatments if t.state == OPEN_STATE]

    def add_finished_trial(
        self, index: int, block: int, time_series: TimeSeries, setup_s: float, steps_time_s: float = 0.0
    ) -> None:
        """Add a finished trial and update the estimate, with many trials only now and then."""
        self.add_stored_trial(index, block, time_series, setup_s, steps_time_s)
        if self.treatments[index].needs_update:
            self.update_estimate(index)

    def add_stored_trial(
        self, index: int, block: int, time_series: TimeSeries, setup_s: float, steps_time_s: float = 0.0
    ) -> None:
        """Add a finished trial; `update_estimate` follows."""
        treatment = self.treatments[index]
        treatment.time_series_by_block[block] = time_series
        if self.study.timing.warmup_s is None:
            treatment.own_warmups[block] = find_warmup(time_series.values)
        self._setup_time_median_s.add(setup_s)
        self._steps_time_median_s.add(steps_time_s)
        treatment.steps_time_median_s.add(steps_time_s)
        treatment.last_campaign_trial_number = self.trial_count

    def update_estimate(self, index: int) -> None:
        """Update the estimate of a treatment and the duration of its next trial, if it has new trials."""
        treatment = self.treatments[index]
        if len(treatment.deciding_values) == treatment.trial_count:
            return
        blocks = sorted(treatment.time_series_by_block)
        by_block = [treatment.time_series_by_block[block] for block in blocks]
        own_warmups = [treatment.own_warmups[block] for block in blocks if block in treatment.own_warmups]
        warmups = find_warmups(by_block, self.study.timing, own_warmups)
        treatment.deciding_values = [
            trial.steady_value(warmup.samples) for trial, warmup in zip(by_block, warmups, strict=True)
        ]
        precision = self.study.precision
        treatment.estimate = estimate_median(
            treatment.deciding_values,
            precision.confidence,
            interim_analysis_trial_counts(precision),
            with_outliers=False,
        )
        interval_s = self.study.timing.interval_s
        past = [
            PastTrial(trial.values, interval_s, warmup)
            for trial, warmup in zip(by_block, warmups, strict=True)
        ]
        treatment.next_load_duration_s = self._next_load_duration_s(past)

    def deciding_values(self, index: int) -> Sequence[float]:
        """Return the deciding metric of all finished trials of a treatment, in the order of blocks."""
        self.update_estimate(index)
        return self.treatments[index].deciding_values

    def values_by_block(self, index: int) -> dict[int, float]:
        """Return the deciding metric of all finished trials of a treatment, by block."""
        return dict(
            zip(sorted(self.treatments[index].time_series_by_block), self.deciding_values(index), strict=True)
        )

    def set_search_estimate(self, estimate: SearchEstimate) -> None:
        """Set what the running search knows after a step."""
        self.running_search_estimate = estimate
        self.running_search_estimate_monotonic_s = time.monotonic()

    def estimate_remaining(self) -> RemainingTrials:
        """Return the expected number of remaining trials and their duration."""
        trials, seconds = 0, 0.0
        for index in self.open_treatments():
            treatment = self.treatments[index]
            remaining = schedule.estimate_remaining_trials(
                treatment.deciding_values, treatment.estimate, self.study.precision
            )
            remaining = max(0, remaining - (treatment.trial_count - len(treatment.deciding_values)))
            trials += remaining
            seconds += remaining * self.expected_trial_s(index)
        limit = self.study.precision.campaign_time_limit_s
        if limit is not None and seconds > (available_s := max(0.0, limit - self.elapsed_s)):
            trials, seconds = round(trials * available_s / seconds), available_s
        if self.running_treatment is not None:
            seconds += self.expected_rest_of_running_trial_s() - self.expected_trial_s(self.running_treatment)
        return RemainingTrials(trials, max(0.0, seconds))

    def expected_rest_of_running_trial_s(self) -> float:
        """Return the expected remaining duration of the running trial in seconds; 0 without one.

        A step series that is overdue is expected to take a share of its elapsed time longer. A search is
        followed by its final run.
        """
        if self.running_treatment is None:
            return 0.0
        if self.running_search_estimate is not None:
            since_estimate_s = time.monotonic() - self.running_search_estimate_monotonic_s
            final_run_s = self.treatments[self.running_treatment].next_load_duration_s
            return (
                max(0.0, self.running_search_estimate.expected_remaining_s - since_estimate_s) + final_run_s
            )
        spent_s = time.monotonic() - self.running_trial_start_monotonic_s
        left_s = self.expected_trial_s(self.running_treatment) - spent_s
        return (
            max(left_s, OVERDUE_REMAINDER_SHARE_OF_ELAPSED * spent_s)
            if self.running_trial_steps
            else max(0.0, left_s)
        )

    def expected_trial_s(self, index: int) -> float:
        """Return the expected duration of a treatment's next trial in seconds, with set-up and steps."""
        return (
            self.treatments[index].next_load_duration_s
            + self.expected_setup_s()
            + self.expected_steps_s(index)
        )

    def expected_steps_s(self, index: int) -> float:
        """Return the expected duration of the steps before its load in seconds."""
        search = self.search_spec(index)
        if search is None:
            return 0.0
        default_s = self._steps_time_median_s.value_or(schedule.expected_steps_s(search))
        return self.treatments[index].steps_time_median_s.value_or(default_s)

    def expected_setup_s(self) -> float:
        """Return the median duration of a trial without its load so far, in seconds."""
        return self._setup_time_median_s.value_or(schedule.ASSUMED_SETUP_S)

    def search_spec(self, index: int) -> SearchSpec | None:
        """Return the search of a treatment's trials with its time limit; None if they have no step series."""
        levels = complete_levels(self.treatments[index].treatment.factors, self.study.workload)
        if self.study.search is None or not needs_throughput_search(self.study, levels):
            return None
        return schedule.limit_search_time(self.study.search, self.study.precision, len(self.treatments))

    def _next_load_duration_s(self, past: list[PastTrial]) -> float:
        if self.study.timing.duration_s is not None:
            return self.study.timing.duration_s
        if self.study.search is not None and choose_deciding_metric(self.study) in SEARCH_METRIC_NAMES:
            return self.study.search.step_s
        return schedule.choose_load_duration_s(
            past, self.expected_setup_s(), self.study.precision, len(self.treatments)
        )
