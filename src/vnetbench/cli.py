"""The command line: options and output of each command.

Commands import the stages that they call only when they run. The statistics libraries take a second to
load, the network libraries half a second, and rich a tenth.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from vnetbench import __version__
from vnetbench.commands import exit_codes
from vnetbench.commands.output_streams import discard_output_to_closed_pipes
from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.results.records import FINISHED, INTERRUPTED, CampaignStatus
from vnetbench.study.plan import SEED_BITS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from vnetbench.estimate.summary import CampaignSummary

RESULTS_FILE_TYPE = click.Path(path_type=Path, dir_okay=False)
_LAZY_COMMANDS = {
    "audit": "audit.audit",
    "check": "check.check",
    "explain": "explain.explain",
    "guest": "guest.guest_group",
    "import": "import_.import_",
    "iperf3": "iperf3.iperf3_group",
    "lab": "lab.lab_group",
    "reference": "reference.reference_group",
    "team": "team.team_group",
    "throughput": "throughput.throughput",
}
"""Commands that are defined in a file of their own in `commands/`: module and function by command name."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _LazyGroup(click.Group):
    """A command group that imports the commands in `_LAZY_COMMANDS` on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted((*super().list_commands(ctx), *_LAZY_COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None."""
        if cmd_name not in _LAZY_COMMANDS:
            return super().get_command(ctx, cmd_name)
        module_name, function_name = _LAZY_COMMANDS[cmd_name].split(".")
        command: click.Command = getattr(import_module(f"vnetbench.commands.{module_name}"), function_name)
        return command


def main() -> NoReturn:
    """Run the command line, print user errors and exit."""
    discard_output_to_closed_pipes()
    try:
        code = cli.main(standalone_mode=False, prog_name="vnetbench")
        sys.stdout.flush()
    except BenchError as error:
        _print_error(str(error))
        code = exit_codes.BAD_INPUT
    except click.ClickException as error:
        error.show()
        code = exit_codes.BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        code = exit_codes.INTERRUPTED
    except OSError as error:
        fix = "free disk space, or choose another path" if error.errno in _NO_SPACE else "choose another path"
        _print_error(f"cannot use {error.filename or 'the output'}: {error.strerror}\n  fix: {fix}")
        code = exit_codes.BAD_INPUT
    sys.exit(code if isinstance(code, int) else 0)


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="vnetbench")
def cli() -> None:
    """Test bench for virtual networks."""


@cli.command()
@click.argument("study", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=RESULTS_FILE_TYPE, help="Results file to create.  [default: STUDY with .vnb]"
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=LEVELS",
    help="Override a factor's levels (streams=1,4) or a setting (precision.time_limit=60s). Repeatable.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**SEED_BITS - 1),
    help="Seed of the trial order. Use the seed of an earlier campaign to repeat its order.",
)
@click.option(
    "--diagnose",
    is_flag=True,
    help="After the campaign, change one thing at a time for up to 60 s, to measure what limits the result.",
)
@click.option(
    "--treatment",
    "diagnosed",
    metavar="LEVELS",
    help="Treatment that --diagnose changes, by levels (streams=4) or index.  [default: that of the answer]",
)
@click.option("--plan", "is_plan_only", is_flag=True, help="Only print what would change on which machine.")
@click.option("--no-audit", is_flag=True, help="Leave out the audit of both ends' settings (hosts, qemu).")
def run(
    study: Path,
    output: Path | None,
    overrides: Sequence[str],
    seed: int | None,
    diagnose: bool,
    diagnosed: str | None,
    is_plan_only: bool,
    no_audit: bool,
) -> int:
    """Run the study file STUDY and write one results file.

    Ctrl-C finishes the current trial (in a search: the current step) and stops. A second Ctrl-C stops
    immediately. Use `resume` to continue.
    """
    from vnetbench.commands.campaign import start_campaign

    if diagnosed is not None and not diagnose:
        raise BenchError("--treatment needs --diagnose", fix="add --diagnose, or remove --treatment")
    path = output or Path(f"{study.stem}.vnb")
    overrides = (*overrides, "testbed.audit=false") if no_audit else overrides
    if is_plan_only:
        from vnetbench.commands.planned_changes import print_plan

        print_plan(study, overrides, seed, _make_console())
        return 0
    status = start_campaign(study, path, overrides, seed, _make_console())
    if diagnose and status == FINISHED:
        from vnetbench.commands.proof import run_diagnosis_experiments

        run_diagnosis_experiments(path, diagnosed, _make_console())
    return _print_session_results(path, status)


@cli.command()
@click.argument("results", type=RESULTS_FILE_TYPE)
def resume(results: Path) -> int:
    """Continue an interrupted campaign, for example after Ctrl-C, a crash, a reboot or a full disk."""
    from vnetbench.commands.campaign import resume_campaign

    return _print_session_results(results, resume_campaign(results, _make_console()))


@cli.command()
@click.argument("results", type=RESULTS_FILE_TYPE)
@click.option("--json", "output_format", flag_value="json", help="Print JSON (see docs/show-json.md).")
@click.option("--csv", "output_format", flag_value="csv", help="Print CSV, one line per treatment.")
@click.option("--markdown", "output_format", flag_value="markdown", help="Print a Markdown table.")
def show(results: Path, output_format: str | None) -> None:
    """Show the estimates of a results file."""
    _print_estimates(_load_summary(results), output_format)


def _print_estimates(summary: CampaignSummary, output_format: str | None) -> None:
    if output_format is None:
        from vnetbench.report.tables.reference_table import published_values_table

        if summary.represented_table:
            _print_renderables(published_values_table(summary))
        else:
            _print_headlines_and_estimates(summary)
        return
    from vnetbench.report.export.campaign_csv import campaign_csv
    from vnetbench.report.export.campaign_json import campaign_json
    from vnetbench.report.export.markdown import campaign_markdown

    text = {
        "json": campaign_json,
        "csv": campaign_csv,
        "markdown": campaign_markdown,
    }[output_format](summary)
    click.echo(text, nl=not text.endswith("\n"))


@cli.command()
@click.argument("results", type=RESULTS_FILE_TYPE, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=RESULTS_FILE_TYPE,
    help="HTML page to write.  [default: RESULTS with .html; report.html for several files]",
)
@click.option(
    "--png",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write all charts as PNG files into this folder. Without -o, write no page.",
)
def report(results: tuple[Path, ...], output: Path | None, png: Path | None) -> None:
    """Write one self-contained HTML page that answers the study's question.

    With several RESULTS, the page starts with a comparison of the treatments that share factors.
    """
    summaries = [_load_summary(path) for path in results]
    if png is not None:
        from vnetbench.report.charts.image_files import write_pngs

        for path in write_pngs(summaries, png):
            click.echo(path)
    if output is not None or png is None:
        from vnetbench.report.page.html import write_html

        page = output or _default_page_path(results)
        write_html(summaries, page)
        click.echo(page)


@cli.command()
@click.argument("before", type=RESULTS_FILE_TYPE)
@click.argument("after", type=RESULTS_FILE_TYPE)
@click.option(
    "--fail-if-worse",
    metavar="SHARE",
    help="Exit with 3 if the deciding metric is significantly worse and its ratio is worse by more than"
    " SHARE, for example 5%, or if a treatment that was measured before now is refused or fails.",
)
def compare(before: Path, after: Path, fail_if_worse: str | None) -> int:
    """Compare two campaigns: ratios with intervals, and differences between the machines."""
    from vnetbench.quantity import parse_share

    try:
        share = None if fail_if_worse is None else parse_share(fail_if_worse)
    except BenchError as error:
        raise BenchError(error.what, where="--fail-if-worse", fix=error.fix) from error
    from vnetbench.quantity import format_count_with_noun
    from vnetbench.report.comparison import compare_campaigns, find_worsened_metrics
    from vnetbench.report.tables.comparison_table import comparison_table

    comparison = compare_campaigns(_load_summary(before), _load_summary(after))
    _print_renderables(comparison_table(comparison))
    if share is None:
        return 0
    worse, lost = (
        find_worsened_metrics(comparison, share),
        comparison.measured_before_but_refused_or_failed_after,
    )
    if not comparison.changes and not lost:
        raise BenchError(
            "no treatment has a ratio in the two campaigns, so --fail-if-worse cannot decide",
            where=f"{before} and {after}",
            fix="compare two campaigns of the same study that both measured its deciding metric",
        )
    if comparison.published_table_conditions:
        raise BenchError(
            "a published result has no trials, so --fail-if-worse cannot test significance against it",
            where=f"{before} and {after}",
            fix="remove --fail-if-worse, or compare two campaigns",
        )
    if worse:
        click.echo(f"Worse by more than {fail_if_worse}: {format_count_with_noun(len(worse), 'treatment')}.")
    if lost:
        lost_text = format_count_with_noun(len(lost), "treatment")
        click.echo(f"Measured in {before} but refused or failed in {after}: {lost_text}.")
    if not worse and not lost:
        click.echo(f"No treatment is worse by more than {fail_if_worse}.")
    return exit_codes.COMPARISON_WORSE if worse or lost else 0


@cli.command("check-statements")
@click.argument("results", type=RESULTS_FILE_TYPE, nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (see docs/statements.md).")
def check_statements(results: tuple[Path, ...], as_json: bool) -> None:
    """Check published statements against your RESULTS, and list the measurements that are missing."""
    from vnetbench.report.export.statements_json import statements_json
    from vnetbench.report.tables.statements_table import statements_table
    from vnetbench.statements.check import check_statements

    checked = check_statements([_load_summary(path) for path in results])
    if as_json:
        click.echo(statements_json(checked))
    else:
        _print_renderables(statements_table(checked, len(results)))


@cli.command()
@click.option(
    "--iperf3", "server", metavar="SERVER", help="Check this iperf3 server instead of this machine."
)
@click.option("--ssh", "host", metavar="HOST", help="Check this host over SSH instead of this machine.")
def doctor(server: str | None, host: str | None) -> int:
    """Check what this machine can measure, and how to install what is missing."""
    if host is not None:
        from vnetbench.commands.doctor_host import check_host

        return check_host(_make_console(), host)
    from vnetbench.commands.doctor import check_machine, check_server

    return check_machine(_make_console()) if server is None else check_server(_make_console(), server)


def _default_page_path(results: Sequence[Path]) -> Path:
    """Return the page's path: next to a single results file, else in the current folder."""
    from vnetbench.estimate.published_reference import PUBLISHED_TABLE_PATH_PREFIX

    first = str(results[0])
    if len(results) > 1:
        return Path("report.html")
    return (
        Path(f"{first.removeprefix(PUBLISHED_TABLE_PATH_PREFIX)}.html")
        if first.startswith(PUBLISHED_TABLE_PATH_PREFIX)
        else results[0].with_suffix(".html")
    )


def _print_session_results(path: Path, status: CampaignStatus) -> int:
    """Print what the session measured and the next commands, and return the exit code."""
    summary = _load_summary(path)
    _print_headlines_and_estimates(summary)
    if status == INTERRUPTED:
        click.echo(f"\nInterrupted. All finished trials are in {path}.\n  Continue:  vnetbench resume {path}")
        return exit_codes.INTERRUPTED
    click.echo(
        f"\nResults: {path}\n  Explain:  vnetbench explain {path}\n  Report:   vnetbench report {path}"
    )
    return 0 if any(t.trial_count for t in summary.treatments) else exit_codes.NOTHING_MEASURED


def _load_summary(path: Path) -> CampaignSummary:
    from vnetbench.commands.summaries import read_summary_with_experiments

    return read_summary_with_experiments(path)


def _print_headlines_and_estimates(summary: CampaignSummary) -> None:
    """Print the answer, the headlines of the findings and the table of estimates."""
    from vnetbench.report.tables.estimates_table import estimates_table
    from vnetbench.report.text.explanation_text import FindingHeadlines
    from vnetbench.report.text.settings_text import SettingsText, read_settings_audit
    from vnetbench.report.text.stored_narrative import read_or_build_narrative
    from vnetbench.report.text.time_text import time_lines

    narrative = read_or_build_narrative(summary)
    headlines = FindingHeadlines(narrative.findings_as_explanation, tuple(time_lines(summary)))
    _print_renderables(headlines, estimates_table(summary))
    if (audit := read_settings_audit(summary, narrative)) is not None:
        _print_renderables("", SettingsText(audit))


def _print_renderables(*parts: RenderableType) -> None:
    from vnetbench.report.tables.text_table import TrimmedLines

    for part in parts:
        _make_console().print(TrimmedLines(part))


def _make_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def _print_error(text: str) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print("vnetbench: " + make_printable(text, keep="\n"))
