"""The work of the command `import`: read logs, write results files and report what could not be read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from time import monotonic

import click
from rich.console import Console
from rich.progress import Progress

from vnetbench.commands import exit_codes
from vnetbench.commands.stored_results import store_estimates_and_narrative
from vnetbench.errors import BenchError
from vnetbench.importers.archives import LogSource, find_logs, total_file_bytes
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.esxtop import is_esxtop_header, read_counter_intervals
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.results_writer import ImportSummary, write_results
from vnetbench.importers.run_store import RunStore, SkippedSection
from vnetbench.importers.table import TableMapping, is_table_file_name, read_table_mapping, read_table_runs
from vnetbench.printable import make_printable
from vnetbench.results.file import check_output_path
from vnetbench.study.factors.imported_factors import is_label
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level

PROGRESS_BAR_DELAY_S = 2.0
"""A progress bar appears if reading takes longer than this."""
_MAX_LISTED_LOGS_OR_LINES = 8
"""Maximum number of lines or logs listed in a message. The results file lists all of them."""
_MAX_LISTED_UNRECOGNIZED_SECTIONS = 4
"""Maximum number of sections from no supported tool that a message quotes."""


def import_paths(
    paths: Sequence[Path],
    output: Path | None,
    factors: Sequence[str],
    workload: str | None,
    mapping_path: Path | None,
    *,
    is_strict: bool,
) -> int:
    """Write a results file for each workload in these logs.

    Returns:
        The exit code.

    Raises:
        BenchError: No run could be read, an option is invalid, or a file cannot be written.
    """
    if output is not None:
        check_output_path(output)  # before reading, which may take long
    mapping = _read_mapping_file(mapping_path) if mapping_path else None
    store = RunStore(dict(map(_parse_factor, factors)))
    try:
        with _progress_bar(total_file_bytes(paths)) as read:
            _read_logs(paths, store, mapping, read)
        _check_runs(store, paths, is_strict=is_strict)
        chosen = _select_workloads_to_write(store, workload, output)
        written = []
        for each in chosen:
            summary = write_results(
                store, each, _output_path(store, paths, output, each), _format_title(paths)
            )
            _print_import_summary(summary)
            written.append(summary.results_path)
        for name, count in store.count_runs_by_workload().items():
            if name not in chosen:
                click.echo(f"Skipped {_format_run_count(count)} of the workload {name}.")
        for line in format_import_summary(store):
            click.echo(line)
        for path in written:
            store_estimates_and_narrative(path)
        return 0 if store.is_fully_read else exit_codes.INPUT_PARTLY_READ
    finally:
        store.close()


def format_import_summary(store: RunStore) -> Iterator[str]:
    """Yield `imported 94 of 96 runs`, then a line for each reason why runs or lines were not imported."""
    total = store.complete_run_count + store.incomplete_run_count_by_failure.total()
    yield f"imported {store.complete_run_count} of {total} runs"
    for why, count in store.incomplete_run_count_by_failure.most_common():
        yield f"  {count} not imported: {why} ({_format_failed_line_numbers(store, why)})"
    for log, attached_count in store.run_count_by_esxtop_log.items():
        yield f"{log}: attached its esxtop counters to {attached_count} of {store.complete_run_count} runs"
    for log, original in list(store.original_by_duplicate_log.items())[:_MAX_LISTED_LOGS_OR_LINES]:
        yield f"{log}: skipped, because it is a copy of {original}"
    if len(store.original_by_duplicate_log) > _MAX_LISTED_LOGS_OR_LINES:
        yield (
            f"{len(store.original_by_duplicate_log) - _MAX_LISTED_LOGS_OR_LINES} more copies skipped (the "
            "results file lists them)"
        )
    unread = [each for each in store.skipped_sections if not each.is_run and each.reason]
    for each in unread[:_MAX_LISTED_LOGS_OR_LINES]:
        text = f": {each.first_text.strip()}" if each.first_text else ""
        yield f"not read: {_format_skipped_section_location(each)}: {each.reason}{text}"
    if len(unread) > _MAX_LISTED_LOGS_OR_LINES:
        unlisted = len(unread) - _MAX_LISTED_LOGS_OR_LINES
        yield f"not read: {unlisted} more sections (the results file lists them)"
    if store.unrecognized_line_count:
        lines = f"{store.unrecognized_line_count} line{'' if store.unrecognized_line_count == 1 else 's'}"
        yield f"{lines} from no supported tool{''.join(_format_unrecognized_sections(store))}"


def _format_unrecognized_sections(store: RunStore) -> Iterator[str]:
    """Yield where the first sections from no supported tool start, and with which text."""
    unlisted = [each for each in store.skipped_sections if each.first_text and not each.reason]
    for each in unlisted[:_MAX_LISTED_UNRECOGNIZED_SECTIONS]:
        yield f"\n  {_format_skipped_section_location(each)}: {each.first_text.strip()[:80]}"
    if len(unlisted) > _MAX_LISTED_UNRECOGNIZED_SECTIONS:
        yield f"\n  {len(unlisted) - _MAX_LISTED_UNRECOGNIZED_SECTIONS} more sections"


def _format_failed_line_numbers(store: RunStore, failure: str) -> str:
    """Return `lines 4101, 8816`, with the names of the logs if there are several."""
    failed_runs = [each for each in store.skipped_sections if each.is_run and each.reason == failure][
        :_MAX_LISTED_LOGS_OR_LINES
    ]
    parts = []
    for log, runs in groupby(failed_runs, key=lambda each: each.log):
        numbers = [str(each.first_line) for each in runs]
        name = f"{log} " if len(store.log_names) > 1 else ""
        parts.append(f"{name}line{'' if len(numbers) == 1 else 's'} {', '.join(numbers)}")
    more = (
        f" and {store.incomplete_run_count_by_failure[failure] - len(failed_runs)} more"
        if store.incomplete_run_count_by_failure[failure] > len(failed_runs)
        else ""
    )
    return "; ".join(parts) + more


def _format_run_count(runs: int) -> str:
    return f"{runs} run{'' if runs == 1 else 's'}"


def _format_skipped_section_location(section: SkippedSection) -> str:
    if not section.first_line:
        return section.log
    lines = (
        f"{section.first_line}"
        if section.first_line == section.last_line
        else f"{section.first_line}-{section.last_line}"
    )
    return f"{section.log}:{lines}"


def _read_logs(
    paths: Sequence[Path],
    store: RunStore,
    mapping: TableMapping | None,
    advance_progress: Callable[[int], None],
) -> None:
    for log in find_logs(paths, on_read_bytes=advance_progress):
        if not isinstance(log, LogSource):
            store.add_unreadable_log(log.display_path, log.reason)
            continue
        store.start_log(log.display_path)
        if mapping is not None and is_table_file_name(log.display_path):
            for run in read_table_runs(log.stream, log.display_path, mapping):
                store.add_item(log.display_path, run)
        elif mapping is None and log.display_path.lower().endswith(".xlsx"):
            store.add_unreadable_log(
                log.display_path, "the file is a workbook. Describe its columns with --mapping"
            )
        else:
            _store_runs_or_counters(log, store)
        if log.damage_description:
            store.add_unreadable_log(log.display_path, log.damage_description)
        store.finish_log_or_drop_duplicate(log.content_digest)
    store.attach_host_counters_to_runs()


def _store_runs_or_counters(log: LogSource, store: RunStore) -> None:
    lines = decode_lines(log.stream)
    first = next(lines, "")
    if is_esxtop_header(first):
        store.store_host_counters(log.display_path, read_counter_intervals(chain([first], lines)))
        return
    for item in parse_log(chain([first], lines)):
        store.add_item(log.display_path, item)


def _read_mapping_file(path: Path) -> TableMapping:
    try:
        return read_table_mapping(path.read_text(encoding="utf-8", errors="surrogateescape"), str(path))
    except OSError as error:
        fix = "name a TOML file that describes the table's columns"
        raise BenchError(
            f"cannot read the mapping file: {error.strerror}", where=f"--mapping {path}", fix=fix
        ) from error


def _check_runs(store: RunStore, paths: Sequence[Path], *, is_strict: bool) -> None:
    where = ", ".join(map(str, paths[:_MAX_LISTED_LOGS_OR_LINES]))
    if not store.complete_run_count:
        summary = "\n".join(format_import_summary(store))
        if store.incomplete_run_count_by_failure:
            what = "the logs contain no complete run"
            fix = "repeat the runs. The lines above say why these do not count"
        else:
            what = "the logs contain no run of a supported tool"
            fix = "check that docs/importers.md lists the tool. A table needs --mapping"
        raise BenchError(f"{what}\n{summary}", where=where, fix=fix)
    if is_strict and not store.is_fully_read:
        summary = "\n".join(format_import_summary(store))
        raise BenchError(
            f"some runs could not be read\n{summary}", where=where, fix="correct the logs, or omit --strict"
        )


def _select_workloads_to_write(store: RunStore, requested: str | None, output: Path | None) -> list[str]:
    """Return the workloads to write, one results file each; raises BenchError for an invalid option."""
    run_counts = store.count_runs_by_workload()
    listed = ", ".join(f"{name} ({_format_run_count(count)})" for name, count in run_counts.items())
    if requested is not None and requested not in run_counts:
        raise BenchError(
            f"no run has the workload {requested}", where="--workload", fix=f"use one of {listed}"
        )
    if requested is None and output is not None and len(run_counts) > 1:
        raise BenchError(
            f"the logs contain several workloads ({listed}), but a results file holds one",
            where=str(output),
            fix=f"add --workload {next(iter(run_counts))}, or omit -o to write one file per workload",
        )
    return [requested] if requested is not None else list(run_counts)


def _output_path(store: RunStore, paths: Sequence[Path], output: Path | None, workload: str) -> Path:
    if output is not None:
        return output
    stem = paths[0].resolve().name.split(".")[0] if len(paths) == 1 else "imported"
    return Path(f"{stem}-{workload}.vnb" if len(store.count_runs_by_workload()) > 1 else f"{stem}.vnb")


def _format_title(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return make_printable(f"Imported: {paths[0].resolve().name}{more}")


def _print_import_summary(summary: ImportSummary) -> None:
    click.echo(
        f"{summary.results_path}: {summary.workload}, {summary.trial_count} trials of "
        f"{summary.treatment_count} treatments"
    )
    if summary.merged_trial_count:
        click.echo(f"  {summary.merged_trial_count} trials were logged by sender and receiver")
    unspecified = [
        f"{name} ({count})"
        for name, count in summary.run_count_by_missing_factor.items()
        if not is_label(name)
    ]
    if unspecified:
        click.echo(
            "  factors that some logs do not contain (set with --factor NAME=LEVEL): "
            f"{', '.join(unspecified)}"
        )


def _parse_factor(text: str) -> tuple[str, Level]:
    name, equals, raw = (part.strip() for part in text.partition("="))
    if not equals:
        raise BenchError(
            "--factor needs a factor and a level",
            where=f"--factor {text}",
            fix="write them as in --factor mtu=9000",
        )
    try:
        return name, parse_level(name, raw)
    except BenchError as error:
        raise BenchError(error.what, where=f"--factor {text}", fix=error.fix) from error


@contextmanager
def _progress_bar(total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield a function to call with the size of each piece read."""
    start = monotonic()
    console = Console(file=sys.stderr, emoji=False)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        bar.stop()
        task = bar.add_task("reading", total=total_bytes, visible=False)

        def read(piece: int) -> None:
            bar.update(task, advance=piece)
            if not bar.live.is_started and monotonic() - start > PROGRESS_BAR_DELAY_S:
                bar.update(task, visible=True)
                bar.start()

        yield read
