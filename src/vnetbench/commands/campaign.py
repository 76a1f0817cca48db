"""The commands `run` and `resume`: a session of a campaign, and how it is watched and left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console

from vnetbench.campaign.environment_facts import bench_facts
from vnetbench.campaign.interrupts import Interrupts
from vnetbench.campaign.run import Campaign
from vnetbench.commands.instruments import MakeInstrument, prepared
from vnetbench.errors import BenchError
from vnetbench.lab import privilege
from vnetbench.lab.hosts import leftovers
from vnetbench.lab.tester_lock import only_tester
from vnetbench.report.live_display import display
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import INTERRUPTED
from vnetbench.study.difference import difference
from vnetbench.study.file.load import load_study, parse_study
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import Plan, Study, Treatment
from vnetbench.study.plan import make_plan
from vnetbench.study.workloads import OF_FRAMES


def begin(
    study_path: Path, output: Path, overrides: Sequence[str], seed: int | None, console: Console
) -> str:
    """Run a new campaign; returns `finished` or `interrupted`. Raises BenchError."""
    # The whole path is kept: `resume` may be called from another folder.
    study = load_study(study_path.absolute(), overrides)
    return begin_study(study, lambda: output, seed, console)


def begin_study(study: Study, output: Callable[[], Path], seed: int | None, console: Console) -> str:
    """The same of a study that has been read."""
    return begin_plan(study, make_plan(study, seed), output, console)


def begin_plan(study: Study, plan: Plan, output: Callable[[], Path], console: Console) -> str:
    """The same of a plan that need not have all treatments of its study.

    `output` is asked for when the campaign begins: until then this process may be started again, inside a
    namespace (`privilege.enter_for_run`), and what it had made by then would stay behind.
    """
    make_instrument = prepared(study, plan, console)
    with _alone(study):
        return _run(ResultsFile.create(output(), study, plan), study, plan, make_instrument, console)


def go_on(results: Path, console: Console) -> str:
    """Go on with the campaign of a results file; returns `finished` or `interrupted`. Raises BenchError."""
    file = ResultsFile.open_to_read(results)
    try:
        campaign = file.campaign()
        treatments = tuple(Treatment(t.index, t.factors) for t in file.treatments())
        accelerators = {str(t["accelerator"]) for t in file.testbeds().values() if t.get("accelerator")}
    finally:
        file.close()
    study = parse_study(campaign.study_text, campaign.study_path, campaign.overrides)
    _refuse_edited(study, console)
    plan = Plan(treatments, campaign.seed)
    make_instrument = prepared(study, plan, console, next(iter(accelerators), None))
    with _alone(study):
        return _run(ResultsFile.open_to_write(results), study, plan, make_instrument, console)


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


def _run(
    file: ResultsFile, study: Study, plan: Plan, make_instrument: MakeInstrument, console: Console
) -> str:
    if privilege.is_inside():
        console.print(privilege.COST, markup=False)
    status = INTERRUPTED
    try:
        with (
            display(console) as shown,
            Interrupts(
                lambda: shown.say(
                    "finishing the trial at work (of a search the step), then leaving; "
                    "Ctrl-C again leaves at once"
                )
            ) as interrupts,
        ):
            file.add_facts("bench", bench_facts())
            instrument = make_instrument(lambda sentence: shown.say(sentence, None))
            campaign = Campaign(file, study, plan, instrument, shown.say, shown.tick)
            shown.watch(campaign.progress)
            status = campaign.run(interrupts)
    except BaseException:
        _close_quietly(file)
        raise
    finally:
        _tell_left(console)
    file.close(status)
    return status


def _alone(study: Study) -> AbstractContextManager[None]:
    """Where this machine is the tester, and has CPUs for a single one."""
    is_tester = study.workload in OF_FRAMES and study.testbed.lab != HOSTS
    return only_tester() if is_tester else nullcontext()


def _tell_left(console: Console) -> None:
    """What a lost connection has kept from being removed."""
    for left in leftovers.entries():
        if left.is_ours:
            console.print(
                f"left over: {left}; when it is reached again: vnetbench lab clean",
                markup=False,
                soft_wrap=True,
            )


def _close_quietly(file: ResultsFile) -> None:
    """Close after an error: that one is worth hearing, not that a full disk refuses the closing note too."""
    try:
        file.close(INTERRUPTED)
    except BenchError:
        return
