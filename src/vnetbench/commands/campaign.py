"""The commands `run` and `resume`: a session of a campaign, and how it is watched and left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console

from vnetbench.agents.client import AgentError
from vnetbench.agents.starting import check_agent
from vnetbench.campaign.facts import bench_facts
from vnetbench.campaign.hosts_instrument import HostsInstrument
from vnetbench.campaign.instrument import Instrument, LabInstrument
from vnetbench.campaign.interrupt import Interrupts
from vnetbench.campaign.run import Campaign
from vnetbench.errors import BenchError
from vnetbench.lab import left_on_hosts, privilege
from vnetbench.lab.hosts_bed import HostsLab
from vnetbench.lab.netns_bed import NetnsLab
from vnetbench.report.live import display
from vnetbench.results.file import ResultsFile
from vnetbench.study.difference import difference
from vnetbench.study.labs import HOSTS, IPERF3, NETNS
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
    _get_ready(study)
    return _run(ResultsFile.create(output, study, plan), study, plan, console)


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
    _get_ready(study)
    return _run(ResultsFile.open_to_write(results), study, Plan(treatments, campaign.seed), console)


def _get_ready(study: Study) -> None:
    """Raise BenchError where nothing could be measured, before anything is written."""
    if study.testbed.lab == NETNS:
        # Hosts are reached from where the user is, with the user's own rights.
        privilege.enter_for_run()
    check_agent()
    if study.testbed.kind == IPERF3:
        with closing(HostsInstrument(study.testbed)) as instrument:
            instrument.greet()
    elif study.testbed.lab == HOSTS:
        _try_hosts(study)


def _try_hosts(study: Study) -> None:
    """Raise BenchError for hosts that cannot be measured between."""
    lab = HostsLab(study.testbed, study.title)
    try:
        lab.raise_bed("check", lab.shape({})).close()
    except AgentError as error:
        raise BenchError(
            f"the agent does not run there: {error.message}",
            where=error.endpoint,
            fix="vnetbench doctor --ssh shows how far it gets",
        ) from error


def _instrument(study: Study) -> Instrument:
    testbed = study.testbed
    if testbed.kind == IPERF3:
        return HostsInstrument(testbed)
    make = HostsLab if testbed.lab == HOSTS else NetnsLab
    return LabInstrument(make(testbed, study.title), testbed)


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


def _run(file: ResultsFile, study: Study, plan: Plan, console: Console) -> str:
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
            campaign = Campaign(file, study, plan, _instrument(study), shown.say, shown.tick)
            shown.watch(campaign.progress)
            status = campaign.run(interrupts)
    except BaseException:
        _close_quietly(file)
        raise
    finally:
        _tell_left(console)
    file.close(status)
    return status


def _tell_left(console: Console) -> None:
    """What a lost connection has kept from being removed."""
    for left in left_on_hosts.entries():
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
