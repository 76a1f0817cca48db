"""How a campaign stands: what each treatment has had, which one is at work, how much is still to come."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from vnetbench.campaign import schedule
from vnetbench.campaign.agent_parameters import is_series
from vnetbench.estimate.time_series import Course, warmups
from vnetbench.estimate.interim_analyses import looks
from vnetbench.estimate.trial_length import PastTrial
from vnetbench.estimate.median import estimate
from vnetbench.estimate.model import Estimate
from vnetbench.results.records import StepRecord
from vnetbench.study.factors.registry import complete
from vnetbench.study.model import Plan, SearchAsked, Study, Treatment
from vnetbench.study.workloads import OF_SERIES, main_metric

OPEN = "open"
LIKELY_MORE = 0.25
"""Of the time that it has taken: what a series of steps takes on that is longer than expected."""


@dataclass
class TreatmentProgress:
    """One treatment while its campaign runs."""

    treatment: Treatment
    courses: dict[int, Course] = field(default_factory=dict)
    """Block to the course of its finished trial."""
    values: list[float] = field(default_factory=list)
    """The metric that decides, of each finished trial without its warm-up, in the order of blocks."""
    next_s: float = 0.0
    """Seconds of load of its next trial."""
    setups_s: list[float] = field(default_factory=list)
    series_s: list[float] = field(default_factory=list)
    """What the steps of each trial took."""
    state: str = OPEN
    """`open`, or why it is repeated no more."""
    reason: str = ""
    estimate: Estimate | None = None
    """Of the metric that decides."""
    last_trial: int = 0
    """Number of its latest trial in the campaign; 0: none yet."""

    @property
    def trials(self) -> int:
        """Number of finished trials."""
        return len(self.courses)


@dataclass
class Progress:
    """A campaign at work. The campaign writes it, displays read it.

    All that takes time to work out is worked out when a trial has finished, never while one runs: what a
    display costs would be load of our own making.
    """

    study: Study
    plan: Plan
    treatments: list[TreatmentProgress] = field(default_factory=list)
    earlier_s: float = 0.0
    """Time at work in earlier sessions."""
    running: int | None = None
    """Index of the treatment whose trial runs now."""
    running_since: float = 0.0
    """When (monotonic) that trial began."""
    steps: tuple[StepRecord, ...] = ()
    """Those of that trial that are over, where it is a series."""
    is_leaving: bool = False
    """Nothing is measured any more, and the testbeds are being removed."""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.treatments = [TreatmentProgress(t) for t in self.plan.treatments]
        for treatment in self.treatments:
            treatment.next_s = self._next_s([])

    @property
    def elapsed_s(self) -> float:
        """Time at work, all sessions together."""
        return self.earlier_s + time.monotonic() - self.began

    @property
    def trials(self) -> int:
        """Number of finished trials."""
        return sum(t.trials for t in self.treatments)

    def still_open(self) -> list[int]:
        """Indexes of the treatments that are still repeated."""
        return [t.treatment.index for t in self.treatments if t.state == OPEN]

    def finished(self, index: int, block: int, course: Course, setup_s: float, series_s: float = 0.0) -> None:
        """Take in a finished trial."""
        treatment = self.treatments[index]
        treatment.courses[block] = course
        treatment.setups_s.append(setup_s)
        treatment.series_s.append(series_s)
        treatment.last_trial = self.trials
        courses = [treatment.courses[block] for block in sorted(treatment.courses)]
        cuts = warmups(courses, self.study.timing)
        treatment.values = [c.value(w.cut) for c, w in zip(courses, cuts, strict=True)]
        precision = self.study.precision
        treatment.estimate = estimate(treatment.values, precision.confidence, looks(precision))
        interval_s = self.study.timing.interval_s
        past = [PastTrial(c.values, interval_s, w) for c, w in zip(courses, cuts, strict=True)]
        treatment.next_s = self._next_s(past)

    def left(self) -> tuple[int, float]:
        """Trials still to come, and the seconds that they will take: predictions, within the time limit."""
        trials, seconds = 0, 0.0
        for index in self.still_open():
            treatment = self.treatments[index]
            more = schedule.trials_left(treatment.values, treatment.estimate, self.study.precision)
            trials += more
            seconds += more * self.trial_s(index)
        limit = self.study.precision.time_limit_s
        if limit is not None and seconds > (room := max(0.0, limit - self.elapsed_s)):
            trials, seconds = round(trials * room / seconds), room
        if self.running is not None:
            seconds += self.running_s() - self.trial_s(self.running)
        return trials, max(0.0, seconds)

    def running_s(self) -> float:
        """Seconds that the trial at work is expected to take on; a search may need more steps than others."""
        if self.running is None:
            return 0.0
        spent_s = time.monotonic() - self.running_since
        left_s = self.trial_s(self.running) - spent_s
        return max(left_s, LIKELY_MORE * spent_s) if self.steps else max(0.0, left_s)

    def trial_s(self, index: int) -> float:
        """Seconds that the next trial of a treatment is expected to take, all in all."""
        return self.treatments[index].next_s + self.setup_s() + self.steps_s(index)

    def steps_s(self, index: int) -> float:
        """Seconds of that for the steps before its load."""
        others = [spent for each in self.treatments for spent in each.series_s]
        return schedule.series_cost(self.treatments[index].series_s or others, self.search(index))

    def setup_s(self) -> float:
        """Seconds that a trial costs beside its load: the median so far."""
        return schedule.setup_cost([cost for t in self.treatments for cost in t.setups_s])

    def search(self, index: int) -> SearchAsked | None:
        """How a treatment's trials search, with a time limit; None where they are no series."""
        levels = complete(self.treatments[index].treatment.factors, self.study.workload)
        if self.study.search is None or not is_series(self.study, levels):
            return None
        return schedule.limited(self.study.search, self.study.precision, len(self.treatments))

    def _next_s(self, past: list[PastTrial]) -> float:
        if self.study.timing.duration_s is not None:
            return self.study.timing.duration_s
        if self.study.search is not None and main_metric(self.study) in OF_SERIES:
            return self.study.search.step_s
        return schedule.trial_duration(past, self.setup_s(), self.study.precision, len(self.treatments))
