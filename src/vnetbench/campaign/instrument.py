"""Instruments: they run a campaign's trials on testbeds that they create when a treatment needs them."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from vnetbench import cleanup
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import start_observer
from vnetbench.audit.stored import AUDIT_FACTS_SUBJECT
from vnetbench.campaign.calibration import CALIBRATION_TRIAL_S, choose_send_mode
from vnetbench.campaign.environment_facts import add_kernel_ids, read_endpoint_facts
from vnetbench.campaign.failure_probe import add_path_probe
from vnetbench.campaign.load_checks import failure_from_agent_error
from vnetbench.campaign.settings_audit import audit_testbed
from vnetbench.campaign.step_series import run_step_series_and_final_run
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement, measure_trial
from vnetbench.campaign.trial_notes import shared_device_cpus_notes
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import TESTBED_CHANGED, TESTBED_REBUILD_REASON_KEY, failure_fields
from vnetbench.lab import control_groups
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.knobs import knob_values_if_changed
from vnetbench.lab.testbed import Lab, Testbed
from vnetbench.study.factors.load_factors import SEND_MODE
from vnetbench.study.model import TestbedSpec
from vnetbench.study.workloads import WORKLOADS


@dataclass
class NewFacts:
    """Descriptions of new testbeds by shape, and facts about new machines by name, to store once."""

    testbed_descriptions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    facts_by_subject: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class CompletedTrial:
    """A measurement trial, the shape of its testbed, and its duration without the load in seconds."""

    measurement: TrialMeasurement
    testbed_shape: str
    setup_s: float


class Instrument(Protocol):
    """Runs trials. It holds resources and must be closed."""

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """Run one trial.

        Raises:
            TreatmentRefused: The treatment is not possible on this testbed.
            TrialFailed: The trial failed; another one may succeed.
            TrialAbandoned: `should_abandon` returned True.
        """

    def take_new_facts(self) -> NewFacts:
        """Return the testbeds and facts that are new since the last call."""

    def close(self) -> None:
        """End all agents and remove all testbeds."""


TrialContext = Callable[[Testbed, TrialLoad], AbstractContextManager[Testbed]]
"""Returns a context that is entered around each trial and yields the testbed to measure on."""


def no_trial_context(testbed: Testbed, load: TrialLoad) -> AbstractContextManager[Testbed]:
    """Return a context that yields the testbed unchanged."""
    return nullcontext(testbed)


class _TestbedMeasurement(NamedTuple):
    """A measurement, and the settings of its testbed as read back before it."""

    measurement: TrialMeasurement
    testbed_effective: Mapping[str, Any]


class LabInstrument:
    """Runs trials on the testbeds of a lab, and keeps testbeds for later treatments of the same shape."""

    def __init__(
        self, lab: Lab, testbed_spec: TestbedSpec, trial_context: TrialContext = no_trial_context
    ) -> None:
        self._lab = lab
        self._testbed_spec = testbed_spec
        self._trial_context = trial_context
        self._label = f"run-{secrets.token_hex(3)}"
        self._created_count = 0
        self._testbeds: OrderedDict[Hashable, Testbed] = OrderedDict()
        self._observer: AgentClient | None = None
        self._new_facts = NewFacts()
        self._recorded_shapes: set[Hashable] = set()
        self._audited_machines: set[str] = set()

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """See Instrument."""
        shape = self._lab.testbed_shape(load.factors)
        calibration = load.earlier_calibration
        stored_step_count = len(load.step_series.read_stored_steps()) if load.step_series else 0
        try:
            if SEND_MODE.is_at(load.factors, "auto"):
                calibration = (
                    calibration
                    or choose_send_mode(
                        lambda mode: self._measure_goodput(load, mode, should_abandon)
                    ).to_json()
                )
                load = _replace_send_mode(load, str(calibration["send_mode"]))
            # The calibration runs once per treatment, so it does not count as set-up of the trial.
            start = time.monotonic()
            measurement, testbed_effective = self._measure_on_testbed(shape, load, should_abandon)
        except AgentError as error:
            self._close_testbed_and_observer(shape)
            raise failure_from_agent_error(error) from error
        except BaseException:
            self._close_testbed_and_observer(shape)
            raise
        effective = {**testbed_effective, **measurement.effective}
        if calibration is not None:
            effective["calibration"] = calibration
        notes = (*shared_device_cpus_notes(effective), *measurement.notes)
        measurement = replace(measurement, effective=effective, notes=notes)
        spent_s = time.monotonic() - start - load.duration_s
        new_steps = measurement.steps[stored_step_count:]
        return CompletedTrial(
            measurement, str(shape), max(0.0, spent_s - sum(step.elapsed_s for step in new_steps))
        )

    def _measure_goodput(self, load: TrialLoad, mode: str, should_abandon: Callable[[], bool]) -> float:
        """Return the goodput of a short trial with this send mode, bit/s."""
        short = replace(_replace_send_mode(load, mode), duration_s=CALIBRATION_TRIAL_S)
        measurement, _ = self._measure_on_testbed(
            self._lab.testbed_shape(load.factors), short, should_abandon
        )
        return 8 * sum(endpoint.bytes_received for endpoint in measurement.endpoints) / CALIBRATION_TRIAL_S

    def _measure_on_testbed(
        self, shape: Hashable, load: TrialLoad, should_abandon: Callable[[], bool]
    ) -> _TestbedMeasurement:
        replaced: TreatmentRefused | None = None
        while True:
            is_new = shape not in self._testbeds
            is_ready = False
            try:
                testbed = self._get_or_create_testbed(shape)
                effective = testbed.set_knobs_and_prove_paths(load.factors, self._testbed_spec)
                is_ready = True
                with self._trial_context(testbed, load) as trial_testbed:
                    measurement = self._measure(trial_testbed, load, effective, should_abandon)
                    changes = _find_externally_changed_settings(effective, trial_testbed, load)
                    measurement = _add_externally_changed_settings(measurement, changes)
                return _TestbedMeasurement(_add_replaced_testbed(measurement, replaced), effective)
            except BenchError as error:
                self._close_testbed_and_observer(shape)
                if is_new:
                    raise _convert_to_refusal(error) from error
                # An existing testbed may have been damaged, so only a new testbed's refusal is final.
                # Only settings and paths show that another program changed it: they worked before.
                replaced = _convert_to_refusal(error, "" if is_ready else TESTBED_CHANGED)

    def _measure(
        self,
        testbed: Testbed,
        load: TrialLoad,
        effective: Mapping[str, Any],
        should_abandon: Callable[[], bool],
    ) -> TrialMeasurement:
        def run_once(load: TrialLoad) -> TrialMeasurement:
            try:
                return measure_trial(testbed, self._get_or_start_observer(), load, should_abandon)
            except TrialFailed as failure:
                workload = WORKLOADS[load.workload]
                uses_tcp = workload.carrier == "sockets" and not workload.has_datagrams
                add_path_probe(failure, testbed, load.factors, effective, uses_tcp)
                raise

        return (
            run_step_series_and_final_run(load, load.step_series, run_once)
            if load.step_series
            else run_once(load)
        )

    def take_new_facts(self) -> NewFacts:
        """See Instrument."""
        new_facts, self._new_facts = self._new_facts, NewFacts()
        return new_facts

    def close(self) -> None:
        """See Instrument. Also removes testbeds whose creation was interrupted."""
        testbeds = list(reversed(self._testbeds.values()))
        self._testbeds.clear()
        cleanup.run_all_despite_errors(
            (
                *(testbed.close for testbed in testbeds),
                lambda: self._lab.remove_unfinished_testbeds(f"{self._label}-"),
                self._close_observer,
            )
        )

    def _get_or_create_testbed(self, shape: Hashable) -> Testbed:
        if shape not in self._testbeds:
            while len(self._testbeds) >= self._lab.max_testbeds:
                self._testbeds.popitem(last=False)[1].close()
            self._created_count += 1
            testbed = self._lab.create_testbed(f"{self._label}-{self._created_count}", shape)
            self._testbeds[shape] = testbed
            if shape not in self._recorded_shapes:
                facts = read_endpoint_facts(testbed, self._get_or_start_observer())
                self._new_facts.facts_by_subject.update(facts)
                self._new_facts.testbed_descriptions[str(shape)] = add_kernel_ids(testbed.describe(), facts)
                self._recorded_shapes.add(shape)
                self._audit_machines(testbed)
        self._testbeds.move_to_end(shape)
        return self._testbeds[shape]

    def _audit_machines(self, testbed: Testbed) -> None:
        """Audit the machines that are new, before any knob is set."""
        if self._testbed_spec.audit:
            audited = audit_testbed(testbed, self._audited_machines)
            self._audited_machines.update(audited)
            if audited:
                self._new_facts.facts_by_subject[AUDIT_FACTS_SUBJECT] = {
                    **self._new_facts.facts_by_subject.get(AUDIT_FACTS_SUBJECT, {}), **audited,
                }  # fmt: skip

    def _get_or_start_observer(self) -> AgentClient:
        """Return the agent on the bench's host, and start it if necessary."""
        if self._observer is None:
            self._observer = start_observer(self._label)
        return self._observer

    def _close_testbed_and_observer(self, shape: Hashable) -> None:
        """Close the testbed of this shape and the observer, so that the next trial gets new ones."""
        testbed = self._testbeds.pop(shape, None)
        cleanup.run_all_despite_errors((*([testbed.close] if testbed else []), self._close_observer))

    def _close_observer(self) -> None:
        if self._observer is not None:
            observer, self._observer = self._observer, None
            observer.close()


def _find_externally_changed_settings(
    effective: Mapping[str, Any], testbed: Testbed, load: TrialLoad
) -> Mapping[str, object]:
    """Return settings that another program changed. In workloads of frames, the agents change them."""
    if WORKLOADS[load.workload].carries_frames:
        return {}
    changed = knob_values_if_changed(effective, testbed.endpoints, testbed.agents)
    return {**changed, **control_groups.cpu_limits_if_changed(effective, testbed.endpoints, testbed.agents)}


def _add_externally_changed_settings(
    measurement: TrialMeasurement, changed: Mapping[str, object]
) -> TrialMeasurement:
    """Store settings that another program changed during the trial, with a note for each."""
    notes = tuple(f"another program changed {setting} during the trial" for setting in changed)
    return replace(
        measurement, effective={**measurement.effective, **changed}, notes=(*measurement.notes, *notes)
    )


def _add_replaced_testbed(
    measurement: TrialMeasurement, refusal: TreatmentRefused | None
) -> TrialMeasurement:
    """Store why the previous testbed was replaced: a new one hides what someone changed on it."""
    if refusal is None:
        return measurement
    where = f"{refusal.where}: " if refusal.where else ""
    what = f"{where}{refusal.what}"
    fields = {**failure_fields(refusal.kind, refusal.evidence), "failure": what}
    note = f"the testbed was created anew before this trial, because the old one failed a check: {what}"
    return replace(
        measurement,
        effective={**measurement.effective, TESTBED_REBUILD_REASON_KEY: fields},
        notes=(*measurement.notes, note),
    )


def _replace_send_mode(load: TrialLoad, mode: str) -> TrialLoad:
    return replace(load, factors={**load.factors, SEND_MODE.name: mode})


def _convert_to_refusal(error: BenchError, default_kind: str = "") -> TreatmentRefused:
    """Return the error as a refusal: if a testbed cannot be created, only its treatments are refused.

    Args:
        error: The error.
        default_kind: The failure kind of an error that has none.
    """
    if not isinstance(error, TreatmentRefused):
        return TreatmentRefused(error.what, where=error.where, fix=error.fix, kind=default_kind)
    error.kind = error.kind or default_kind
    return error
