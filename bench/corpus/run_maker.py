"""Measurement of a run: a campaign of one treatment with the run's disturbances in every trial."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from bench.corpus.effect_checks import RunMeasurement, summarize_trials
from bench.corpus.runs import Run
from vnetbench.campaign.environment_facts import read_bench_facts
from vnetbench.campaign.instrument import (
    CompletedTrial,
    LabInstrument,
    NewFacts,
    TrialContext,
    no_trial_context,
)
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab.guest.lab import QemuLab, guest_shape
from vnetbench.lab.guest.prerequisites import find_qemu_and_fetch_kernel, prepare_guests
from vnetbench.lab.guest.testbed import GuestTestbed
from vnetbench.lab.netns.testbed import NetnsTestbed
from vnetbench.lab.testbed import Testbed
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import FINISHED, INTERRUPTED
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, Study, TestbedSpec
from vnetbench.study.plan import make_plan

PURPOSE = "the corpus of known causes"


class RunMeasurementFailed(Exception):
    """A run could not be measured; the message gives the reason."""


class RunInterrupted(Exception):
    """The user interrupted the run."""


class SharedInstrument:
    """An instrument that several campaigns use. Each campaign gets all facts as new facts."""

    def __init__(self, instrument: LabInstrument) -> None:
        self._instrument = instrument
        self._known_facts = NewFacts()

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """See Instrument."""
        return self._instrument.measure(load, should_abandon)

    def take_new_facts(self) -> NewFacts:
        """See Instrument."""
        new_facts = self._instrument.take_new_facts()
        self._known_facts.testbed_descriptions.update(new_facts.testbed_descriptions)
        self._known_facts.facts_by_subject.update(new_facts.facts_by_subject)
        return self._known_facts

    def close(self) -> None:
        """Do nothing, since the owner of the instrument closes it."""


class RunMaker:
    """Measures runs one after the other and reuses guests between them. It must be closed."""

    def __init__(self, signal_handler: SignalHandler, show_message: Callable[[str], None]) -> None:
        self._signal_handler = signal_handler
        self._show_message = show_message
        self._trial_context: TrialContext = no_trial_context
        self._guest_instrument: tuple[str, LabInstrument, SharedInstrument] | None = None
        """Topology and instruments of the current guests."""

    def make_run(self, run: Run, path: Path) -> RunMeasurement:
        """Measure a run and write its results file.

        Raises:
            RunMeasurementFailed: A trial failed.
            RunInterrupted: The user interrupted the run.
            BenchError: The testbed cannot be created.
        """
        disturbances = (*run.scenario.preparation, *run.cause_strength.disturbances)
        measurements: defaultdict[str, float] = defaultdict(float)
        self._trial_context = _disturb_trials(run, disturbances, measurements)
        return self._run_campaign(run, run.study_text(), path, measurements)

    def make_control(self, run: Run, path: Path) -> RunMeasurement:
        """Measure the load of a run without its cause; see `make_run`."""
        self._trial_context = _disturb_trials(run, run.scenario.preparation, defaultdict(float))
        return self._run_campaign(run, run.control_study_text(), path, {})

    def close(self) -> None:
        """Remove the guests."""
        if self._guest_instrument:
            self._guest_instrument[1].close()
            self._guest_instrument = None

    def _run_campaign(
        self, run: Run, study_text: str, path: Path, measurements: Mapping[str, float]
    ) -> RunMeasurement:
        study = parse_study(study_text, None)
        plan = make_plan(study, run.seed)
        path.unlink(missing_ok=True)
        file = ResultsFile.create(path, study, plan)
        try:
            file.add_facts("bench", read_bench_facts())
            instrument = self._create_instrument(run, study)
            messages: list[str] = []
            campaign = CampaignSession(
                file, study, plan, instrument, lambda message, _: messages.append(message), lambda: None
            )
            status = campaign.run(self._signal_handler)
            trials = list(file.trials())
            state = file.treatments()[0].state
        except BaseException:
            file.close(INTERRUPTED)
            raise
        file.close(status)
        if status != FINISHED or self._signal_handler.is_requested:
            raise RunInterrupted
        if state in ("refused", "failed") or any(trial.failure for trial in trials):
            raise RunMeasurementFailed("; ".join(messages) or state)
        return summarize_trials(trials, measurements)

    def _create_instrument(self, run: Run, study: Study) -> LabInstrument | SharedInstrument:
        if study.testbed.lab != QEMU:
            # Each run has a new testbed, so that no knob of the previous run remains.
            lab = run.testbed_type.create_lab(study.testbed, PURPOSE)
            return LabInstrument(lab, study.testbed, self._enter_trial_context)
        levels = complete_levels(
            make_plan(study, 0).treatments[0].factors, study.workload, study.testbed.backend
        )
        return self._shared_guest_instrument(run.topology, levels, study.testbed)

    def _shared_guest_instrument(
        self, topology: str, levels: Mapping[str, Level], spec: TestbedSpec
    ) -> SharedInstrument:
        if self._guest_instrument is None or self._guest_instrument[0] != topology:
            self.close()
            shape = guest_shape(levels, spec)
            find_qemu_and_fetch_kernel([shape.adapter])
            lab = QemuLab(spec, PURPOSE, prepare_guests([shape]), self._show_message)
            instrument = LabInstrument(lab, spec, self._enter_trial_context)
            self._guest_instrument = (topology, instrument, SharedInstrument(instrument))
        return self._guest_instrument[2]

    def _enter_trial_context(self, testbed: Testbed, load: TrialLoad) -> AbstractContextManager[Testbed]:
        return self._trial_context(testbed, load)


def _disturb_trials(
    run: Run, disturbances: Sequence[Disturbance], measurements: dict[str, float]
) -> TrialContext:
    """Return a context that applies the disturbances to each trial."""
    trial_index = 0

    @contextmanager
    def disturb_trial(testbed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        nonlocal trial_index
        assert isinstance(testbed, NetnsTestbed | GuestTestbed)
        trial_random = random.Random(f"{run.seed} {trial_index}")
        target = DisturbanceTarget(testbed, trial_index, trial_random, measurements)
        trial_index += 1
        with ExitStack() as stack:
            for disturbance in disturbances:
                stack.enter_context(disturbance(target))
            yield testbed

    return disturb_trial
