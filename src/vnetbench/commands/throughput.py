"""The command `throughput`: search a throughput without a study file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console

from vnetbench.commands import exit_codes
from vnetbench.results.records import INTERRUPTED
from vnetbench.study.factors.frame_factors import FRAME_SIZE
from vnetbench.study.factors.guest_factors import ADAPTER, GUEST_ROLE
from vnetbench.study.factors.load_factors import DIRECTION
from vnetbench.study.factors.testbed_factors import VSWITCH

DEFAULT_STUDY_TOML = """\
title = "Throughput"
question = "At which rate do frames pass?"
workload = "frames"

[factors]
frame_size = 64

[search]
time_limit = "60 s"

[precision]
min_trials = 1
max_trials = 1
"""
"""The default study. Options change it as `--set` does."""

_FACTOR_OPTIONS = (VSWITCH, ADAPTER, GUEST_ROLE, DIRECTION, FRAME_SIZE)
_SEARCH_OPTIONS = ("loss", "method", "width", "trial", "time_limit")


@click.command()
@click.option(
    "--vswitch", metavar="LEVELS", help="Device between two namespaces: bridge, router, openvswitch, …"
)
@click.option(
    "--adapter",
    metavar="LEVELS",
    help="Adapter of a guest that forwards frames: vmxnet3, virtio-net, e1000e, …",
)
@click.option("--role", metavar="LEVELS", help="Role of this guest: router or bridge.  [default: router]")
@click.option(
    "--frame-size", metavar="LEVELS", help='Frame sizes in bytes with FCS, or imix: "64,1518".  [default: 64]'
)
@click.option("--direction", metavar="LEVELS", help="forward, reverse or both.  [default: forward]")
@click.option(
    "--loss", metavar="SHARES", help='Accepted frame loss, one or more: "0 %, 0.5 %".  [default: 0 %]'
)
@click.option("--method", help="Search method: vnetbench, rfc2544 or mlrsearch.  [default: vnetbench]")
@click.option("--width", metavar="SHARE", help="Width of the result's interval.  [default: 1 %]")
@click.option("--trial", metavar="DURATION", help="Length of a full step.  [default: 1 s]")
@click.option("--time-limit", metavar="DURATION", help="Limit of all steps of a search.  [default: 60 s]")
@click.option(
    "--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="Searches per frame size."
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=LEVELS",
    help="Any other setting of a study. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Results file to keep.  [default: none]",
)
def throughput(repeat: int, overrides: Sequence[str], output: Path | None, **options: str | None) -> int:
    """Search the throughput of a device: the highest rate without frame loss (RFC 2544).

    The device is a virtual switch between two namespaces, or a guest that forwards frames. At the time limit
    or on Ctrl-C, you get the estimate so far with its interval.
    """
    all_overrides = [*_format_overrides(repeat, options), *overrides]
    console = Console(highlight=False, emoji=False)
    with ExitStack() as stack:

        @cache
        def output_path() -> Path:
            if output is not None:
                return output
            return Path(stack.enter_context(TemporaryDirectory(prefix="vnetbench-"))) / "throughput.vnb"

        return _run_search(all_overrides, output_path, console, keeps_results_file=output is not None)


def _format_overrides(repeat: int, options: dict[str, str | None]) -> list[str]:
    """Return the options as `--set` arguments."""
    overrides = []
    if options[ADAPTER.name]:
        overrides.append("testbed.lab=qemu")
        options = {**options, GUEST_ROLE.name: options[GUEST_ROLE.name] or "router"}
    overrides += [
        f"{factor.name}={options[factor.name]}" for factor in _FACTOR_OPTIONS if options[factor.name]
    ]
    overrides += [f"search.{name}={options[name]}" for name in _SEARCH_OPTIONS if options[name]]
    if repeat > 1:
        overrides += [f"precision.min_trials={repeat}", f"precision.max_trials={repeat}"]
    return overrides


def _run_search(
    overrides: Sequence[str], output_path: Callable[[], Path], console: Console, *, keeps_results_file: bool
) -> int:
    from vnetbench.commands.campaign import run_study
    from vnetbench.commands.summaries import read_summary_without_experiments
    from vnetbench.report.tables.text_table import TrimmedLines
    from vnetbench.report.tables.throughput_table import throughput_table
    from vnetbench.study.file.load import parse_study

    status = run_study(parse_study(DEFAULT_STUDY_TOML, None, overrides), output_path, None, console)
    path = output_path()
    summary = read_summary_without_experiments(path)
    console.print(TrimmedLines(throughput_table(summary)))
    if keeps_results_file:
        click.echo(f"\nResults: {path}\n  Report:    vnetbench report {path}")
    if status == INTERRUPTED:
        if keeps_results_file:
            click.echo(f"  Continue:  vnetbench resume {path}")
        return exit_codes.INTERRUPTED
    return (
        0 if any(treatment.trial_count for treatment in summary.treatments) else exit_codes.NOTHING_MEASURED
    )
