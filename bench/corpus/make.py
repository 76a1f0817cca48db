"""Makes one run: a campaign of one treatment, whose testbed is disturbed in every trial."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench.corpus.proof import Seen, seen
from bench.corpus.runs import Run
from bench.corpus.scene import Disturb, Scene
from vnetbench.campaign.environment_facts import read_bench_facts
from vnetbench.campaign.instrument import (
    CompletedTrial,
    LabInstrument,
    NewFacts,
    TrialContext,
    no_trial_context,
)
from vnetbench.campaign.interrupts import Interrupts
from vnetbench.campaign.run import Campaign
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab.guest.lab import QemuLab, guest_shape
from vnetbench.lab.guest.prerequisites import fetch_qemu_and_kernel, prepare_guests
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


class NotMade(Exception):
    """The run could not be measured; the text says why."""


class Left(Exception):
    """The user wanted to leave before the run was measured."""


class Kept:
    """An instrument that outlives campaigns, and tells each of them all that it has learned."""

    def __init__(self, instrument: LabInstrument) -> None:
        self._instrument = instrument
        self._learned = NewFacts()

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """See Instrument."""
        return self._instrument.measure(load, should_abandon)

    def take_new_facts(self) -> NewFacts:
        """See Instrument."""
        news = self._instrument.take_new_facts()
        self._learned.testbeds.update(news.testbeds)
        self._learned.facts.update(news.facts)
        return self._learned

    def close(self) -> None:
        """Nothing: who keeps it ends it."""


class Maker:
    """Makes runs, one after the other. It keeps guests from one run to the next, and must be closed."""

    def __init__(self, interrupts: Interrupts, say: Callable[[str], None]) -> None:
        self._interrupts = interrupts
        self._say = say
        self._around: TrialContext = no_trial_context
        self._of_guests: tuple[str, LabInstrument, Kept] | None = None

    def make(self, run: Run, path: Path) -> Seen:
        """Measure a run into a file; raises NotMade, Left, or BenchError."""
        told: defaultdict[str, float] = defaultdict(float)
        self._around = _disturbed(run, (*run.recipe.ground, *run.dose.disturb), told)
        return self._campaign(run, run.study(), path, told)

    def control(self, run: Run, path: Path) -> Seen:
        """The same of its load without the cause."""
        self._around = _disturbed(run, run.recipe.ground, defaultdict(float))
        return self._campaign(run, run.control(), path, {})

    def close(self) -> None:
        """End the guests."""
        if self._of_guests:
            self._of_guests[1].close()
            self._of_guests = None

    def _campaign(self, run: Run, text: str, path: Path, told: Mapping[str, float]) -> Seen:
        study = parse_study(text, None)
        plan = make_plan(study, run.seed)
        path.unlink(missing_ok=True)
        file = ResultsFile.create(path, study, plan)
        try:
            file.add_facts("bench", read_bench_facts())
            instrument = self._instrument(run, study)
            said: list[str] = []
            campaign = Campaign(
                file, study, plan, instrument, lambda sentence, _: said.append(sentence), lambda: None
            )
            status = campaign.run(self._interrupts)
            trials = list(file.trials())
            state = file.treatments()[0].state
        except BaseException:
            file.close(INTERRUPTED)
            raise
        file.close(status)
        if status != FINISHED or self._interrupts.is_requested:
            raise Left
        if state in ("refused", "failed") or any(trial.failure for trial in trials):
            raise NotMade("; ".join(said) or state)
        return seen(trials, told)

    def _instrument(self, run: Run, study: Study) -> LabInstrument | Kept:
        if study.testbed.lab != QEMU:
            # A new testbed for each run: no knob is as the run before left it.
            lab = run.place.make_lab(study.testbed, PURPOSE)
            return LabInstrument(lab, study.testbed, self._surround)
        levels = complete_levels(
            make_plan(study, 0).treatments[0].factors, study.workload, study.testbed.backend
        )
        return self._guests(run.topology, levels, study.testbed)

    def _guests(self, topology: str, levels: Mapping[str, Level], asked: TestbedSpec) -> Kept:
        if self._of_guests is None or self._of_guests[0] != topology:
            self.close()
            shape = guest_shape(levels, asked)
            fetch_qemu_and_kernel([shape.adapter])
            lab = QemuLab(asked, PURPOSE, prepare_guests([shape]), self._say)
            instrument = LabInstrument(lab, asked, self._surround)
            self._of_guests = (topology, instrument, Kept(instrument))
        return self._of_guests[2]

    def _surround(self, bed: Testbed, load: TrialLoad) -> AbstractContextManager[Testbed]:
        return self._around(bed, load)


def _disturbed(run: Run, disturbances: Sequence[Disturb], told: dict[str, float]) -> TrialContext:
    """Each trial inside of these disturbances."""
    begun = 0

    @contextmanager
    def around(bed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        nonlocal begun
        assert isinstance(bed, NetnsTestbed | GuestTestbed)
        scene = Scene(bed, begun, random.Random(f"{run.seed} {begun}"), told)
        begun += 1
        with ExitStack() as stack:
            for disturb in disturbances:
                stack.enter_context(disturb(scene))
            yield bed

    return around
