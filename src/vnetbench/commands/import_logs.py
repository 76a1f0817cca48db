"""What the command `import` does: logs become results files, and what was not understood is said."""

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
from vnetbench.errors import BenchError
from vnetbench.importers.archives import Log, logs_at, size_of
from vnetbench.importers.decoding import lines_of
from vnetbench.importers.esxtop import counters, is_esxtop
from vnetbench.importers.log_parser import recognise
from vnetbench.importers.results_writer import Imported, write_results
from vnetbench.importers.run_store import Gathered, NotRead
from vnetbench.importers.table import Mapping, is_table, read_mapping, runs_of
from vnetbench.printable import printable
from vnetbench.results.file import check_free
from vnetbench.study.factors.imported_factors import is_label
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level

SHOWN_AFTER_S = 2.0
"""What takes longer shows how far it is."""
_MOST_NAMED = 8
"""So many lines, or reasons, are named; the results file has more."""


def import_paths(
    paths: Sequence[Path],
    output: Path | None,
    factors: Sequence[str],
    workload: str | None,
    mapping_path: Path | None,
    *,
    is_strict: bool,
) -> int:
    """Make a results file of each workload of these logs; returns what to exit with. Raises BenchError."""
    if output is not None:
        check_free(output)  # now, as reading may take long
    mapping = _mapping(mapping_path) if mapping_path else None
    gathered = Gathered(dict(map(_factor, factors)))
    try:
        with _progress(size_of(paths)) as read:
            _gather(paths, gathered, mapping, read)
        _check(gathered, paths, is_strict=is_strict)
        chosen = _workloads(gathered, workload, output)
        for each in chosen:
            _say(write_results(gathered, each, _output(gathered, paths, output, each), _title(paths)))
        for name, count in gathered.workloads().items():
            if name not in chosen:
                click.echo(f"left out, of another workload: {_count(count)} of {name}")
        for line in summary_lines(gathered):
            click.echo(line)
        return 0 if gathered.is_whole else exit_codes.NOT_ALL_READ
    finally:
        gathered.close()


def summary_lines(gathered: Gathered) -> Iterator[str]:
    """`imported 94 of 96 runs; 2 cut off (lines 4101, 8816)`, and what else was not understood."""
    total = gathered.runs + gathered.faults.total()
    faults = [f"{count} {why} ({_places(gathered, why)})" for why, count in gathered.faults.most_common()]
    only = f"; {faults[0]}" if len(faults) == 1 else ""
    yield f"imported {gathered.runs} of {total} runs{only}"
    yield from (f"  {fault}" for fault in faults if len(faults) > 1)
    for log, beside in gathered.counted.items():
        yield f"{log}: counters of esxtop, beside {beside} of {gathered.runs} runs"
    for log, original in list(gathered.copies.items())[:_MOST_NAMED]:
        yield f"{log}: a copy of {original}, and not imported a second time"
    if len(gathered.copies) > _MOST_NAMED:
        yield f"{len(gathered.copies) - _MOST_NAMED} more copies, which the results file lists"
    unread = [each for each in gathered.not_read if not each.is_run and each.why]
    for each in unread[:_MOST_NAMED]:
        yield f"not read: {_place(each)}: {each.why}{f': {each.text.strip()}' if each.text else ''}"
    if len(unread) > _MOST_NAMED:
        yield f"not read: {len(unread) - _MOST_NAMED} more, which the results file lists"
    if gathered.unclaimed:
        first = next((each for each in gathered.not_read if each.text), None)
        lines = f"{gathered.unclaimed} line{'' if gathered.unclaimed == 1 else 's'}"
        where = f"; the first, {_place(first)}: {first.text.strip()[:80]}" if first else ""
        yield f"{lines} of no tool that is known here{where}"


def _places(gathered: Gathered, why: str) -> str:
    """`lines 4101, 8816`, behind the names of the logs where there are several."""
    found = [each for each in gathered.not_read if each.is_run and each.why == why][:_MOST_NAMED]
    parts = []
    for log, runs in groupby(found, key=lambda each: each.log):
        numbers = [str(each.first_line) for each in runs]
        name = f"{log} " if len(gathered.logs) > 1 else ""
        parts.append(f"{name}line{'' if len(numbers) == 1 else 's'} {', '.join(numbers)}")
    more = f" and {gathered.faults[why] - len(found)} more" if gathered.faults[why] > len(found) else ""
    return "; ".join(parts) + more


def _count(runs: int) -> str:
    return f"{runs} run{'' if runs == 1 else 's'}"


def _place(what: NotRead) -> str:
    if not what.first_line:
        return what.log
    lines = (
        f"{what.first_line}" if what.first_line == what.last_line else f"{what.first_line}-{what.last_line}"
    )
    return f"{what.log}:{lines}"


def _gather(
    paths: Sequence[Path], gathered: Gathered, mapping: Mapping | None, read: Callable[[int], None]
) -> None:
    for log in logs_at(paths, read=read):
        if not isinstance(log, Log):
            gathered.add_unreadable(log.name, log.why)
            continue
        gathered.begin(log.name)
        if mapping is not None and is_table(log.name):
            for run in runs_of(log.stream, log.name, mapping):
                gathered.add(log.name, run)
        elif mapping is None and log.name.lower().endswith(".xlsx"):
            gathered.add_unreadable(log.name, "a workbook, which needs a --mapping")
        else:
            _gather_text(log, gathered)
        if log.damage:
            gathered.add_unreadable(log.name, log.damage)
        gathered.end(log.digest)
    gathered.put_beside()


def _gather_text(log: Log, gathered: Gathered) -> None:
    lines = lines_of(log.stream)
    first = next(lines, "")
    if is_esxtop(first):
        gathered.add_counters(log.name, counters(chain([first], lines)))
        return
    for item in recognise(chain([first], lines)):
        gathered.add(log.name, item)


def _mapping(path: Path) -> Mapping:
    try:
        return read_mapping(path.read_text(encoding="utf-8", errors="surrogateescape"), str(path))
    except OSError as error:
        fix = "name the TOML file that says what the table's columns are"
        raise BenchError(
            f"it cannot be read: {error.strerror}", where=f"--mapping {path}", fix=fix
        ) from error


def _check(gathered: Gathered, paths: Sequence[Path], *, is_strict: bool) -> None:
    where = ", ".join(map(str, paths[:_MOST_NAMED]))
    if not gathered.runs:
        said = "\n".join(summary_lines(gathered))
        fix = "vnetbench import reads the tools in docs/importers.md; a table needs --mapping"
        raise BenchError(f"no whole run of a tool that is known here\n{said}", where=where, fix=fix)
    if is_strict and not gathered.is_whole:
        said = "\n".join(summary_lines(gathered))
        raise BenchError(
            f"not all was read, and --strict was asked for\n{said}", where=where, fix="leave out --strict"
        )


def _workloads(gathered: Gathered, asked: str | None, output: Path | None) -> list[str]:
    """The workloads to make a results file of, each. Raises BenchError."""
    found = gathered.workloads()
    listed = ", ".join(f"{name} ({_count(count)})" for name, count in found.items())
    if asked is not None and asked not in found:
        raise BenchError(f"no run of the workload {asked}", where="--workload", fix=f"write one of {listed}")
    if asked is None and output is not None and len(found) > 1:
        raise BenchError(
            f"the logs have several workloads, and a results file has one: {listed}",
            where=str(output),
            fix=f"--workload {next(iter(found))}, or leave out -o: then each gets a file",
        )
    return [asked] if asked is not None else list(found)


def _output(gathered: Gathered, paths: Sequence[Path], output: Path | None, workload: str) -> Path:
    if output is not None:
        return output
    stem = paths[0].resolve().name.split(".")[0] if len(paths) == 1 else "imported"
    return Path(f"{stem}-{workload}.vnb" if len(gathered.workloads()) > 1 else f"{stem}.vnb")


def _title(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return printable(f"Imported: {paths[0].resolve().name}{more}")


def _say(made: Imported) -> None:
    click.echo(f"{made.path}: {made.workload}, {made.trials} trials of {made.treatments} treatments")
    if made.told_twice:
        click.echo(f"  {made.told_twice} of them are told by the logs of both ends")
    untold = [f"{name} ({count})" for name, count in made.untold.items() if not is_label(name)]
    if untold:
        click.echo(f"  not told of all trials, set them with --factor NAME=LEVEL: {', '.join(untold)}")


def _factor(text: str) -> tuple[str, Level]:
    name, equals, raw = (part.strip() for part in text.partition("="))
    if not equals:
        raise BenchError(
            "a factor and its level are expected", where=f"--factor {text}", fix="write --factor mtu=9000"
        )
    try:
        return name, parse_level(name, raw)
    except BenchError as error:
        raise BenchError(error.what, where=f"--factor {text}", fix=error.fix) from error


@contextmanager
def _progress(size: int) -> Iterator[Callable[[int], None]]:
    """What is told of every piece that was read, and shows how much of it all that is."""
    began = monotonic()
    with Progress(console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()) as bar:
        bar.stop()
        task = bar.add_task("reading", total=size, visible=False)

        def read(piece: int) -> None:
            bar.update(task, advance=piece)
            if not bar.live.is_started and monotonic() - began > SHOWN_AFTER_S:
                bar.update(task, visible=True)
                bar.start()

        yield read
