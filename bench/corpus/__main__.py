"""`python -m bench.corpus` makes the runs that are missing; ended at any moment, it goes on where it was."""

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
from bench.corpus.controls import conditions
from bench.corpus.disturb.quota import APART
from bench.corpus.disturb.settings import put_back_left
from bench.corpus.families import RECIPES
from bench.corpus.make import Left, Maker, NotMade
from bench.corpus.proof import Seen
from bench.corpus.runs import CHOSEN_BY, Run, chosen, runs_of
from bench.corpus.store import Store
from bench.corpus.undisturbed import RunDisturbed, make_undisturbed
from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import check_agent
from vnetbench.campaign.interrupts import Interrupts
from vnetbench.commands import exit_codes
from vnetbench.errors import BenchError
from vnetbench.lab.privilege import has_root
from vnetbench.quantity import format_exact_duration

FOLDER = Path("out/corpus")


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=FOLDER, show_default=True
)
@click.option(
    "--only", "wanted", metavar="WHAT=VALUE,…", default="",
    help=f"Only runs with these: {', '.join(CHOSEN_BY)}.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Try runs again that were discarded.")
@click.option("--list", "is_list", is_flag=True, help="Say what would be made, and make nothing.")
def main(output: Path, wanted: str, again: bool, is_list: bool) -> None:
    """Make the runs of the corpus that are missing."""
    console = Console(highlight=False)
    try:
        declared = runs_of(RECIPES)
        runs = chosen(declared, _only(wanted))
        if is_list:
            _list(console, runs)
            return
        if not has_root():
            raise BenchError("this builds networks and sets the machine's limits", fix="run as root")
        check_agent()
        store = Store(output)
        store.drop_others(declared)
        if again:
            store.forget_discarded(runs)
        known = store.known()
        missing = [run for run in runs if run.name not in known]
        console.print(f"{len(runs)} runs, {len(runs) - len(missing)} of them known already")
        with (
            run_with_cgroup_priority() as is_first,
            Interrupts(lambda: console.print("finishing the trial at work, then leaving")) as interrupts,
        ):
            if not is_first:
                console.print("no control group can be had: keep the machine free of other work")
            for name, value in put_back_left().items():
                console.print(f"{name} is {value} again: a maker that was killed had changed it")
            sys.exit(0 if _make_all(console, store, missing, interrupts) else exit_codes.INTERRUPTED)
    except (BenchError, AgentError) as error:
        click.echo(f"{error}", err=True)
        sys.exit(1)


def _only(wanted: str) -> dict[str, str]:
    parts = [part.partition("=") for part in re.split(r",(?=\w+=)", wanted) if part]
    if all(what in CHOSEN_BY and equals for what, equals, _ in parts):
        return {what: value for what, _, value in parts}
    raise BenchError(
        f"--only {wanted}: WHAT=VALUE is expected, and WHAT is one of {', '.join(CHOSEN_BY)}",
        fix="write --only cause=pacing,topology=bridge",
    )


def _list(console: Console, runs: list[Run]) -> None:
    for run in runs:
        causes = " + ".join(run.recipe.causes)
        console.print(
            f"{run.name}  {run.part:<10}  {run.topology:<11}  {run.strength:<6}  {causes}: {run.dose.says}"
        )
    of_causes = Counter(cause for run in runs for cause in run.recipe.causes)
    console.print(
        f"{len(runs)} runs, {len(of_causes)} causes, {format_exact_duration(round(sum(r.expected_s for r in runs)))}"
    )


def _make_all(console: Console, store: Store, runs: list[Run], interrupts: Interrupts) -> bool:
    """Whether all were made, or discarded; False when it was left before."""
    began = time.monotonic()
    outcomes: Counter[str] = Counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=sum(run.expected_s for run in runs))
        maker = Maker(interrupts, lambda sentence: progress.print(sentence))
        try:
            for number, run in enumerate(runs, start=1):
                progress.update(task, description=f"{number}/{len(runs)}")
                outcomes[_make(progress, task, store, maker, run)] += 1
                if interrupts.is_requested:
                    return False
        finally:
            maker.close()
            took = format_exact_duration(round(time.monotonic() - began))
            told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
            console.print(f"{told or 'nothing made'}, in {took}")
    return True


def _make(progress: Progress, task: TaskID, store: Store, maker: Maker, run: Run) -> str:
    what = f"{' + '.join(run.recipe.causes)}, {run.topology}, {run.strength} ({run.dose.says})"
    found = control = None
    try:
        control = _control(store, maker, run)
        found = make_undisturbed(lambda: maker.make(run, store.at_work), lambda seen: seen.told.get(APART, 0.0))
        why = run.recipe.bites(found, control)
    except Left:
        store.at_work.unlink(missing_ok=True)
        return "left"
    except RunDisturbed as disturbed:
        progress.advance(task, run.expected_s)
        progress.print(f"left for another time: {what}: {disturbed}", markup=False, soft_wrap=True)
        return "left for another time"
    except (BenchError, AgentError, NotMade) as error:
        why = str(error)
    progress.advance(task, run.expected_s)
    if why or not found or not control:
        store.discard(run, why, found, control)
        progress.print(f"discarded: {what}: {why}", markup=False, soft_wrap=True)
        return "discarded"
    store.keep(run, found, control)
    return "kept"


def _control(store: Store, maker: Maker, run: Run) -> Seen:
    now = conditions()
    if (speed := store.control(run.control_key, now)) is not None:
        return Seen(speed)
    found = make_undisturbed(lambda: maker.control(run, store.at_work))
    store.keep_control(run.control_key, found.speed, now)
    return found


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
