"""The runs of an import while its logs are read: on disk, as a log may hold more of them than memory."""

from __future__ import annotations

import json
import math
import pickle
import sqlite3
import sys
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.importers.esxtop import HostCounters, attach_host_counters
from vnetbench.importers.log_parser import LogItem, UnrecognizedLines
from vnetbench.importers.runs import Run
from vnetbench.study.factors.registry import check_factor_workload, find_factor, format_level
from vnetbench.study.model import Level

MOST_KEPT = 1000
"""Of what could not be read: so many are kept in words, all are counted."""

_TABLE = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY, log TEXT, tool TEXT, workload TEXT, factors TEXT, told_by TEXT, started TEXT,
    goodput REAL, duration_s REAL, connection TEXT, run BLOB
)
"""
_COUNTED = "CREATE TABLE counted (log TEXT, moment TEXT, counters TEXT)"
"""What hosts counted meanwhile, in the order of their logs."""
_AT_ONCE = 1000
"""So many runs are in memory at once while counters are put beside them."""


@dataclass(frozen=True)
class SkippedSection:
    """A run that is not whole, or what else of a log could not be read."""

    log: str
    first_line: int
    last_line: int
    reason: str
    is_run: bool
    first_text: str = ""
    """The first line of what is of no known tool."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What tells a run among others, without what it measured."""

    id: int
    log: str
    tool: str
    factors: Mapping[str, Level]
    reported_by: str
    started: str | None
    """ISO 8601; as the log has it, so with or without a time zone."""
    goodput_bps: float | None
    duration_s: float | None
    connection: str = ""


class _Tally(NamedTuple):
    """What logs told so far, but for the runs themselves."""

    runs: int
    unread: int
    unclaimed: int
    faults: Counter[str]
    not_read: list[SkippedSection]
    told: dict[str, Counter[str]]
    last: int
    """The number of the last run."""


@dataclass
class RunStore:
    """All that was read of an import's logs. Its runs are in a database that ends with it."""

    fixed_factors: Mapping[str, Level] = field(default_factory=dict)
    """Levels that a person sets for all runs."""
    logs: list[str] = field(default_factory=list)
    run_count: int = 0
    skipped: list[SkippedSection] = field(default_factory=list)
    failure_counts: Counter[str] = field(default_factory=Counter)
    """Runs that are not whole, by why."""
    unreadable_count: int = 0
    """What readers know and cannot read; and logs."""
    unrecognized_line_count: int = 0
    """Lines of no known tool."""
    _told: dict[str, Counter[str]] = field(default_factory=dict)
    """By workload the metrics that its runs tell, each with how many do."""
    runs_per_counter_log: dict[str, int] = field(default_factory=dict)
    """Logs of what a host counted, each with how many runs it stands beside."""
    duplicate_logs: dict[str, str] = field(default_factory=dict)
    """Logs of which nothing is kept, each with the one that it is a copy of."""
    _first_of: dict[bytes, str] = field(default_factory=dict)
    """By the digest of its bytes, the first log with them."""
    _before: _Tally | None = None
    """What there was when the log began that is read now."""
    _db: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect(""))

    def __post_init__(self) -> None:
        self._db.execute(_TABLE)
        self._db.execute(_COUNTED)

    @property
    def is_complete(self) -> bool:
        """Whether all runs were read, and all that looks like one."""
        return not self.failure_counts and not self.unreadable_count

    def start_log(self, log: str) -> None:
        """What is added from here on is of this log."""
        self.logs.append(log)
        self._before = self._tally()

    def finish_log(self, digest: bytes) -> None:
        """The log is over. What it told is forgotten where a log before it was the same, byte for byte."""
        log, before = self.logs[-1], self._before
        first = self._first_of.setdefault(digest, log)
        if first == log or before is None or before == self._tally():
            return
        self.duplicate_logs[log] = first
        self.run_count, self.unreadable_count, self.unrecognized_line_count = (
            before.runs,
            before.unread,
            before.unclaimed,
        )
        self.failure_counts, self.skipped, self._told = before.faults, before.not_read, before.told
        self._db.execute("DELETE FROM run WHERE id > ?", (before.last,))

    def add_item(self, log: str, item: LogItem) -> None:
        """Keep what stands in a log. Raises BenchError where it contradicts what a person set."""
        if isinstance(item, Run) and not item.failure:
            self._add_run(log, item)
        elif isinstance(item, Run):
            self.failure_counts[item.failure] += 1
            self._keep(SkippedSection(log, item.first_line, item.last_line, item.failure, True))
        elif isinstance(item, UnrecognizedLines):
            self.unrecognized_line_count += item.line_count
            self.unreadable_count += item.looks_like_result
            why = "figures of no tool that is known here" if item.looks_like_result else ""
            self._keep(SkippedSection(log, item.first_line, item.last_line, why, False, item.text[:200]))
        else:
            self.unreadable_count += 1
            self._keep(SkippedSection(log, item.first_line, item.last_line, item.reason, False))

    def add_unreadable(self, log: str, why: str) -> None:
        """Keep that a log, or the rest of it, could not be read at all."""
        self.unreadable_count += 1
        self._keep(SkippedSection(log, 0, 0, why, False))

    def add_host_counters(self, log: str, counters: HostCounters) -> None:
        """Keep what the log of a host counted, until `put_beside`."""
        self.runs_per_counter_log[log] = 0
        rows = ((log, moment.isoformat(), json.dumps(values)) for moment, values in counters)
        self._db.executemany("INSERT INTO counted VALUES (?, ?, ?)", rows)

    def attach_host_counters(self) -> None:
        """Put what hosts counted beside the runs of that time; to be called once all logs have been read."""
        for log in self.runs_per_counter_log:
            for first in range(1, self._last() + 1, _AT_ONCE):
                numbers = range(first, min(first + _AT_ONCE, self._last() + 1))
                runs = [self.load_run(number)[1] for number in numbers]
                told = attach_host_counters(
                    runs, self._counted(log), is_only_host=len(self.runs_per_counter_log) == 1
                )
                changed = [(_stored(run), number) for number, run in zip(numbers, told, strict=True)]
                self._db.executemany("UPDATE run SET run = ? WHERE id = ?", changed)
                self.runs_per_counter_log[log] += sum(
                    each.other_results != run.other_results for each, run in zip(told, runs, strict=True)
                )

    def workload_counts(self) -> dict[str, int]:
        """Each workload of the runs, with how many they are; the most frequent first."""
        rows = self._db.execute("SELECT workload, count(*) FROM run GROUP BY workload ORDER BY count(*) DESC")
        return dict(rows.fetchall())

    def metric_counts(self, workload: str) -> Counter[str]:
        """The metrics that runs of a workload tell, each with how many of them do."""
        return self._told[workload]

    def run_summaries(self, workload: str) -> list[RunSummary]:
        """The runs of a workload in the order in which they were read."""
        rows = self._db.execute(
            "SELECT id, log, tool, factors, told_by, started, goodput, duration_s, connection FROM run"
            " WHERE workload = ? ORDER BY id",
            (workload,),
        )
        levels = lru_cache(maxsize=1024)(json.loads)  # runs of one treatment share them
        return [
            RunSummary(i, sys.intern(log), sys.intern(tool), levels(text), sys.intern(told_by), *rest)
            for i, log, tool, text, told_by, *rest in rows
        ]

    def load_run(self, number: int) -> tuple[str, Run]:
        """The log of a run, and the run, by its `Head.id`."""
        log, stored = self._db.execute("SELECT log, run FROM run WHERE id = ?", (number,)).fetchone()
        run = pickle.loads(
            zlib.decompress(stored)
        )  # of this process's own making, in a database that nobody else can open
        assert isinstance(run, Run)
        return log, run

    def close(self) -> None:
        """Forget the runs."""
        self._db.close()

    def _tally(self) -> _Tally:
        told = {workload: metrics.copy() for workload, metrics in self._told.items()}
        kept = (self.failure_counts.copy(), self.skipped.copy(), told)
        return _Tally(
            self.run_count, self.unreadable_count, self.unrecognized_line_count, *kept, self._last()
        )

    def _last(self) -> int:
        """The number of the last run."""
        (last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()
        return int(last)

    def _counted(self, log: str) -> HostCounters:
        rows = self._db.execute("SELECT moment, counters FROM counted WHERE log = ? ORDER BY rowid", (log,))
        return ((datetime.fromisoformat(moment), json.loads(values)) for moment, values in rows)

    def _add_run(self, log: str, run: Run) -> None:
        factors = {**run.factors, **self.fixed_factors}
        for name, level in self.fixed_factors.items():
            if run.factors.get(name, level) != level:
                told = format_level(name, run.factors[name])
                raise BenchError(
                    f"this run tells {name} = {told}, and --factor sets {format_level(name, level)}",
                    where=f"{log}:{run.first_line}",
                    fix=f"leave out --factor {name}, or import this log by itself",
                )
        if why := _unsound(run):
            self.unreadable_count += 1
            self._keep(SkippedSection(log, run.first_line, run.last_line, why, False))
            return
        self.run_count += 1
        self._told.setdefault(run.workload, Counter()).update(run.metrics.keys())
        self._db.execute(
            "INSERT INTO run (log, tool, workload, factors, told_by, started, goodput, duration_s,"
            " connection, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                log, run.tool, run.workload, json.dumps(factors), run.reported_by,
                run.started_at.isoformat() if run.started_at else None,
                run.metrics["goodput_bps"].value if "goodput_bps" in run.metrics else None,
                run.duration_s, run.connection, _stored(run),
            ),
        )  # fmt: skip

    def _keep(self, what: SkippedSection) -> None:
        if len(self.skipped) < MOST_KEPT:
            self.skipped.append(what)


def _unsound(run: Run) -> str:
    """What cannot be true of a run, and so was damaged in its log; empty where nothing is known to be."""
    for name, level in run.factors.items():
        if why := _wrong_level(run.workload, name, level):
            return f"{name} = {str(level)[:80]}: {why}"
    for name, figure in run.metrics.items():
        if not -math.inf < figure.low <= figure.value <= figure.high < math.inf:
            return f"{name} cannot be {figure.value:g}"
    for what, time_s in (("it lasts", run.duration_s or 0.0), ("of it is omitted", run.omitted_s)):
        if not 0 <= time_s < math.inf:
            return f"{what} {time_s:g} s"
    return ""


@lru_cache(maxsize=1024)
def _wrong_level(workload: str, name: str, level: Level) -> str:
    try:
        check_factor_workload(name, workload)
        kind = find_factor(name).value_type
        kind.parse(kind.format(level))
    except BenchError as error:
        return error.what
    return ""


def _stored(run: Run) -> bytes:
    """A run as the database has it: a million intervals are some 70 MB, and compressed a fraction of that."""
    return zlib.compress(pickle.dumps(run), level=1)
