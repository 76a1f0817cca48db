"""The runs of an import while its logs are read. They are on disk, because they may not fit in memory."""

from __future__ import annotations

import json
import math
import pickle
import sqlite3
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.importers.esxtop import CounterInterval, attach_host_counters_within_runs
from vnetbench.importers.log_parser import LogItem, UnrecognizedSection
from vnetbench.importers.runs import Run, SenderOrReceiver
from vnetbench.study.factors.registry import check_factor_workload, format_level, require_factor_or_label
from vnetbench.study.model import Level

MAX_STORED_SKIPPED_SECTIONS = 1000
"""Skipped sections that are kept with their text. All of them are counted."""

_CREATE_RUN_TABLE = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY, log TEXT, tool TEXT, workload TEXT, factors TEXT, reported_by TEXT, started TEXT,
    goodput REAL, duration_s REAL, connection TEXT, run BLOB
)
"""
_CREATE_COUNTER_TABLE = "CREATE TABLE host_counters (log TEXT, time TEXT, counters TEXT)"
"""Counters of hosts, in the order of their logs."""
_RUNS_PER_BATCH = 1000
"""Runs that are in memory together while counters are attached to them."""


@dataclass(frozen=True)
class SkippedSection:
    """An incomplete run, or another section of a log that could not be read."""

    log: str
    first_line: int
    last_line: int
    reason: str
    is_run: bool
    first_text: str = ""
    """The first line of a section that no tool wrote."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What distinguishes a run from others, without its results."""

    run_id: int
    log_name: str
    tool: str
    factors: Mapping[str, Level]
    reported_by: SenderOrReceiver
    started_at: str | None
    """ISO 8601 as in the log, so with or without a time zone."""
    goodput_bps: float | None
    measured_duration_s: float | None
    first_connection_addresses: str = ""


class _StoreState(NamedTuple):
    """What the store contains, apart from the runs themselves."""

    complete_run_count: int
    unreadable_section_or_log_count: int
    unrecognized_line_count: int
    incomplete_run_count_by_failure: Counter[str]
    skipped_sections: list[SkippedSection]
    run_count_by_workload_metric: dict[str, Counter[str]]
    last_run_id: int


@dataclass
class RunStore:
    """Everything in an import's logs. The runs are in a temporary database."""

    fixed_factors: Mapping[str, Level] = field(default_factory=dict)
    """Levels that the user sets for all runs."""
    log_names: list[str] = field(default_factory=list)
    complete_run_count: int = 0
    """Number of complete runs."""
    skipped_sections: list[SkippedSection] = field(default_factory=list)
    incomplete_run_count_by_failure: Counter[str] = field(default_factory=Counter)
    """Number of incomplete runs by failure."""
    unreadable_section_or_log_count: int = 0
    """Number of unreadable sections and logs, and of sections that look like results of an unknown tool."""
    unrecognized_line_count: int = 0
    run_count_by_esxtop_log: dict[str, int] = field(default_factory=dict)
    """Logs of host counters, with the number of runs that got counters from each."""
    original_by_duplicate_log: dict[str, str] = field(default_factory=dict)
    """Logs that are ignored as copies, each with the log that it is a copy of."""
    _run_count_by_workload_metric: dict[str, Counter[str]] = field(default_factory=dict)
    """By workload and metric, the number of runs that report it."""
    _first_log_by_digest: dict[bytes, str] = field(default_factory=dict)
    _state_before_log: _StoreState | None = None
    _db: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect(""))

    def __post_init__(self) -> None:
        self._db.execute(_CREATE_RUN_TABLE)
        self._db.execute(_CREATE_COUNTER_TABLE)

    @property
    def is_fully_read(self) -> bool:
        """Whether all runs, and everything that looks like one, could be read."""
        return not self.incomplete_run_count_by_failure and not self.unreadable_section_or_log_count

    def start_log(self, log_name: str) -> None:
        """Start a log. Items that follow are from it."""
        self.log_names.append(log_name)
        self._state_before_log = self._copy_state()

    def finish_log_or_drop_duplicate(self, digest: bytes) -> None:
        """Finish a log. Its items are dropped if an earlier log has the same bytes."""
        log, before = self.log_names[-1], self._state_before_log
        original = self._first_log_by_digest.setdefault(digest, log)
        if original == log or before is None or before == self._copy_state():
            return
        self.original_by_duplicate_log[log] = original
        self.complete_run_count, self.unreadable_section_or_log_count = (
            before.complete_run_count,
            before.unreadable_section_or_log_count,
        )
        self.unrecognized_line_count = before.unrecognized_line_count
        self.incomplete_run_count_by_failure, self.skipped_sections = (
            before.incomplete_run_count_by_failure,
            before.skipped_sections,
        )
        self._run_count_by_workload_metric = before.run_count_by_workload_metric
        self._db.execute("DELETE FROM run WHERE id > ?", (before.last_run_id,))

    def add_item(self, log_name: str, item: LogItem) -> None:
        """Store an item of a log.

        Raises:
            BenchError: The item contradicts a level that the user sets.
        """
        lines = item.first_line, item.last_line
        if isinstance(item, Run) and not (failure := item.failure or _describe_missing_result(item)):
            self._add_run(log_name, item)
        elif isinstance(item, Run):
            self.incomplete_run_count_by_failure[failure] += 1
            self._add_skipped(SkippedSection(log_name, *lines, failure, True))
        elif isinstance(item, UnrecognizedSection):
            self.unrecognized_line_count += item.line_count
            self.unreadable_section_or_log_count += item.may_be_result
            reason = (
                "these lines look like results of a tool that vnetbench cannot read"
                if item.may_be_result
                else ""
            )
            self._add_skipped(SkippedSection(log_name, *lines, reason, False, item.first_line_text[:200]))
        else:
            self.unreadable_section_or_log_count += 1
            self._add_skipped(SkippedSection(log_name, *lines, item.reason, False))

    def add_unreadable_log(self, log_name: str, reason: str) -> None:
        """Record that a log, or the rest of it, cannot be read at all."""
        self.unreadable_section_or_log_count += 1
        self._add_skipped(SkippedSection(log_name, 0, 0, reason, False))

    def store_host_counters(self, esxtop_log_name: str, intervals: Iterable[CounterInterval]) -> None:
        """Store the counters of an esxtop log until `attach_host_counters_to_runs`."""
        self.run_count_by_esxtop_log[esxtop_log_name] = 0
        rows = ((esxtop_log_name, time.isoformat(), json.dumps(values)) for time, values in intervals)
        self._db.executemany("INSERT INTO host_counters VALUES (?, ?, ?)", rows)

    def attach_host_counters_to_runs(self) -> None:
        """Add host counters to the runs of the same time. Call this once, after all logs are read."""
        is_only_esxtop_log = len(self.run_count_by_esxtop_log) == 1
        for log in self.run_count_by_esxtop_log:
            for first in range(1, self._last_run_id() + 1, _RUNS_PER_BATCH):
                ids = range(first, min(first + _RUNS_PER_BATCH, self._last_run_id() + 1))
                runs = [self.load_log_name_and_run(run_id)[1] for run_id in ids]
                updated = attach_host_counters_within_runs(
                    runs, self._load_host_counters(log), sets_host_cpu_metric=is_only_esxtop_log
                )
                rows = [(_serialize_run(run), run_id) for run_id, run in zip(ids, updated, strict=True)]
                self._db.executemany("UPDATE run SET run = ? WHERE id = ?", rows)
                self.run_count_by_esxtop_log[log] += sum(
                    after.other_results != before.other_results
                    for after, before in zip(updated, runs, strict=True)
                )

    def count_runs_by_workload(self) -> dict[str, int]:
        """Return the number of runs of each workload, the most frequent first."""
        rows = self._db.execute("SELECT workload, count(*) FROM run GROUP BY workload ORDER BY count(*) DESC")
        return dict(rows.fetchall())

    def count_runs_by_metric(self, workload: str) -> Counter[str]:
        """Return how many runs of a workload report each metric."""
        return self._run_count_by_workload_metric[workload]

    def run_summaries(self, workload: str) -> list[RunSummary]:
        """Return the runs of a workload in the order of the logs."""
        rows = self._db.execute(
            "SELECT id, log, tool, factors, reported_by, started, goodput, duration_s, connection FROM run"
            " WHERE workload = ? ORDER BY id",
            (workload,),
        )
        parse_factors = lru_cache(maxsize=1024)(json.loads)  # Runs of one treatment share the result.
        return [
            RunSummary(
                run_id,
                sys.intern(log),
                sys.intern(tool),
                parse_factors(factors),
                sys.intern(reported_by),
                *rest,
            )
            for run_id, log, tool, factors, reported_by, *rest in rows
        ]

    def load_log_name_and_run(self, run_id: int) -> tuple[str, Run]:
        """Return the log of a run, and the run."""
        log, data = self._db.execute("SELECT log, run FROM run WHERE id = ?", (run_id,)).fetchone()
        # The pickle is safe: this process wrote it into a private database.
        run = pickle.loads(zlib.decompress(data))
        assert isinstance(run, Run)
        return log, run

    def close(self) -> None:
        """Delete the runs."""
        self._db.close()

    def _copy_state(self) -> _StoreState:
        return _StoreState(
            self.complete_run_count,
            self.unreadable_section_or_log_count,
            self.unrecognized_line_count,
            self.incomplete_run_count_by_failure.copy(),
            self.skipped_sections.copy(),
            {workload: counts.copy() for workload, counts in self._run_count_by_workload_metric.items()},
            self._last_run_id(),
        )

    def _last_run_id(self) -> int:
        (last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()
        return int(last)

    def _load_host_counters(self, esxtop_log_name: str) -> Iterator[CounterInterval]:
        rows = self._db.execute(
            "SELECT time, counters FROM host_counters WHERE log = ? ORDER BY rowid", (esxtop_log_name,)
        )
        return (CounterInterval(datetime.fromisoformat(time), json.loads(values)) for time, values in rows)

    def _add_run(self, log_name: str, run: Run) -> None:
        for name, level in self.fixed_factors.items():
            if run.factors.get(name, level) != level:
                raise BenchError(
                    f"the run has {name} = {format_level(name, run.factors[name])},"
                    f" but --factor sets {format_level(name, level)}",
                    where=f"{log_name}:{run.first_line}",
                    fix=f"leave out --factor {name}, or import this log separately",
                )
        if damage := _describe_impossible_value(run):
            self.unreadable_section_or_log_count += 1
            self._add_skipped(SkippedSection(log_name, run.first_line, run.last_line, damage, False))
            return
        self.complete_run_count += 1
        self._run_count_by_workload_metric.setdefault(run.workload, Counter()).update(run.metrics.keys())
        self._db.execute(
            "INSERT INTO run (log, tool, workload, factors, reported_by, started, goodput, duration_s,"
            " connection, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                log_name, run.tool, run.workload, json.dumps({**run.factors, **self.fixed_factors}),
                run.reported_by, run.started_at.isoformat() if run.started_at else None,
                run.metrics["goodput_bps"].value if "goodput_bps" in run.metrics else None,
                run.measured_duration_s, run.first_connection_addresses, _serialize_run(run),
            ),
        )  # fmt: skip

    def _add_skipped(self, section: SkippedSection) -> None:
        if len(self.skipped_sections) < MAX_STORED_SKIPPED_SECTIONS:
            self.skipped_sections.append(section)


def _describe_missing_result(run: Run) -> str:
    """Return why a complete run is no trial: it has no figure at all. Empty if it has one."""
    if run.metrics or run.intervals:
        return ""
    names = ", ".join(run.other_results)
    found = f" (it reported: {names})" if names else ""
    return f"{run.tool} reported no result that is a metric of vnetbench{found}"


def _describe_impossible_value(run: Run) -> str:
    """Return a value that is impossible, so its log is damaged; empty if there is none."""
    for name, level in run.factors.items():
        if error := _describe_level_error(run.workload, name, level):
            return f"{name} = {str(level)[:80]}: {error}"
    for name, reported in run.metrics.items():
        if not -math.inf < reported.low <= reported.value <= reported.high < math.inf:
            return f"{name} cannot be {reported.value:g}"
    if not 0 <= (run.measured_duration_s or 0.0) < math.inf:
        return f"a run cannot take {run.measured_duration_s:g} s"
    if not 0 <= run.omitted_s < math.inf:
        return f"a tool cannot omit a warm-up of {run.omitted_s:g} s"
    return ""


@lru_cache(maxsize=1024)
def _describe_level_error(workload: str, name: str, level: Level) -> str:
    try:
        check_factor_workload(name, workload)
        value_type = require_factor_or_label(name).value_type
        value_type.parse(value_type.format(level))
    except BenchError as error:
        return error.what
    return ""


def _serialize_run(run: Run) -> bytes:
    """Return a run for the database. A million intervals are about 70 MB, compressed a fraction of that."""
    return zlib.compress(pickle.dumps(run), level=1)
