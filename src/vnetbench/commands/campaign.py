"""The commands `run` and `resume`: run a session of a campaign with its live display and signal handling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console

from vnetbench.audit.settings import SettingsAudit
from vnetbench.audit.stored import AUDIT_FACTS_SUBJECT, audit_to_facts
from vnetbench.campaign.environment_facts import read_bench_facts
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.commands.instruments import InstrumentFactory, prepare_instrument
from vnetbench.commands.planned_changes import print_vm_changes
from vnetbench.errors import BenchError
from vnetbench.estimate.experiments import INTERVENTION_FACTS_SUBJECT
from vnetbench.explain.interventions.planner import InterventionSeries
from vnetbench.lab import privilege
from vnetbench.lab.domains.journal import list_domain_records
from vnetbench.lab.hosts import leftovers
from vnetbench.lab.tester_lock import hold_tester_lock
from vnetbench.report.live_display import Display, create_display
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import INTERRUPTED, CampaignStatus
from vnetbench.study.file.load import load_study, parse_study
from vnetbench.study.labs import EXISTING_MACHINE_LABS
from vnetbench.study.model import Plan, Study, Treatment
from vnetbench.study.plan import make_plan
from vnetbench.study.study_diff import diff_study_texts
from vnetbench.study.workloads import WORKLOADS

DisplayFactory = Callable[[Console], Display]


def start_campaign(
    study_path: Path, output: Path, overrides: Sequence[str], seed: int | None, console: Console
) -> CampaignStatus:
    """Run a new campaign from a study file.

    Returns:
        The campaign's status: `finished` or `interrupted`.

    Raises:
        BenchError: The study is invalid, or the campaign cannot run here.
    """
    # The absolute path is stored, because `resume` may run in another folder.
    study = load_study(study_path.absolute(), overrides)
    return run_study(study, lambda: output, seed, console)


def run_study(
    study: Study, get_output_path: Callable[[], Path], seed: int | None, console: Console
) -> CampaignStatus:
    """Run a new campaign from a parsed study; see `start_campaign`."""
    return run_plan(study, make_plan(study, seed), get_output_path, console)


def run_plan(
    study: Study,
    plan: Plan,
    get_output_path: Callable[[], Path],
    console: Console,
    series: InterventionSeries | None = None,
    make_display: DisplayFactory | None = None,
    audit: SettingsAudit | None = None,
) -> CampaignStatus:
    """Run a new campaign from a plan, which may hold only some treatments of its study.

    Args:
        study: The study that the plan belongs to.
        plan: The treatments and the seed.
        get_output_path: Returns the path of the results file. It is called only when the campaign starts,
            because until then this process may restart itself in a namespace (`privilege.enter_for_run`) and
            would leave a temporary folder behind.
        console: Where the live display is drawn.
        series: Chooses the treatments of each block; None: each block has all open treatments.
        make_display: Makes the display; None: the display of a single campaign.
        audit: An audit of the path that the results file stores; None: the campaign's own, if any.
    """
    print_vm_changes(study, plan, console)
    make_instrument = prepare_instrument(study, plan, console)
    with _tester_lock_if_needed(study):
        file = ResultsFile.create(get_output_path(), study, plan)
        if series is not None:
            file.add_facts(INTERVENTION_FACTS_SUBJECT, series.to_facts())
        if audit is not None:
            file.add_facts(AUDIT_FACTS_SUBJECT, audit_to_facts(audit))
        return _run_session(file, study, plan, make_instrument, console, series, make_display)


def resume_campaign(results: Path, console: Console) -> CampaignStatus:
    """Continue the campaign of a results file; see `start_campaign`."""
    file = ResultsFile.open_to_read(results)
    try:
        campaign = file.campaign()
        treatments = tuple(Treatment(t.index, t.factors) for t in file.treatments())
        accelerators = {
            str(t["accelerator"])
            for t in file.testbed_descriptions_by_shape().values()
            if t.get("accelerator")
        }
        series_facts = file.facts().get(INTERVENTION_FACTS_SUBJECT)
    finally:
        file.close()
    study = parse_study(campaign.study_text, campaign.study_path, campaign.overrides)
    _check_study_unchanged(study, console)
    plan = Plan(treatments, campaign.seed)
    print_vm_changes(study, plan, console)
    make_instrument = prepare_instrument(study, plan, console, next(iter(accelerators), None))
    with _tester_lock_if_needed(study):
        series = None if series_facts is None else InterventionSeries.from_facts(series_facts)
        return _run_session(ResultsFile.open_to_write(results), study, plan, make_instrument, console, series)


def _check_study_unchanged(study: Study, console: Console) -> None:
    """Raise BenchError if the study file was edited since the campaign started."""
    if study.path is None:
        return
    path = Path(study.path)
    try:
        current_text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        console.print(
            f"Cannot read {path}. The campaign continues with the copy in the results file.", markup=False
        )
        return
    if changes := diff_study_texts(study.text, current_text, str(path)):
        raise BenchError(
            f"the study was edited after the campaign started\n{changes}",
            where=str(path),
            fix="undo the edit and resume, or start a new campaign (vnetbench run with another -o)",
        )


def _run_session(
    file: ResultsFile,
    study: Study,
    plan: Plan,
    make_instrument: InstrumentFactory,
    console: Console,
    series: InterventionSeries | None,
    make_display: DisplayFactory | None = None,
) -> CampaignStatus:
    status: CampaignStatus = INTERRUPTED
    try:
        with (
            (make_display or _create_display_after_limits)(console) as display,
            SignalHandler(
                lambda: display.show_message(
                    "Finishing the current trial (in a search: the current step), then stopping. "
                    "Press Ctrl-C again to stop now."
                )
            ) as signal_handler,
        ):
            file.add_facts("bench", read_bench_facts())
            instrument = make_instrument(lambda sentence: display.show_message(sentence, None))
            campaign = CampaignSession(
                file,
                study,
                plan,
                instrument,
                display.show_message,
                display.update,
                None if series is None else series.choose_treatments,
            )
            display.attach(campaign.progress)
            status = campaign.run(signal_handler)
    except BaseException:
        _close_quietly(file)
        raise
    finally:
        _print_host_leftovers(console)
        _print_changed_vms(console)
    file.close(status)
    return status


def _create_display_after_limits(console: Console) -> Display:
    """Print what a user namespace cannot measure, and return the display of a single campaign."""
    print_user_namespace_limits(console)
    return create_display(console)


def print_user_namespace_limits(console: Console) -> None:
    """Print what the lab cannot measure in a user namespace; nothing outside one."""
    if privilege.is_in_user_namespace():
        console.print(privilege.USER_NAMESPACE_LIMITS, markup=False)


def _tester_lock_if_needed(study: Study) -> AbstractContextManager[None]:
    """Lock this machine where it generates frames: its CPUs suffice for a single campaign of frames."""
    is_tester = WORKLOADS[study.workload].carries_frames and study.testbed.lab not in EXISTING_MACHINE_LABS
    return hold_tester_lock() if is_tester else nullcontext()


def _print_host_leftovers(console: Console) -> None:
    """Print the files that a lost connection left on hosts."""
    for left in leftovers.list_agent_folder_records():
        if left.is_own:
            console.print(
                f"Left on a host: {left}. When the host is reachable, run: vnetbench lab clean",
                markup=False,
                soft_wrap=True,
            )


def _print_changed_vms(console: Console) -> None:
    """Print the VMs that this process could not restore."""
    for record in list_domain_records():
        if not isinstance(record, BenchError) and record.is_own:
            console.print(
                f"Left changed: {record}. To restore it, run: vnetbench lab clean",
                markup=False,
                soft_wrap=True,
            )


def _close_quietly(file: ResultsFile) -> None:
    """Close the file after an error, so that the first error is reported and not a second one on close."""
    try:
        file.close(INTERRUPTED)
    except BenchError:
        return
