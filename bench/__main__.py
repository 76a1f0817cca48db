"""The instrument beside its peers: `python -m bench` measures all, `python -m bench ROW…` what is named."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import binaries, machine, results
from bench import testbed
from bench import comparison
from bench.rows import ROWS
from vnetbench.agents.client import AgentError
from vnetbench.errors import BenchError
from vnetbench.lab.privilege import has_root, is_in_user_namespace

RESULTS = Path(__file__).parent / "results"
FEWEST_ROUNDS = 7
NARROWEST = 160
TERMINATED = 128 + signal.SIGTERM
"""The exit code when somebody ends it; what it built is removed first."""


@click.command()
@click.argument("names", metavar="[ROW]...", nargs=-1, type=click.Choice(list(ROWS)))
@click.option(
    "--rounds", default=FEWEST_ROUNDS, show_default=True, type=click.IntRange(1), help="Of each row."
)
@click.option("--seconds", default=1, show_default=True, type=click.IntRange(1), help="Load of one run.")
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    help="Folder for Markdown and JSON; of all rows these go to bench/results, of some nowhere without it.",
)  # fmt: skip
def main(names: tuple[str, ...], rounds: int, seconds: int, output: Path | None) -> None:
    """The instrument beside its peers, interleaved: all rows, or those named."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=max(NARROWEST, console.width))
    folder = output or (None if names else RESULTS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        if not (has_root() or is_in_user_namespace()):
            raise BenchError("this builds networks", fix="run as root, or: tools/in-lab python -m bench")
        peers, missing = binaries.find()
        with testbed.create_peer_testbed() as raised:
            found = machine.look(raised.observer, peers)
            _introduce(console, found, missing)
            outcomes: list[comparison.ComparisonResult] = []
            for name in names or tuple(ROWS):
                outcomes.append(_measure(console, raised, peers, name, rounds, seconds))
                if folder:  # after each row: what ends the bench early costs the rest only
                    written = results.save(folder, found, outcomes, missing, seconds)
    except (BenchError, AgentError) as error:
        click.echo(f"{error}", err=True)
        sys.exit(1)
    console.print(f"\n{results.HOW_TO_READ}", soft_wrap=True)
    if folder:
        console.print(f"written: {written}", soft_wrap=True)


def _introduce(console: Console, found: machine.Machine, missing: list[str]) -> None:
    for what, fact in found.facts.items():
        console.print(f"{what:<22} {fact}", soft_wrap=True, markup=False)
    for line in missing:
        console.print(line, soft_wrap=True, markup=False)


def _measure(
    console: Console,
    raised: testbed.PeerTestbed,
    peers: list[binaries.Binary],
    name: str,
    rounds: int,
    seconds: int,
) -> comparison.ComparisonResult:
    row = ROWS[name](raised, peers, seconds)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=row.count_runs(rounds))
        begun = -1

        def step(what: str) -> None:
            nonlocal begun
            begun += 1
            progress.update(task, description=what, completed=begun)

        outcome = comparison.run_comparison(row, rounds, step)
    results.print_row(console, outcome)
    return outcome


if __name__ == "__main__":
    main()
