"""Running a campaign: randomised blocks of trials, repeated until every treatment is sure, and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from vnetbench.campaign import schedule
from vnetbench.campaign.calibration import MOST_TRIALS, TRIAL_S
from vnetbench.campaign.instrument import Done, Instrument
from vnetbench.campaign.interrupts import Interrupts, LeaveNow
from vnetbench.campaign.progress import OPEN, Progress
from vnetbench.campaign.trial import Abandoned, Load, Series, TrialBroke
from vnetbench.campaign.agent_parameters import idle_s
from vnetbench.estimate.time_series import course
from vnetbench.estimate.stopping_rule import decide
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import FINISHED, INTERRUPTED, StepRecord, TrialRecord
from vnetbench.study.factors.registry import complete
from vnetbench.study.model import Level, Plan, SearchAsked, Study
from vnetbench.study.plan import block_order, search_seed
from vnetbench.study.workloads import main_metric

ATTEMPTS = 3
"""A trial that fails is tried this often, each time on a new testbed, before its treatment is given up."""

Say = Callable[[str, int | None], None]
"""Takes a sentence for the user, and the index of the treatment that it is about."""
Tick = Callable[[], None]


class Campaign:
    """One session of a campaign: it measures with the instrument and writes to the file that it is given."""

    def __init__(
        self, file: ResultsFile, study: Study, plan: Plan, instrument: Instrument, say: Say, tick: Tick
    ) -> None:
        """`tick` is called whenever a trial or a treatment has ended."""
        self.progress = Progress(study, plan, earlier_s=file.campaign().elapsed_s)
        self._file = file
        self._study = study
        self._plan = plan
        self._say = say
        self._tick = tick
        self._earlier: dict[int, str] = {}
        """Treatments that an earlier session refused or gave up, and that have not been tried anew."""
        self._calibrations: dict[int, Mapping[str, object]] = {}
        """What treatments were calibrated to before their first trial."""
        self._instrument = instrument
        self._replay()

    def run(self, interrupts: Interrupts) -> str:
        """Measure until nothing is open; returns `finished` or `interrupted`.

        What was measured is in the file whatever happens, and the instrument is closed. Raises BenchError
        when the file cannot be written or no testbed can be built.
        """
        self._warn_of_time()
        block = 0
        try:
            while self.progress.still_open():
                if not self._run_block(block, interrupts):
                    return INTERRUPTED if interrupts.asked else FINISHED
                self._judge(block)
                block += 1
            return FINISHED
        except LeaveNow:
            return INTERRUPTED
        finally:
            self.progress.is_leaving = True
            self.progress.running = None
            self._instrument.close()

    def _replay(self) -> None:
        """Take in what earlier sessions measured. What was refused or failed then is tried anew."""
        for record in self._file.treatments():
            if record.state in ("refused", "failed"):
                self.progress.treatments[record.index].reason = record.reason
                self._earlier[record.index] = record.state
        for trial in self._file.trials():
            if not trial.failure:
                self._count(trial)

    def _count(self, trial: TrialRecord) -> None:
        self.progress.finished(
            trial.treatment, trial.block, course(trial, main_metric(self._study)), trial.setup_s,
            sum(step.took_s for step in trial.steps),
        )  # fmt: skip
        calibration = trial.effective.get("calibration")
        if isinstance(calibration, Mapping):
            self._calibrations[trial.treatment] = calibration

    def _run_block(self, block: int, interrupts: Interrupts) -> bool:
        """One trial of every open treatment that has none in this block yet; False when it was cut short."""
        for index in block_order(self._plan, block, self.progress.still_open()):
            if block in self.progress.treatments[index].courses:
                continue
            if interrupts.asked:
                return False
            if self._out_of_time(index):
                return False
            self._run_trial(index, block, interrupts)
            self._tick()
        return True

    def _out_of_time(self, index: int) -> bool:
        progress = self.progress
        expected = progress.trial_s(index)
        expected += self._calibration_s(index)
        limit = self._study.precision.time_limit_s
        if not schedule.is_last_moment(progress.elapsed_s, expected, limit):
            return False
        for left in progress.still_open():
            # What was refused in an earlier session, and could not be tried anew, stays refused.
            earlier = self._earlier.get(left, "time limit")
            self._close_treatment(left, earlier, progress.treatments[left].reason)
        return True

    def _judge(self, block: int) -> None:
        """Decide at a block's end which treatments have been repeated enough.

        Only from what was measured up to this block: a resumed campaign then decides as the first one did.
        """
        for index in self.progress.still_open():
            treatment = self.progress.treatments[index]
            if any(later > block for later in treatment.courses):
                continue
            decision = decide(treatment.values, self._study.precision)
            if decision.stop:
                self._close_treatment(index, decision.reason)

    def _close_treatment(self, index: int, state: str, reason: str = "") -> None:
        self._file.set_treatment(index, state, reason)
        self.progress.treatments[index].state = state
        self.progress.treatments[index].reason = reason

    def _calibration_s(self, index: int) -> float:
        """Seconds that a treatment's calibration takes at most, where one is still to come; else 0."""
        if index in self._calibrations or self._levels(index).get("send_mode") != "auto":
            return 0.0
        return MOST_TRIALS * (TRIAL_S + self.progress.setup_s())

    def _levels(self, index: int) -> Mapping[str, Level]:
        study = self._study
        return complete(self._plan.treatments[index].factors, study.workload, study.testbed.kind)

    def _run_trial(self, index: int, block: int, interrupts: Interrupts) -> None:
        """One trial on disk, or why there is none: refused, given up, or left because the user asked."""
        study, levels = self._study, self._levels(index)
        next_s = self.progress.treatments[index].next_s
        idle = idle_s(study.workload, levels, study.timing)
        known = self._calibrations.get(index)
        load = Load(
            levels, next_s, study.timing.interval_s, study.workload, idle, known,
            settle_s=(study.search or SearchAsked()).settle_s, series=self._series(index, block, interrupts),
        )  # fmt: skip
        failure = ""
        for _ in range(ATTEMPTS):
            if interrupts.asked and failure:
                return
            began_s = self.progress.elapsed_s
            self.progress.running, self.progress.running_since = index, time.monotonic()
            try:
                with interrupts.interruptible():
                    done = self._instrument.measure(load, lambda: interrupts.now)
                record = _record(index, block, began_s, load, done)
            except TreatmentRefused as refusal:
                self._close_treatment(index, "refused", str(refusal))
                self._say(f"refused: {refusal}", index)
                return
            except Abandoned:
                raise LeaveNow from None
            except TrialFailed as error:
                failure = str(error)
                sides = error.sides if isinstance(error, TrialBroke) else ()
                self._keep(TrialRecord(index, block, None, began_s, load.duration_s, 0.0, {}, sides, failure))
                self._say(f"a trial failed: {failure}", index)
                continue
            finally:
                self.progress.running = None
                self.progress.steps = ()
            self._keep(record)
            return
        self._close_treatment(index, "failed", f"{ATTEMPTS} trials in a row failed; the last one: {failure}")
        self._say(f"given up: {ATTEMPTS} trials in a row failed; the last one: {failure}", index)

    def _series(self, index: int, block: int, interrupts: Interrupts) -> Series | None:
        """The steps that a trial begins with, where it is a series: on disk as soon as each is over."""
        asked = self.progress.search(index)
        if asked is None:
            return None

        def keep(step: StepRecord) -> None:
            step = replace(step, started_s=max(0.0, self.progress.elapsed_s - step.took_s))
            self._file.add_step(index, block, step, self.progress.elapsed_s)
            self.progress.steps = (*self.progress.steps[: step.number], step)
            self._tick()

        def forget() -> None:
            self._file.drop_steps(index, block)
            self.progress.steps = ()

        self.progress.steps = self._file.steps(index, block)
        seed = search_seed(self._plan, block, index)
        return Series(
            asked, seed, lambda: self._file.steps(index, block), keep, forget, lambda: interrupts.asked
        )

    def _keep(self, trial: TrialRecord) -> None:
        """Put a trial on disk, and only then count it."""
        news = self._instrument.learned()
        for shape, description in news.testbeds.items():
            self._file.add_testbed(shape, description)
        for place, facts in news.facts.items():
            self._file.add_facts(place, facts)
        self._file.add_trial(trial, self.progress.elapsed_s)
        if self._earlier.pop(trial.treatment, None):
            self._file.set_treatment(trial.treatment, OPEN)
            self.progress.treatments[trial.treatment].reason = ""
        if not trial.failure:
            self._count(trial)

    def _warn_of_time(self) -> None:
        precision, treatments = self._study.precision, len(self._plan.treatments)
        calibrations_s = sum(map(self._calibration_s, self.progress.still_open()))
        steps_s = precision.fewest_trials * sum(map(self.progress.steps_s, self.progress.still_open()))
        before_s = calibrations_s + steps_s
        if not schedule.enough_time(precision, treatments, self._study.timing.duration_s, before_s):
            asked = f"{treatments} treatments of {precision.fewest_trials} trials each"
            if steps_s:
                asked += f", whose searches take some {steps_s:.0f} s"
            if calibrations_s:
                asked += f" and {calibrations_s:.0f} s of calibrations"
            limit = f"precision.time_limit = {precision.time_limit_s:g} s"
            self._say(f"{limit} is too short for {asked}: some will have no interval", None)


def _record(index: int, block: int, began_s: float, load: Load, done: Done) -> TrialRecord:
    """The trial as it is kept; raises TrialFailed for one that has nothing to estimate from."""
    record = TrialRecord(
        index, block, done.shape, began_s, load.duration_s, done.setup_s, done.measured.effective,
        done.measured.sides, notes=done.measured.notes, idle_s=load.idle_s, steps=done.measured.steps,
    )  # fmt: skip
    try:
        course(record)
    except ValueError:
        raise TrialFailed("no sample came during the load: the agents were kept from running") from None
    return record
