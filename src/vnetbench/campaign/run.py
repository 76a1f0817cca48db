"""Run or resume a campaign: randomised blocks of trials, repeated until each interval is narrow enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from vnetbench.campaign import schedule
from vnetbench.campaign.agent_parameters import compute_idle_duration_s
from vnetbench.campaign.calibration import CALIBRATION_TRIAL_S, MAX_CALIBRATION_TRIALS
from vnetbench.campaign.instrument import CompletedTrial, Instrument
from vnetbench.campaign.progress import OPEN_STATE, CampaignProgress
from vnetbench.campaign.signal_handler import ImmediateExit, SignalHandler
from vnetbench.campaign.trial import StepSeries, TrialAbandoned, TrialLoad
from vnetbench.campaign.trial_failure import TrialFailedUnderLoad
from vnetbench.estimate.stopping_rule import decide_stopping, is_analysis_due
from vnetbench.estimate.time_series import TimeSeries, metric_time_series
from vnetbench.failure_kinds import NO_CPU_TIME, failure_fields, refusal_failure_kind
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import (
    FINISHED,
    INTERRUPTED,
    CampaignStatus,
    EndpointRecord,
    StepRecord,
    TrialRecord,
)
from vnetbench.study.factors.load_factors import SEND_MODE
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, Plan, SearchSpec, Study
from vnetbench.study.plan import derive_search_seed, shuffle_block
from vnetbench.study.workloads import choose_deciding_metric

MAX_TRIAL_ATTEMPTS = 3
"""Attempts of a trial, each on a new testbed, before its treatment fails."""

ReportMessage = Callable[[str, int | None], None]
"""Prints a message about the treatment of this index, or about the campaign."""
ReportProgress = Callable[[], None]
TreatmentChooser = Callable[[int, Mapping[int, Mapping[int, float]], Collection[int]], Collection[int]]
"""Chooses the treatments of a block.

Its arguments are the number of the block, the deciding values by treatment and block, and the open
treatments. It returns the treatments to run in this block. The campaign ends when it returns none.
"""
NOT_NEEDED_STATE = "not needed"
"""State of a treatment that a chooser left open, because the others gave the answer."""


class CampaignSession:
    """One session of a campaign: measures with an instrument and writes to a results file."""

    def __init__(
        self,
        file: ResultsFile,
        study: Study,
        plan: Plan,
        instrument: Instrument,
        report_message: ReportMessage,
        report_progress: ReportProgress,
        choose_treatments: TreatmentChooser | None = None,
    ) -> None:
        """Create the session from the trials in the file.

        `report_progress` is called after each step, trial and treatment. Without `choose_treatments`, each
        block has all open treatments and the stopping rule closes them.
        """
        self.progress = CampaignProgress(study, plan, earlier_sessions_s=file.campaign().elapsed_s)
        self._file = file
        self._study = study
        self._plan = plan
        self._report_message = report_message
        self._report_progress = report_progress
        self._choose_treatments = choose_treatments
        self._earlier_states: dict[int, str] = {}
        """States of treatments that an earlier session refused or failed, until they are tried again."""
        self._calibrations: dict[int, Mapping[str, object]] = {}
        """Calibrations by treatment."""
        self._instrument = instrument
        self._replay_stored_trials()

    def run(self, signal_handler: SignalHandler) -> CampaignStatus:
        """Measure until no treatment is open, then close the instrument. Every finished trial is on disk.

        Returns:
            The campaign's status: `finished` or `interrupted`.

        Raises:
            BenchError: The file cannot be written, or no testbed can be created.
        """
        if self._choose_treatments is None:
            self._warn_if_time_limit_short()
        block = 0
        try:
            while chosen := self._choose_block_treatments_or_end_campaign(block):
                if not self._run_block(block, chosen, signal_handler):
                    return INTERRUPTED if signal_handler.is_requested else FINISHED
                if self._choose_treatments is None:
                    self._close_finished_treatments(block)
                block += 1
            return FINISHED
        except ImmediateExit:
            return INTERRUPTED
        finally:
            self.progress.is_removing_testbeds = True
            self.progress.running_treatment = None
            self._instrument.close()

    def _replay_stored_trials(self) -> None:
        """Add the trials of earlier sessions. Treatments that were refused or failed are tried again."""
        for record in self._file.treatments():
            if record.state in ("refused", "failed"):
                self.progress.treatments[record.index].reason = record.reason
                self._earlier_states[record.index] = record.state
        for trial in self._file.trials(with_counters=False):
            if not trial.failure:
                self._add_to_progress(trial, self.progress.add_stored_trial)
        for index in range(len(self.progress.treatments)):
            self.progress.update_estimate(index)

    def _add_to_progress(
        self, trial: TrialRecord, add_trial: Callable[[int, int, TimeSeries, float, float], None]
    ) -> None:
        add_trial(
            trial.treatment,
            trial.block,
            metric_time_series(trial, choose_deciding_metric(self._study)),
            trial.setup_s,
            sum(step.elapsed_s for step in trial.steps),
        )
        calibration = trial.effective.get("calibration")
        if isinstance(calibration, Mapping):
            self._calibrations[trial.treatment] = calibration

    def _choose_block_treatments_or_end_campaign(self, block: int) -> Collection[int]:
        """Return the treatments to run in this block; empty if the campaign has ended.

        A chooser sees only the trials of earlier blocks, so that a resumed campaign decides as the original
        one did. If it chooses none, this closes all open treatments.
        """
        open_treatments = self.progress.open_treatments()
        if self._choose_treatments is None or not open_treatments:
            return open_treatments
        values = {
            index: {
                earlier: value
                for earlier, value in self.progress.values_by_block(index).items()
                if earlier < block
            }
            for index in range(len(self.progress.treatments))
        }
        chosen = self._choose_treatments(block, values, open_treatments)
        if not chosen:
            for index in open_treatments:
                state = "trial limit" if self.progress.treatments[index].trial_count else NOT_NEEDED_STATE
                self._close_treatment(index, state)
        return chosen

    def _run_block(self, block: int, chosen: Collection[int], signal_handler: SignalHandler) -> bool:
        """Run the block's missing trials of the chosen treatments; return False if it was cut short."""
        for index in shuffle_block(self._plan, block, chosen):
            if block in self.progress.treatments[index].time_series_by_block:
                continue
            if signal_handler.is_requested:
                return False
            if self._close_treatments_if_trial_exceeds_time_limit(index):
                return False
            self._run_trial(index, block, signal_handler)
            self._report_progress()
        return True

    def _close_treatments_if_trial_exceeds_time_limit(self, index: int) -> bool:
        progress = self.progress
        expected = progress.expected_trial_s(index)
        expected += self._max_pending_calibration_s(index)
        limit = self._study.precision.campaign_time_limit_s
        if not schedule.exceeds_time_limit(progress.elapsed_s, expected, limit):
            return False
        for left in progress.open_treatments():
            # Treatments that were refused earlier and not tried again stay refused.
            earlier = self._earlier_states.get(left, "time limit")
            self._close_treatment(left, earlier, progress.treatments[left].reason)
        return True

    def _close_finished_treatments(self, block: int) -> None:
        """Close the treatments that need no further trial after this block.

        Only trials up to this block count, so that a resumed campaign decides as the original one did.
        """
        for index in self.progress.open_treatments():
            treatment = self.progress.treatments[index]
            if any(later > block for later in treatment.time_series_by_block):
                continue
            if not is_analysis_due(treatment.trial_count, self._study.precision):
                continue
            decision = decide_stopping(self.progress.deciding_values(index), self._study.precision)
            if decision.should_stop:
                self._close_treatment(index, decision.reason)

    def _close_treatment(self, index: int, state: str, reason: str = "") -> None:
        self._file.set_treatment_state(index, state, reason)
        self.progress.treatments[index].state = state
        self.progress.treatments[index].reason = reason

    def _max_pending_calibration_s(self, index: int) -> float:
        """Return the maximum duration of a treatment's pending calibration in seconds; 0 if none is due."""
        if index in self._calibrations or self._treatment_levels(index).get(SEND_MODE.name) != "auto":
            return 0.0
        return MAX_CALIBRATION_TRIALS * (CALIBRATION_TRIAL_S + self.progress.expected_setup_s())

    def _treatment_levels(self, index: int) -> Mapping[str, Level]:
        study = self._study
        return complete_levels(self._plan.treatments[index].factors, study.workload, study.testbed.backend)

    def _run_trial(self, index: int, block: int, signal_handler: SignalHandler) -> None:
        """Run one trial and store it. If it is refused or fails repeatedly, close the treatment."""
        study, levels = self._study, self._treatment_levels(index)
        next_load_duration_s = self.progress.treatments[index].next_load_duration_s
        idle = compute_idle_duration_s(study.workload, levels, study.timing)
        known = self._calibrations.get(index)
        load = TrialLoad(
            levels,
            next_load_duration_s,
            study.timing.interval_s,
            study.workload,
            idle,
            known,
            end_after_silence_s=(study.search or SearchSpec()).residual_frames_wait_s,
            step_series=self._make_step_series(index, block, signal_handler),
        )
        failure = ""
        for _ in range(MAX_TRIAL_ATTEMPTS):
            if signal_handler.is_requested and failure:
                return
            start_s = self.progress.elapsed_s
            self.progress.running_treatment, self.progress.running_trial_start_monotonic_s = (
                index,
                time.monotonic(),
            )
            try:
                with signal_handler.interruptible():
                    done = self._instrument.measure(load, lambda: signal_handler.is_immediate)
                record = _make_trial_record(index, block, start_s, load, done)
            except TreatmentRefused as refusal:
                kind = refusal_failure_kind(
                    refusal.kind, refusal.factor, self._plan.treatments[index].factors
                )
                if kind:
                    fields = failure_fields(kind, refusal.evidence)
                    self._store_failed_trial(index, block, start_s, load, str(refusal), fields)
                self._close_treatment(index, "refused", str(refusal))
                self._report_message(f"refused: {refusal}", index)
                return
            except TrialAbandoned:
                raise ImmediateExit from None
            except TrialFailed as error:
                failure = str(error)
                endpoints = error.endpoints if isinstance(error, TrialFailedUnderLoad) else ()
                fields = failure_fields(error.kind, error.evidence)
                self._store_failed_trial(index, block, start_s, load, failure, fields, endpoints)
                self._report_message(f"a trial failed: {failure}", index)
                continue
            finally:
                self.progress.running_treatment = None
                self.progress.running_trial_steps = ()
                self.progress.running_search_estimate = None
            self._store_trial(record)
            return
        reason = f"{MAX_TRIAL_ATTEMPTS} trials in a row failed. The last failure: {failure}"
        self._close_treatment(index, "failed", reason)
        self._report_message(f"the treatment failed, because {reason}", index)

    def _store_failed_trial(
        self,
        index: int,
        block: int,
        start_s: float,
        load: TrialLoad,
        failure: str,
        fields: Mapping[str, object],
        endpoints: tuple[EndpointRecord, ...] = (),
    ) -> None:
        """Store a failed trial with the kind of its failure and what the bench observed about it."""
        self._store_trial(
            TrialRecord(index, block, None, start_s, load.duration_s, 0.0, fields, endpoints, failure)
        )

    def _make_step_series(self, index: int, block: int, signal_handler: SignalHandler) -> StepSeries | None:
        """Return the step series of a trial, if it has one. Each finished step is stored at once."""
        search_spec = self.progress.search_spec(index)
        if search_spec is None:
            return None

        def save_step(step: StepRecord) -> None:
            step = replace(step, since_campaign_start_s=max(0.0, self.progress.elapsed_s - step.elapsed_s))
            self._file.add_step(index, block, step, self.progress.elapsed_s)
            self.progress.running_trial_steps = (*self.progress.running_trial_steps[: step.number], step)
            self._report_progress()

        def delete_steps() -> None:
            self._file.delete_steps(index, block)
            self.progress.running_trial_steps = ()

        self.progress.running_trial_steps = self._file.steps(index, block)
        seed = derive_search_seed(self._plan, block, index)
        return StepSeries(
            search_spec,
            seed,
            lambda: self._file.steps(index, block),
            save_step,
            delete_steps,
            lambda: signal_handler.is_requested,
            self.progress.set_search_estimate,
        )

    def _store_trial(self, trial: TrialRecord) -> None:
        """Write a trial to disk, then add it to the progress."""
        new_facts = self._instrument.take_new_facts()
        for shape, description in new_facts.testbed_descriptions.items():
            self._file.add_testbed(shape, description)
        for subject, facts in new_facts.facts_by_subject.items():
            self._file.add_facts(subject, facts)
        self._file.add_trial(trial, self.progress.elapsed_s)
        if self._earlier_states.pop(trial.treatment, None):
            self._file.set_treatment_state(trial.treatment, OPEN_STATE)
            self.progress.treatments[trial.treatment].reason = ""
        if not trial.failure:
            self._add_to_progress(trial, self.progress.add_finished_trial)

    def _warn_if_time_limit_short(self) -> None:
        precision, treatments = self._study.precision, len(self._plan.treatments)
        calibrations_s = sum(map(self._max_pending_calibration_s, self.progress.open_treatments()))
        expected_steps_s = precision.min_trials * sum(
            map(self.progress.expected_steps_s, self.progress.open_treatments())
        )
        before_s = calibrations_s + expected_steps_s
        if not schedule.has_time_for_min_trials(
            precision, treatments, self._study.timing.duration_s, before_s
        ):
            warning = (
                f"precision.time_limit = {precision.campaign_time_limit_s:g} s is too short for "
                f"{precision.min_trials} "
                f"trials of each of {treatments} treatments, so some treatments will have no interval"
            )
            if before_s:
                warning += (
                    f". Searches take about {expected_steps_s:.0f} s, and calibrations {calibrations_s:.0f} s"
                )
            self._report_message(warning, None)


def _make_trial_record(
    index: int, block: int, start_s: float, load: TrialLoad, trial: CompletedTrial
) -> TrialRecord:
    """Return the record of a trial; raises TrialFailed if it has no samples to estimate from."""
    record = TrialRecord(
        index,
        block,
        trial.testbed_shape,
        start_s,
        load.duration_s,
        trial.setup_s,
        trial.measurement.effective,
        trial.measurement.endpoints,
        notes=trial.measurement.notes,
        idle_s=load.idle_s,
        steps=trial.measurement.steps,
    )
    try:
        metric_time_series(record)
    except ValueError:
        what = "no sample was taken during the load: the agents got no CPU time"
        raise TrialFailed(what, kind=NO_CPU_TIME) from None
    return record
