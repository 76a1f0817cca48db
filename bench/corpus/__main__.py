"""`python -m bench.corpus` makes the missing runs. You can interrupt it at any time and run it again."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.corpus.cgroup_priority import run_with_cgroup_priority
from bench.corpus.controls import read_conditions
from bench.corpus.disturbances.cpu_quota import EXTERNAL_USER_S
from bench.corpus.disturbances.sysctls import restore_leftover_sysctls
from bench.corpus.effect_checks import RunMeasurement
from bench.corpus.interference import RunDisturbed, repeat_until_undisturbed
from bench.corpus.run_maker import RunInterrupted, RunMaker, RunMeasurementFailed
from bench.corpus.runs import FILTER_KEYS, Run, filter_runs, plan_runs
from bench.corpus.scenarios import SCENARIOS
from bench.corpus.store import CorpusStore
from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import check_agent_binary
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.commands import exit_codes
from vnetbench.errors import BenchError
from vnetbench.lab.privilege import has_root_outside_user_namespace
from vnetbench.quantity import format_exact_duration

FOLDER = Path("out/corpus")


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=FOLDER, show_default=True,
    help="Folder of the corpus.",
)  # fmt: skip
@click.option(
    "--only", "filter_text", metavar="KEY=VALUE,…", default="",
    help=f"Make only the runs with these values. Keys: {', '.join(FILTER_KEYS)}.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Make discarded runs again.")
@click.option("--list", "is_list", is_flag=True, help="List the selected runs and make none.")
def main(output: Path, filter_text: str, again: bool, is_list: bool) -> None:
    """Make the missing runs of the corpus."""
    console = Console(highlight=False)
    try:
        declared = plan_runs(SCENARIOS)
        runs = filter_runs(declared, _parse_filters(filter_text))
        if is_list:
            _list_runs(console, runs)
            return
        if not has_root_outside_user_namespace():
            raise BenchError("making runs creates networks and changes machine settings", fix="run as root")
        check_agent_binary()
        store = CorpusStore(output)
        store.remove_outdated(declared)
        if again:
            store.forget_discarded(runs)
        known = store.known_names()
        missing = [run for run in runs if run.name not in known]
        console.print(f"{len(runs)} runs, of which {len(runs) - len(missing)} exist or were discarded")
        with (
            run_with_cgroup_priority() as has_priority,
            SignalHandler(lambda: console.print("Stopping after the current trial.")) as signal_handler,
        ):
            if not has_priority:
                console.print("Cannot create a control group. Run no other work on this machine.")
            for name, value in restore_leftover_sysctls().items():
                console.print(f"Restored {name} = {value}, which a killed process had changed.")
            sys.exit(0 if _make_all(console, store, missing, signal_handler) else exit_codes.INTERRUPTED)
    except (BenchError, AgentError) as error:
        click.echo(f"{error}", err=True)
        sys.exit(1)


def _parse_filters(filter_text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in re.split(r",(?=\w+=)", filter_text) if part]
    if all(key in FILTER_KEYS and equals for key, equals, _ in parts):
        return {key: value for key, _, value in parts}
    raise BenchError(
        f"--only {filter_text} is not of the form KEY=VALUE, where KEY is one of {', '.join(FILTER_KEYS)}",
        fix="write, for example, --only cause=pacing,topology=bridge",
    )


def _list_runs(console: Console, runs: list[Run]) -> None:
    for run in runs:
        causes = " + ".join(run.scenario.causes)
        strength = f"{run.strength:<6}  {causes}: {run.cause_strength.description}"
        console.print(f"{run.name}  {run.part:<10}  {run.topology:<11}  {strength}")
    causes_with_runs = {cause for run in runs for cause in run.scenario.causes}
    duration = format_exact_duration(round(sum(run.expected_s for run in runs)))
    console.print(f"{len(runs)} runs, {len(causes_with_runs)} causes, {duration}")


def _make_all(console: Console, store: CorpusStore, runs: list[Run], signal_handler: SignalHandler) -> bool:
    """Make the runs and return whether the user did not interrupt them."""
    start_s = time.monotonic()
    outcomes: Counter[str] = Counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=sum(run.expected_s for run in runs))
        maker = RunMaker(signal_handler, lambda message: progress.print(message))
        try:
            for number, run in enumerate(runs, start=1):
                progress.update(task, description=f"{number}/{len(runs)}")
                outcomes[_make_run(progress, task, store, maker, run)] += 1
                if signal_handler.is_requested:
                    return False
        finally:
            maker.close()
            elapsed = format_exact_duration(round(time.monotonic() - start_s))
            counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
            console.print(f"{counts or 'no runs'}, in {elapsed}")
    return True


def _make_run(progress: Progress, task: TaskID, store: CorpusStore, maker: RunMaker, run: Run) -> str:
    """Make a run and return its outcome in a word."""
    causes = " + ".join(run.scenario.causes)
    title = f"{causes}, {run.topology}, {run.strength} ({run.cause_strength.description})"
    measurement = control = None
    try:
        control = _measure_control(store, maker, run)
        measurement = repeat_until_undisturbed(
            lambda: maker.make_run(run, store.work_path),
            lambda made: made.disturbance_values.get(EXTERNAL_USER_S, 0.0),
        )
        reason = run.scenario.effect_check(measurement, control)
    except RunInterrupted:
        store.work_path.unlink(missing_ok=True)
        return "interrupted"
    except RunDisturbed as disturbed:
        progress.advance(task, run.expected_s)
        progress.print(f"postponed: {title}: {disturbed}", markup=False, soft_wrap=True)
        return "postponed"
    except (BenchError, AgentError, RunMeasurementFailed) as error:
        reason = str(error)
    progress.advance(task, run.expected_s)
    if reason or not measurement or not control:
        store.discard(run, reason, measurement, control)
        progress.print(f"discarded: {title}: {reason}", markup=False, soft_wrap=True)
        return "discarded"
    store.keep(run, measurement, control)
    return "stored"


def _measure_control(store: CorpusStore, maker: RunMaker, run: Run) -> RunMeasurement:
    conditions = read_conditions()
    if (speed := store.find_control_speed(run.control_key, conditions)) is not None:
        return RunMeasurement(speed)
    control = repeat_until_undisturbed(lambda: maker.make_control(run, store.work_path))
    store.save_control_speed(run.control_key, control.speed, conditions)
    return control


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
