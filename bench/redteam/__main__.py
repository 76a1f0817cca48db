"""The red-team corpus: `python -m bench.redteam list|run|score|clean`."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import click

from bench.redteam import campaign, diagnosis, groups, journal, scoring, unknown_causes
from bench.redteam.corpus import BY_ID, CAUSES
from bench.redteam.model import DEVELOPMENT, ORDERED_PARTS, PARTS, UNSEEN_PARTS
from bench.redteam.runner import VNETBENCH
from bench.redteam.target import testbed_namespaces
from bench.terminal import exit_on_sigterm

DEFAULT_STORE = Path("out/redteam")
REPORTED_PARTS = click.Choice(PARTS)
STORE_OPTION = click.option(
    "--store", default=DEFAULT_STORE, show_default=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results files and their labels.",
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run loads with causes injected from outside, and score the explanations."""


@main.command("list")
@click.option("--part", default=DEVELOPMENT, show_default=True, type=REPORTED_PARTS)
def list_causes(part: str) -> None:
    """List the causes of a part."""
    chosen = [cause for cause in CAUSES if cause.part == part]
    for cause in chosen:
        values = ", ".join(map(str, cause.intensities))
        click.echo(f"{cause.id:26} {cause.family:12} {cause.description} [{values}]")
        click.echo(f"{'':26} {'':12} by {cause.method}; accepted: {', '.join(cause.accepted)}")
    faults = sum(not cause.is_control for cause in chosen)
    click.echo(f"{faults} causes and {len(chosen) - faults} controls of {len(CAUSES)} in all parts")


@main.command()
@click.option("--part", default=DEVELOPMENT, show_default=True, type=REPORTED_PARTS)
@click.option("--minutes", default=30.0, show_default=True, help="Time limit.")
@click.option(
    "--seed", default=1, show_default=True,
    help=f"Seed of the order. These parts have a fixed order: {', '.join(ORDERED_PARTS)}.",
)  # fmt: skip
@click.option("--shapes", help="CPUs of the machine, such as 1,2,2-busy. Default: all that it has.")
@click.option("--cause", "only", multiple=True, help="Only this cause. Repeatable.")
@click.option("--lab", default="netns", show_default=True, type=click.Choice(("netns", "qemu")))
@click.option("--diagnose", is_flag=True, help="Also run the interventions of each run: 60 s more each.")
@STORE_OPTION
def run(
    part: str,
    minutes: float,
    seed: int,
    shapes: str | None,
    only: tuple[str, ...],
    lab: str,
    diagnose: bool,
    store: Path,
) -> None:
    """Run causes in a balanced random order. The command continues where it stopped."""
    exit_on_sigterm()
    if unknown := [name for name in only if name not in BY_ID]:
        raise click.UsageError(f"unknown causes: {', '.join(unknown)}")
    if wrong := [name for name in only if BY_ID[name].part != part]:
        raise click.UsageError(f"not in the part {part}: {', '.join(wrong)}")
    if testbed_namespaces():
        raise click.ClickException("a testbed exists already: run this under tools/in-lab")
    try:
        chosen_shapes = campaign.available_shapes(shapes)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _clean()
    deadline = time.monotonic() + 60 * minutes
    runs = campaign.Campaign(store, part, _reporter(part), deadline, diagnose=diagnose)
    for block in campaign.make_blocks(part, chosen_shapes, seed, only, lab):
        if not runs.run_block(block):
            click.echo("time limit")
            break
    else:
        click.echo("all runs of the plan exist")


def _reporter(part: str) -> campaign.Report:
    """Return what prints a line for each run; unseen parts give no details."""
    if part in UNSEEN_PARTS:
        return lambda line: click.echo(".", nl=False)
    return click.echo


@main.command()
@click.option("--cause", "only", multiple=True, help="Only this cause. Repeatable.")
@click.option("--lab", default="netns", show_default=True, type=click.Choice(("netns", "qemu")))
@click.option("--shape", default="1", show_default=True, help="CPUs of the machine, such as 2.")
@click.option("--part", default=None, type=REPORTED_PARTS, help="Only causes of this part.")
@STORE_OPTION
def check(only: tuple[str, ...], lab: str, shape: str, part: str | None, store: Path) -> None:
    """Inject every cause once, at its strongest, for one trial. Nothing is explained.

    This shows which causes this kernel can have. It covers all parts, because it prints no explanation.
    """
    exit_on_sigterm()
    if testbed_namespaces():
        raise click.ClickException("a testbed exists already: run this under tools/in-lab")
    _clean()
    chosen = campaign.available_shapes(shape)[0]
    runs = campaign.Campaign(store, "check", click.echo, time.monotonic() + 3600, trials=1)
    for block in campaign.strongest_blocks(lab, chosen, only, part):
        runs.run_block(block)


@main.command()
@click.option("--part", default=DEVELOPMENT, show_default=True, type=REPORTED_PARTS)
@click.option("--final", is_flag=True, help="Score a part that nobody has seen. After that it is seen.")
@click.option("--details", is_flag=True, help="Print a line for each run.")
@click.option("--with-disturbed", is_flag=True, help="Also score runs that other work disturbed.")
@click.option("--unknown", is_flag=True, help="Score as if no rule existed for the cause of each run.")
@STORE_OPTION
def score(part: str, final: bool, details: bool, with_disturbed: bool, unknown: bool, store: Path) -> None:
    """Explain the runs of a part and print how often the explanations are right.

    Runs with --diagnose are scored twice, by their counters only and with their interventions.
    """
    folder = store / part
    labels = campaign.read_labels(folder) if folder.exists() else []
    if part in UNSEEN_PARTS and not final:
        click.echo(f"{len(labels)} {part} runs. Their scores need --final.")
        return
    if unknown:
        lines = unknown_causes.format_scores(
            unknown_causes.judge_runs(folder, labels, with_disturbed), details
        )
    elif diagnosed := [label for label in labels if label.is_diagnosed]:
        if len(diagnosed) < len(labels):
            click.echo(f"{len(labels) - len(diagnosed)} runs without --diagnose are left out")
        lines = diagnosis.format_diagnosis(diagnosis.judge_runs(folder, diagnosed, with_disturbed), details)
    else:
        lines = scoring.format_scores(scoring.judge_runs(folder, labels, with_disturbed), details)
    for line in lines:
        click.echo(line)


@main.command()
def clean() -> None:
    """Remove what a killed run left behind."""
    for line in _clean():
        click.echo(line)


def _clean() -> list[str]:
    lines = [f"restored {line}" for line in journal.restore_leftovers()]
    lines += [f"removed {path}" for path in groups.remove_leftovers()]
    for path in Path("/run/netns").glob("redteam-*"):
        subprocess.run(["ip", "netns", "delete", path.name], check=True)
        lines.append(f"removed the namespace {path.name}")
    for path in Path("/var/tmp").glob("vnetbench-redteam-*-*"):
        if not Path("/proc", path.name.split("-")[2]).exists():
            path.unlink()
            lines.append(f"removed {path}")
    subprocess.run([*VNETBENCH, "lab", "clean"], capture_output=True, check=False)
    return lines


if __name__ == "__main__":
    main()
