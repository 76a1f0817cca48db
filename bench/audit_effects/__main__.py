"""Measures the effects of faults: `tools/in-lab python -m bench.audit_effects [RULE]...`.

The campaigns stay in a folder, so a bench that was interrupted continues where it was. Run it as root.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from bench.audit_effects.cases import CASES
from bench.audit_effects.measure import EffectNotMeasured, MeasuredEffect, measure_effect
from bench.audit_effects.results import save_results
from bench.terminal import exit_on_sigterm

FOLDER = Path("out/audit-effects")
RESULTS = Path(__file__).parents[1] / "results"
_RULES = [case.rule for case in CASES]


@click.command()
@click.argument("rules", metavar="[RULE]...", nargs=-1, type=click.Choice(_RULES))
@click.option(
    "--folder", default=FOLDER, show_default=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the campaigns. Remove it to measure everything again.",
)  # fmt: skip
@click.option("--note", default="", help="A sentence about the machine for the results, such as other load.")
@click.option("--dry-run", is_flag=True, help="Print the effects, and write no results.")
def main(rules: tuple[str, ...], folder: Path, note: str, dry_run: bool) -> None:
    """Measure the goodput with and without the fault of each RULE (default: all), and write the results."""
    exit_on_sigterm()
    folder.mkdir(parents=True, exist_ok=True)
    effects: list[MeasuredEffect] = []
    failures: dict[str, str] = {}
    with _lock(folder):
        for case in CASES:
            if rules and case.rule not in rules:
                continue
            try:
                effects.append(measure_effect(case, folder.resolve()))
                click.echo(f"{case.rule}: {effects[-1].ratio_text}")
            except EffectNotMeasured as error:
                failures[case.rule] = str(error)
                click.echo(f"{case.rule}: not measured: {error}")
    if effects and not dry_run:
        click.echo(f"Results: {save_results(RESULTS, effects, failures, note)}")
    sys.exit(1 if failures else 0)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let only one bench use the folder."""
    path = folder / "lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(f"another bench uses {folder}: set --folder") from None
        yield


if __name__ == "__main__":
    main()
