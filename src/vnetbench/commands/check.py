"""The command `check`: measure the path between two ends, explain it, and say what to do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vnetbench.commands import exit_codes
from vnetbench.errors import BenchError

if TYPE_CHECKING:
    from rich.console import Console

    from vnetbench.check.parts import Part
    from vnetbench.check.result import CheckRequest, CheckResult
    from vnetbench.commands.check_campaigns import PartsOutcome

_MIN_RATE_BPS = 10**7
_MIN_S_IN_MINUTES = 100
_FILE_TYPE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("ends", nargs=-1, metavar="[A] [B]")
@click.option("--quick", "depth", flag_value="quick", help="Measure for about 20 s.")
@click.option("--thorough", "depth", flag_value="thorough", help="Measure for up to 10 minutes.")
@click.option(
    "-o", "--output", type=_FILE_TYPE,
    help="Results file to keep: FILE.vnb, and beside it FILE.latency.vnb and FILE.packets.vnb.",
)  # fmt: skip
@click.option("--report", "page", type=_FILE_TYPE, help="Also write the results as one HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (see docs/check.md).")
@click.option(
    "--require",
    "expressions",
    multiple=True,
    metavar="EXPRESSION",
    help="Requirement, such as 'goodput >= 9 Gbit/s'. Exit with 3 if it is missed, and with 5 if it is "
    "undecided. Repeatable.",
)
@click.option(
    "--lab",
    type=click.Choice(["netns", "qemu"]),
    help="Lab to check without ends: two namespaces (the default), or two QEMU guests.",
)
@click.option("--max-rate", metavar="RATE", help="Limit of the load in each direction: '1 Gbit/s'.")
@click.option("--yes", is_flag=True, help="Load the path without asking.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=LEVEL",
    help="A factor of the path, as `run` takes it: mtu=9000, link_rate='1 Gbit/s'. Repeatable.",
)
def check(
    ends: Sequence[str],
    depth: str | None,
    output: Path | None,
    page: Path | None,
    as_json: bool,
    expressions: Sequence[str],
    lab: str | None,
    max_rate: str | None,
    yes: bool,
    overrides: Sequence[str],
) -> int:
    """Measure the path between two ends, and say what limits it and what to do.

    An end is `local` (this machine), an SSH name (web-01), or an iperf3 server (iperf3://HOST[:PORT]). With
    one end, this machine is the other one. Without ends, or with `local` alone, the path is a lab of two
    network namespaces on this machine, or of two guests with --lab qemu.
    """
    from rich.console import Console

    from vnetbench.check.ends import parse_path
    from vnetbench.check.parts import make_parts
    from vnetbench.check.requirements import parse_requirement
    from vnetbench.check.result import CheckRequest
    from vnetbench.commands.check_campaigns import terminate_as_interrupt

    path = parse_path(ends, lab)
    max_rate_bps = _parse_max_rate(max_rate)
    requirements = [parse_requirement(each, path) for each in expressions]
    request = CheckRequest(path, depth or "normal", max_rate_bps, requirements, tuple(overrides), yes)
    parts = make_parts(path, request.depth, max_rate_bps, overrides)
    if page is not None and not page.parent.is_dir():
        raise BenchError(
            "this folder does not exist", where=str(page.parent), fix="create it, or choose another --report"
        )
    console = Console(highlight=False, emoji=False, stderr=as_json)
    with terminate_as_interrupt():
        _prepare_path(request, parts, console)
        with _output_path(output) as results:
            result, is_interrupted = _measure(request, parts, results, console, is_kept=output is not None)
            if page is not None:
                _write_page(result, results, parts, page)
                console.print(f"Page: {page}", markup=False, soft_wrap=True)
    _print_result(result, as_json=as_json)
    return _exit_code(result, is_interrupted=is_interrupted)


def _parse_max_rate(text: str | None) -> int | None:
    from vnetbench.quantity import parse_bit_rate

    if text is None:
        return None
    try:
        rate_bps = parse_bit_rate(text)
    except BenchError as error:
        raise BenchError(error.what, where="--max-rate", fix=error.fix) from error
    if rate_bps < _MIN_RATE_BPS:
        raise BenchError("the rate is too low to measure", where="--max-rate", fix="write at least 10 Mbit/s")
    return rate_bps


def _prepare_path(request: CheckRequest, parts: Sequence[Part], console: Console) -> None:
    """Get the rights for a lab, or warn before the load of a path that others use; raises BenchError."""
    from vnetbench.commands.campaign import print_user_namespace_limits
    from vnetbench.lab import privilege
    from vnetbench.quantity import format_bit_rate, format_duration
    from vnetbench.study.labs import NETNS

    path = request.path
    if path.is_own_lab:
        if path.lab == NETNS:
            # Without root this restarts the process, so nothing may exist yet.
            privilege.acquire_network_rights()
            print_user_namespace_limits(console)
        return
    rate = (
        "as fast as it can" if request.max_rate_bps is None else f"at {format_bit_rate(request.max_rate_bps)}"
    )
    seconds = sum(part.max_duration_s for part in parts)
    longest = f"{seconds:.0f} s" if seconds < _MIN_S_IN_MINUTES else format_duration(seconds)
    console.print(
        f"This check sends data between {path.first.name} and {path.second.name} {rate}, in each direction, "
        f"for at most {longest}. Others on the path will notice.",
        markup=False,
    )
    if request.has_consent:
        return
    if not sys.stdin.isatty():
        raise BenchError(
            "the check needs your consent to load this path",
            fix="add --yes, and limit the load if others use the path: --max-rate '100 Mbit/s'",
        )
    click.confirm("Load this path?", default=False, abort=True, err=True)


@contextmanager
def _output_path(output: Path | None) -> Iterator[Path]:
    """Return the results file to keep, or a temporary one."""
    from vnetbench.commands.temporary_results import temporary_results_folder

    if output is not None:
        yield output
        return
    with temporary_results_folder() as folder:
        yield folder / "check.vnb"


def _measure(
    request: CheckRequest, parts: Sequence[Part], results: Path, console: Console, *, is_kept: bool
) -> tuple[CheckResult, bool]:
    """Run the parts, and return the result and whether the user interrupted them."""
    from vnetbench.check.result import build_result
    from vnetbench.check.settings_audit import audit_ends
    from vnetbench.commands.check_campaigns import plan_parts, run_parts
    from vnetbench.commands.summaries import read_summary_with_experiments

    planned = plan_parts(parts, results)
    audit = audit_ends(request.path)
    outcome = run_parts(planned, console, audit)
    summaries = {part: read_summary_with_experiments(path) for part, path in outcome.paths_by_part.items()}
    notes = [*outcome.errors, *_interruption_notes(outcome, is_kept=is_kept)]
    result = build_result(
        request,
        summaries,
        outcome.paths_by_part if is_kept else {},
        audit,
        is_complete=outcome.is_complete,
        notes=notes,
    )
    return result, outcome.is_interrupted


def _interruption_notes(outcome: PartsOutcome, *, is_kept: bool) -> Iterator[str]:
    """Yield what an interruption left, and the command that continues the last part."""
    if not outcome.is_interrupted:
        return
    yield "The check was interrupted. Its finished measurements are above."
    if is_kept and outcome.paths_by_part:
        part, path = list(outcome.paths_by_part.items())[-1]
        yield f"Continue the part {part}:  {shlex.join(['vnetbench', 'resume', str(path)])}"


def _write_page(result: CheckResult, results: Path, parts: Sequence[Part], page: Path) -> None:
    from vnetbench.check.page import make_preface
    from vnetbench.commands.summaries import read_summary_with_experiments
    from vnetbench.report.page.html import write_html

    paths = [path for part in parts if (path := part.results_path(results)).exists()]
    write_html([read_summary_with_experiments(path) for path in paths], page, make_preface(result))


def _print_result(result: CheckResult, *, as_json: bool) -> None:
    if as_json:
        from vnetbench.check.json_document import check_json

        click.echo(check_json(result))
        return
    from rich.console import Console

    from vnetbench.check.text import CheckText
    from vnetbench.report.tables.text_table import TrimmedLines

    Console(highlight=False, emoji=False).print(TrimmedLines(CheckText(result)), crop=False)


def _exit_code(result: CheckResult, *, is_interrupted: bool) -> int:
    from vnetbench.check.requirements import MISSED, UNDECIDED

    if is_interrupted:
        return exit_codes.INTERRUPTED
    verdicts = {each.verdict for each in result.requirements}
    if MISSED in verdicts:
        return exit_codes.REQUIREMENT_MISSED
    if not result.is_complete or not result.measurements:
        return exit_codes.NOTHING_MEASURED
    return exit_codes.REQUIREMENT_UNDECIDED if UNDECIDED in verdicts else 0
