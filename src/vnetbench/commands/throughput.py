"""The command `throughput`: one answer without a study file, by a study that is made here."""

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

STUDY = """\
title = "Throughput"
question = "At which rate do frames pass?"
workload = "frames"

[factors]
frame_size = 64

[search]

[precision]
fewest_trials = 1
most_trials = 1
"""
"""What is asked where no option says otherwise; options change it as `--set` changes a study."""

_AS_FACTORS = ("vswitch", "adapter", "role", "direction", "frame_size")
_AS_SEARCH = ("loss", "method", "width", "trial")


@click.command()
@click.option("--vswitch", metavar="LEVELS", help="Between namespaces: bridge, router, openvswitch, …")
@click.option("--adapter", metavar="LEVELS", help="Of a guest that forwards: vmxnet3, virtio-net, e1000e, …")
@click.option("--role", metavar="LEVELS", help="What that guest does: router or bridge.  [default: router]")
@click.option("--frame-size", metavar="LEVELS", help='Bytes with FCS, or imix: "64,1518".  [default: 64]')
@click.option("--direction", metavar="LEVELS", help="forward, reverse or both.  [default: forward]")
@click.option(
    "--loss", metavar="SHARES", help='What may be lost, several at once: "0 %, 0.5 %".  [default: 0 %]'
)
@click.option("--method", help="vnetbench, rfc2544 or mlrsearch.  [default: vnetbench]")
@click.option("--width", metavar="SHARE", help="Of the answer's interval.  [default: 1 %]")
@click.option("--trial", metavar="DURATION", help="Length of a full step.  [default: 1 s]")
@click.option(
    "--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="Searches of each."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=LEVELS", help="Anything else that a study may say."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Results file to keep.  [default: none]",
)
def throughput(repeat: int, overrides: Sequence[str], output: Path | None, **options: str | None) -> int:
    """At which rate frames pass a device without loss: RFC 2544's throughput, searched.

    The device is a virtual switch between two namespaces, or a guest that forwards.
    """
    asked = [*_overrides(repeat, options), *overrides]
    console = Console(highlight=False)
    with ExitStack() as stack:

        @cache
        def place() -> Path:
            if output is not None:
                return output
            return Path(stack.enter_context(TemporaryDirectory(prefix="vnetbench-"))) / "throughput.vnb"

        return _answer(asked, place, console, is_kept=output is not None)


def _overrides(repeat: int, options: dict[str, str | None]) -> list[str]:
    """The options as `--set` arguments of the study."""
    found = []
    if options["adapter"]:
        found.append("testbed.lab=qemu")
        options = {**options, "role": options["role"] or "router"}
    found += [f"{name}={options[name]}" for name in _AS_FACTORS if options[name]]
    found += [f"search.{name}={options[name]}" for name in _AS_SEARCH if options[name]]
    if repeat > 1:
        found += [f"precision.fewest_trials={repeat}", f"precision.most_trials={repeat}"]
    return found


def _answer(overrides: Sequence[str], place: Callable[[], Path], console: Console, *, is_kept: bool) -> int:
    from vnetbench.commands.campaign import begin_study
    from vnetbench.estimate.summarize import summarize
    from vnetbench.report.tables.text_table import Unpadded
    from vnetbench.report.tables.throughput_table import throughput_answer
    from vnetbench.results.file import ResultsFile
    from vnetbench.study.file.load import parse_study

    status = begin_study(parse_study(STUDY, None, overrides), place, None, console)
    path = place()
    file = ResultsFile.open_to_read(path)
    try:
        summary = summarize(file)
    finally:
        file.close()
    console.print(Unpadded(throughput_answer(summary)))
    if is_kept:
        click.echo(f"\nresults: {path}\n  the page:  vnetbench report {path}")
    if status == INTERRUPTED:
        if is_kept:
            click.echo(f"  go on:  vnetbench resume {path}")
        return exit_codes.INTERRUPTED
    return 0 if any(treatment.trials for treatment in summary.treatments) else exit_codes.NOTHING_MEASURED
