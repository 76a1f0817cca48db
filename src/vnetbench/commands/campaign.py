"""The commands `run` and `resume`: a session of a campaign, and how it is watched and left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console

from vnetbench.agents.starting import check_agent
from vnetbench.campaign.facts import bench_facts
from vnetbench.campaign.hosts_instrument import HostsInstrument
from vnetbench.campaign.instrument import Instrument, LabInstrument
from vnetbench.campaign.interrupt import Interrupts
from vnetbench.campaign.run import Campaign
from vnetbench.errors import BenchError
from vnetbench.lab import privilege
from vnetbench.lab.bed import Lab
from vnetbench.lab.guest.lab import QemuLab, shape_of
from vnetbench.lab.guest.ready import Ready, fetch, get_ready
from vnetbench.lab.netns_bed import NetnsLab
from vnetbench.report.live import display
from vnetbench.results.file import ResultsFile
from vnetbench.study.difference import difference
from vnetbench.study.factors import complete
from vnetbench.study.labs import HOSTS, QEMU
from vnetbench.study.load import load_study, parse_study
from vnetbench.study.model import Plan, Study, Treatment
from vnetbench.study.plan import make_plan

FINISHED = "finished"
INTERRUPTED = "interrupted"


def begin(
    study_path: Path, output: Path, overrides: Sequence[str], seed: int | None, console: Console
) -> str:
    """Run a new campaign; returns `finished` or `interrupted`. Raises BenchError."""
    # The whole path is kept: `resume` may be called from another folder.
    study = load_study(study_path.absolute(), overrides)
    plan = make_plan(study, seed)
    ready = _get_ready(study, plan, console)
    return _run(ResultsFile.create(output, study, plan), study, plan, ready, console)


def go_on(results: Path, console: Console) -> str:
    """Go on with the campaign of a results file; returns `finished` or `interrupted`. Raises BenchError."""
    file = ResultsFile.open_to_read(results)
    try:
        campaign = file.campaign()
        treatments = tuple(Treatment(t.index, t.factors) for t in file.treatments())
    finally:
        file.close()
    study = parse_study(campaign.study_text, campaign.study_path, campaign.overrides)
    _refuse_edited(study, console)
    plan = Plan(treatments, campaign.seed)
    ready = _get_ready(study, plan, console)
    return _run(ResultsFile.open_to_write(results), study, plan, ready, console)


def _get_ready(study: Study, plan: Plan, console: Console) -> Ready | None:
    """What guests are made of, in the lab that has such.

    Raises BenchError where nothing could be measured, before anything is written.
    """
    if study.testbed.lab == HOSTS:
        # Hosts are reached from where the user is, with the user's own rights.
        check_agent()
        with closing(HostsInstrument(study.testbed)) as instrument:
            instrument.greet()
        return None
    if study.testbed.lab != QEMU:
        privilege.enter_for_run()
        check_agent()
        return None
    levels = [complete(t.factors, study.workload, study.testbed.kind) for t in plan.treatments]
    shapes = list(dict.fromkeys(shape_of(each, study.testbed) for each in levels))
    # A namespace of our own has no way to where kernels are fetched from.
    fetch(shape.adapter for shape in shapes)
    privilege.enter_for_run()
    check_agent()
    ready = get_ready(shapes)
    console.print(ready.in_words(), soft_wrap=True, markup=False)
    return ready


def _refuse_edited(study: Study, console: Console) -> None:
    """Results of two different questions don't go into one file."""
    if study.path is None:
        return
    path = Path(study.path)
    try:
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        console.print(
            f"{path} cannot be read; going on with the study as the results file has it", markup=False
        )
        return
    if changes := difference(study.text, found, str(path)):
        raise BenchError(
            f"the study has been edited since the campaign began\n{changes}",
            where=str(path),
            fix="undo the edit and resume, or begin a new campaign with it (vnetbench run, another -o)",
        )


def _run(file: ResultsFile, study: Study, plan: Plan, ready: Ready | None, console: Console) -> str:
    if privilege.is_inside():
        console.print(privilege.COST, markup=False)
    status = INTERRUPTED
    try:
        with (
            display(console) as shown,
            Interrupts(
                lambda: shown.say("finishing the trial at work, then leaving; Ctrl-C again leaves at once")
            ) as interrupts,
        ):
            file.add_facts("bench", bench_facts())
            instrument = _instrument(study, ready, lambda sentence: shown.say(sentence, None))
            campaign = Campaign(file, study, plan, instrument, shown.say, shown.tick)
            shown.watch(campaign.progress)
            status = campaign.run(interrupts)
    except BaseException:
        _close_quietly(file)
        raise
    file.close(status)
    return status


def _instrument(study: Study, ready: Ready | None, say: Callable[[str], None]) -> Instrument:
    if study.testbed.lab == HOSTS:
        return HostsInstrument(study.testbed)
    lab: Lab = (
        NetnsLab(study.testbed, study.title)
        if ready is None
        else QemuLab(study.testbed, study.title, ready, say)
    )
    return LabInstrument(lab, study.testbed)


def _close_quietly(file: ResultsFile) -> None:
    """Close after an error: that one is worth hearing, not that a full disk refuses the closing note too."""
    try:
        file.close(INTERRUPTED)
    except BenchError:
        return
