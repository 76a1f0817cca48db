"""The commands: what each takes and prints. The work is done by the stages that they call.

A command imports the stages that it needs when it runs, and one with a file of its own is imported when
it is asked for: the statistics alone take a second to load, and what builds networks half of one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console, RenderableType

from vnetbench import __version__
from vnetbench.commands import exit_codes
from vnetbench.errors import BenchError
from vnetbench.quantity import parse_share
from vnetbench.results.records import INTERRUPTED
from vnetbench.study.plan import SEED_BITS

if TYPE_CHECKING:
    from vnetbench.estimate.summary import CampaignSummary

RESULTS = click.Path(path_type=Path, dir_okay=False)
_IN_FILES = ("explain", "guest", "import", "iperf3", "lab", "reference", "throughput")
"""Commands that have a file of their own in `commands/`."""


class _Commands(click.Group):
    """Those of this file, and those of files that are imported when somebody asks for them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *_IN_FILES))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _IN_FILES:
            return super().get_command(ctx, cmd_name)
        name = "import_" if cmd_name == "import" else cmd_name
        command: click.Command = getattr(import_module(f"vnetbench.commands.{name}"), name)
        return command


def main() -> NoReturn:
    """Run the command line; every error that a person can mend ends here, in words."""
    try:
        code = cli.main(standalone_mode=False, prog_name="vnetbench")
    except BenchError as error:
        _complain(str(error))
        code = exit_codes.BAD_INPUT
    except click.ClickException as error:
        error.show()
        code = exit_codes.BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        code = exit_codes.INTERRUPTED
    except BrokenPipeError:
        # Who read our output has left (`| head`): nothing to say, and nobody to say it to.
        sys.stderr.close()
        code = 0
    except OSError as error:
        _complain(
            f"{error.filename or 'the output'}: {error.strerror}\n  fix: make room, or name another place"
        )
        code = exit_codes.BAD_INPUT
    sys.exit(code if isinstance(code, int) else 0)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="vnetbench")
def cli() -> None:
    """The test bench for virtual networks."""


@cli.command()
@click.argument("study", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=RESULTS, help="Results file to make.  [default: the study's name, .vnb]")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=LEVELS",
    help="Other levels for a factor (streams=1,4), or another setting (precision.time_limit=60s).",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**SEED_BITS - 1), help="Order the blocks as a former campaign did."
)
def run(study: Path, output: Path | None, overrides: Sequence[str], seed: int | None) -> int:  # fmt: skip
    """Measure what STUDY asks, and leave one results file.

    Ctrl-C finishes the trial at work (of a search the step) and leaves; a second Ctrl-C leaves at once.
    `resume` goes on.
    """
    from vnetbench.commands.campaign import begin

    path = output or Path(f"{study.stem}.vnb")
    return _conclude(path, begin(study, path, overrides, seed, _console()))


@cli.command()
@click.argument("results", type=RESULTS)
def resume(results: Path) -> int:
    """Go on with a campaign that was interrupted: by Ctrl-C, a kill, a reboot, a full disk."""
    from vnetbench.commands.campaign import go_on

    return _conclude(results, go_on(results, _console()))


@cli.command()
@click.argument("results", type=RESULTS)
@click.option("--json", "form", flag_value="json", help="For a program; documented in docs/show-json.md.")
@click.option("--csv", "form", flag_value="csv", help="A line for each treatment.")
@click.option("--markdown", "form", flag_value="markdown", help="A table to paste.")
def show(results: Path, form: str | None) -> None:
    """Show the estimates of a results file."""
    _show(_summary(results), form)


def _show(summary: CampaignSummary, form: str | None) -> None:
    if form is None:
        from vnetbench.report.tables.reference_table import reference_table

        if summary.reference:
            _print(reference_table(summary))
        else:
            _print_all(summary)
        return
    from vnetbench.report.export import campaign_export

    text = {
        "json": campaign_export.as_json, "csv": campaign_export.as_csv, "markdown": campaign_export.as_markdown,
    }[form](summary)  # fmt: skip
    click.echo(text, nl=not text.endswith("\n"))


@cli.command()
@click.argument("results", type=RESULTS, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=RESULTS,
    help="Page to write.  [default: the results file's name, .html; of several report.html]",
)
@click.option(
    "--png",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the charts, those of findings too, alone here.",
)
def report(results: tuple[Path, ...], output: Path | None, png: Path | None) -> None:
    """Write one page that answers the study's question: self-contained, for any browser, offline.

    Several RESULTS come onto one page, first side by side where their treatments share factors.
    """
    summaries = [_summary(path) for path in results]
    if png is not None:
        from vnetbench.report.charts.campaign_charts import write_pngs

        for path in write_pngs(summaries, png):
            click.echo(path)
    if output is not None or png is None:
        from vnetbench.report.page.html import write_html

        page = output or _page_of(results)
        write_html(summaries, page)
        click.echo(page)


@cli.command()
@click.argument("before", type=RESULTS)
@click.argument("after", type=RESULTS)
@click.option(
    "--fail-if-worse",
    metavar="SHARE",
    help="Exit with 3 when the deciding metric surely got worse by more than this, e.g. 5%.",
)
def compare(before: Path, after: Path, fail_if_worse: str | None) -> int:
    """What changed between two campaigns: ratios with intervals, and what differs between the machines."""
    try:
        share = None if fail_if_worse is None else parse_share(fail_if_worse)
    except BenchError as error:
        raise BenchError(error.what, where="--fail-if-worse", fix=error.fix) from error
    from vnetbench.report.comparison import compare as compare_campaigns
    from vnetbench.report.comparison import comparison_table, worse_than
    from vnetbench.wording.factor_text import counted

    found = compare_campaigns(_summary(before), _summary(after))
    _print(comparison_table(found))
    if share is None:
        return 0
    if not found.changes:
        raise BenchError(
            "no treatment was measured in both, so nothing can be said to be worse",
            where=f"{before} and {after}",
            fix="compare campaigns of the same study",
        )
    if found.conditions:
        raise BenchError(
            "a published figure has no trials, so nothing can surely be worse than it",
            where=f"{before} and {after}",
            fix="take --fail-if-worse away, or compare two campaigns",
        )
    worse, lost = worse_than(found, share), found.lost
    if worse:
        click.echo(f"worse by more than {fail_if_worse}: {counted(len(worse), 'treatment')}")
    if lost:
        click.echo(f"measured before, and now refused or failed: {counted(len(lost), 'treatment')}")
    if not worse and not lost:
        click.echo(f"none is worse by {fail_if_worse}")
    return exit_codes.WORSE if worse or lost else 0


@cli.command("check-statements")
@click.argument("results", type=RESULTS, nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="For a program; documented in docs/statements.md.")
def check_statements(results: tuple[Path, ...], as_json: bool) -> None:
    """Which published statements RESULTS show, refute or cannot tell, and what would tell."""
    from vnetbench.report.tables import statements_table
    from vnetbench.statements.check import check

    checked = check([_summary(path) for path in results])
    if as_json:
        click.echo(statements_table.as_json(checked))
    else:
        _print(statements_table.statements_table(checked, len(results)))


@cli.command()
@click.option(
    "--iperf3", "server", metavar="SERVER", help="What can be measured with this iperf3 server instead."
)
@click.option("--ssh", "host", metavar="HOST", help="What can be measured on this host instead.")
def doctor(server: str | None, host: str | None) -> int:
    """What can be measured on this machine, what is missing, and how to get it."""
    if host is not None:
        from vnetbench.commands.doctor_host import examine_host

        return examine_host(_console(), host)
    from vnetbench.commands.doctor import examine, examine_server

    return examine(_console()) if server is None else examine_server(_console(), server)


def _page_of(results: Sequence[Path]) -> Path:
    """Where the page is written that nobody named: beside the results file, or here."""
    from vnetbench.estimate.published_reference import PREFIX

    first = str(results[0])
    if len(results) > 1:
        return Path("report.html")
    return (
        Path(f"{first.removeprefix(PREFIX)}.html")
        if first.startswith(PREFIX)
        else results[0].with_suffix(".html")
    )


def _conclude(path: Path, status: str) -> int:
    """Show what a session measured, and what to do next."""
    summary = _summary(path)
    _print_all(summary)
    if status == INTERRUPTED:
        click.echo(
            f"\ninterrupted; everything measured so far is in {path}\n  go on:  vnetbench resume {path}"
        )
        return exit_codes.INTERRUPTED
    click.echo(
        f"\nresults: {path}\n  why:       vnetbench explain {path}\n  the page:  vnetbench report {path}"
    )
    return 0 if any(t.trials for t in summary.treatments) else exit_codes.NOTHING_MEASURED


def _summary(path: Path) -> CampaignSummary:
    from vnetbench.commands.summaries import read_summary

    return read_summary(path)


def _print_all(summary: CampaignSummary) -> None:
    """The answer, the headlines of the findings, and the table."""
    from vnetbench.report.text.explanation_text import Headlines
    from vnetbench.report.text.narrative import story_of
    from vnetbench.report.tables.estimates_table import estimates_table

    _print(Headlines(story_of(summary).explanation), estimates_table(summary))


def _print(*parts: RenderableType) -> None:
    from vnetbench.report.tables.text_table import Unpadded

    for part in parts:
        _console().print(Unpadded(part))


def _console() -> Console:
    return Console(highlight=False)


def _complain(text: str) -> None:
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(f"vnetbench: {text}")
