"""Comparison of vnetbench with peer tools: `python -m bench [COMPARISON]...`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import binaries, comparison, machine, results, testbed
from bench.rows import ROWS
from bench.terminal import exit_on_sigterm, make_console
from vnetbench.agents.client import AgentError
from vnetbench.errors import BenchError
from vnetbench.lab.privilege import has_root_outside_user_namespace, is_in_user_namespace

RESULTS = Path(__file__).parent / "results"
DEFAULT_ROUNDS = 7


@click.command()
@click.argument("names", metavar="[COMPARISON]...", nargs=-1, type=click.Choice(list(ROWS)))
@click.option(
    "--rounds", default=DEFAULT_ROUNDS, show_default=True, type=click.IntRange(1),
    help="Rounds of each comparison.",
)  # fmt: skip
@click.option(
    "--seconds", default=1, show_default=True, type=click.IntRange(1), help="Duration of a run in seconds."
)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the Markdown and JSON results. Default: bench/results if you name no comparison; "
    "otherwise the results are only printed.",
)  # fmt: skip
def main(names: tuple[str, ...], rounds: int, seconds: int, output: Path | None) -> None:
    """Compare vnetbench with peer tools. Each round runs every tool once, in random order.

    Without arguments, all comparisons run.
    """
    console = make_console()
    folder = output or (None if names else RESULTS)
    exit_on_sigterm()
    try:
        if not (has_root_outside_user_namespace() or is_in_user_namespace()):
            raise BenchError(
                "creating network namespaces requires root", fix="run tools/in-lab python -m bench"
            )
        peers, missing = binaries.find_binaries()
        with testbed.create_peer_testbed() as peer_testbed:
            facts = machine.describe_machine(peer_testbed.observer, peers)
            _print_facts(console, facts, missing)
            finished: list[comparison.ComparisonResult] = []
            for name in names or tuple(ROWS):
                finished.append(_run_comparison(console, peer_testbed, peers, name, rounds, seconds))
                if folder:  # after each comparison, so that an interruption loses at most one
                    path = results.save_results(folder, facts, finished, missing, seconds)
    except (BenchError, AgentError) as error:
        click.echo(f"{error}", err=True)
        sys.exit(1)
    console.print(f"\n{results.TABLE_LEGEND}", soft_wrap=True)
    if folder:
        console.print(f"Results: {path}", soft_wrap=True)


def _print_facts(console: Console, described: machine.Machine, missing: list[str]) -> None:
    for name, text in described.facts.items():
        console.print(f"{name:<22} {text}", soft_wrap=True, markup=False)
    for line in missing:
        console.print(line, soft_wrap=True, markup=False)


def _run_comparison(
    console: Console,
    peer_testbed: testbed.PeerTestbed,
    peers: list[binaries.Binary],
    name: str,
    rounds: int,
    seconds: int,
) -> comparison.ComparisonResult:
    spec = ROWS[name](peer_testbed, peers, seconds)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, refresh_per_second=1) as progress:
        task = progress.add_task(name, total=spec.count_runs(rounds))
        completed = -1

        def report_step(description: str) -> None:
            nonlocal completed
            completed += 1
            progress.update(task, description=description, completed=completed)

        result = comparison.run_comparison(spec, rounds, report_step)
    results.print_comparison(console, result)
    return result


if __name__ == "__main__":
    main()
