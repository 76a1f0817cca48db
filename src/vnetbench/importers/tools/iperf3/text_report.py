"""Read iperf3's text: one run of a client, or one test in a server's log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vnetbench.importers.command_line import CommandLine
from vnetbench.importers.json_documents import take_json_document_and_rest
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.reader import StartsRun
from vnetbench.importers.runs import CUT_OFF_FAILURE, Run
from vnetbench.importers.tools.iperf3 import line_patterns
from vnetbench.importers.tools.iperf3.endpoint_results import (
    CLIENT,
    DIRECTIONS_BY_LEVEL,
    RECEIVER,
    SENDER,
    SERVER,
    EndpointResults,
    compute_results,
    cpu_metrics,
    drop_unreported_endpoint,
)
from vnetbench.importers.tools.iperf3.json_parts import read_intervals
from vnetbench.importers.tools.iperf3.options import find_requested_options, parse_level_or_none_cached
from vnetbench.importers.tools.iperf3.text_facts import TextFacts
from vnetbench.importers.tools.iperf3.text_rows import TextRows
from vnetbench.study.factors.directions import FORWARD
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

TOOL = "iperf3"
SERVER_INTERVALS_REMARK = "The intervals are from the server's output (--get-server-output)."

_RANK_BY_START_LINE = {
    "is_version": 0,
    "is_listening": 1,
    "is_connecting": 2,
    "is_accepted": 2,
    "is_connected": 3,
}
"""The order of the lines with which a run starts. A line that is out of order starts the next run."""
_MAX_CONSECUTIVE_FOREIGN_LINES = 20
"""Maximum foreign lines within a run: output of `-d`, of the kernel, or of a person."""


def read_next_text_report(
    lines: LogLines, starts_any_run: StartsRun, command: CommandLine | None = None
) -> list[Run]:
    """Return the run that starts with the next line.

    There is none if a server waited in vain or only printed its version. A program whose output goes to a
    file writes its errors first, and everything else when it ends. So an error followed by an incomplete run
    is one run. An error followed by a complete run is two.
    """
    first = lines.last_taken_number + 1
    error = take_errors(lines)
    failed = [_build_failed_run(error, first, lines.last_taken_number, command)] if error else []
    if error and not line_patterns.is_start_line_next(lines, "is_connecting", "is_version"):
        return [] if error.startswith(_SECOND_SIGNAL_TEXT) else failed
    next_line, parser = lines.last_taken_number + 1, TextRunParser(lines, starts_any_run)
    parser.parse()
    if parser.has_no_run:
        return failed
    if error and parser.has_done_line:
        return [*failed, parser.build_run(next_line, command)]
    return [parser.build_run(first, command, error)]


def take_errors(lines: LogLines) -> str:
    """Take the next lines while they are errors, and return their messages."""
    messages: list[str] = []
    while (line := lines.peek_line()) is not None:
        match = line_patterns.find_start_line(line)
        if match is None or match.lastgroup != "is_error":
            break
        lines.take_line()
        messages += [match["error"].strip()] if match["error"].strip() not in messages else []
    if messages and (lines.peek_line() or "").startswith("Usage: "):
        while (line := lines.peek_line()) is not None and line_patterns.USAGE_LINE_PATTERN.match(line):
            lines.take_line()
    return "; ".join(messages)


def read_server_text_intervals(lines: LogLines, starts_run: StartsRun) -> PackedIntervals:
    """Return the intervals of the next text, which a receiving server sent back to its client."""
    parser = TextRunParser(lines, starts_run)
    parser.parse()
    parser.rows.set_interval_directions((FORWARD,))
    return parser.rows.intervals


_IDLE_SERVER_STOPPED_TEXT = "the server has terminated"
"""What riperf3 prints when its server is stopped. Without a client's connection it is no failed run."""
_SECOND_SIGNAL_TEXT = "interrupt - second signal"
"""What riperf3 prints when it is stopped, after the results of another run."""


class TextRunParser:
    """Parses the lines of one run."""

    def __init__(self, lines: LogLines, starts_run: StartsRun) -> None:
        self.rows = TextRows()
        self.facts = TextFacts()
        self._lines, self._starts_run = lines, starts_run
        self._last_start_line_rank = -1
        self._is_in_summary = False
        self.has_done_line = False
        """Whether the client printed its last line."""
        self._error = ""
        self._server_intervals: PackedIntervals | None = None
        self._foreign_line_numbers: list[int] = []
        """Numbers of lines within the run that are foreign or broken."""

    def parse(self) -> None:
        """Take the lines of the run, and none after it."""
        is_row = line_patterns.ROW_PATTERN.search
        while not (self._error or self.has_done_line) and (line := self._lines.peek_line()) is not None:
            row = is_row(line)
            if row is not None:
                if self._is_in_summary or not self._take_interval_rows():
                    self._lines.take_line()
                    self._process_row(row)
            elif start := line_patterns.find_start_line(line):
                if not self._belongs_to_run(start):
                    return
                self._process_start_line(start)
            elif note := line_patterns.find_other_line(line):
                if not self._belongs_to_run(note):
                    return
                self._process_other_line(note)
            elif not self._take_foreign_line_inside_run(line):
                return

    @property
    def has_no_run(self) -> bool:
        """Whether no client connected and the only error is that the server was stopped."""
        is_idle = (
            self._last_start_line_rank < _RANK_BY_START_LINE["is_connecting"]
            and not self._is_in_summary
            and not len(self.rows.intervals)
        )
        return is_idle and (not self._error or _IDLE_SERVER_STOPPED_TEXT in self._error)

    @property
    def is_complete(self) -> bool:
        """Whether the run has everything that a complete one has.

        An interrupted client prints a summary with zeros for the receiver, and no last line.
        """
        is_ended = self.has_done_line or self.facts.role == SERVER or not self.rows.has_only_sender
        return not self._error and self._has_summary_of_required_endpoints and is_ended

    def build_run(self, first_line: int, command: CommandLine | None = None, error: str = "") -> Run:
        """Return the run, once its lines are taken. `error` is the message in front of them."""
        facts = self.facts
        workload = self._detect_workload(find_requested_options(command).workload)
        requested = find_requested_options(command, workload)
        factors = {**requested.factors, **self._build_factors(workload)}
        direction = factors.get("direction", FORWARD)
        failure = self._error or error or ("" if self.is_complete else CUT_OFF_FAILURE)
        directions = DIRECTIONS_BY_LEVEL.get(direction, (FORWARD,))
        self.rows.set_interval_directions(directions)
        results = compute_results(
            workload,
            drop_unreported_endpoint(
                self._collect_endpoint_results(directions, factors), facts.role, is_complete=not failure
            ),
        )
        cpu = (
            cpu_metrics(facts.role, direction, facts.local_and_remote_cpu, is_run_complete=not failure)
            if facts.local_and_remote_cpu
            else {}
        )
        tool, version = line_patterns.split_tool_and_version(facts.version)
        is_riperf3 = command is not None and command.program == "riperf3"
        return Run(
            tool="riperf3" if is_riperf3 else tool,
            version=version,
            first_line=first_line,
            last_line=self._lines.last_taken_number,
            workload=workload,
            factors=factors,
            metrics={**results.metrics, **cpu},
            intervals=self._choose_own_or_server_intervals(directions),
            measured_duration_s=results.duration_s,
            omitted_s=self.rows.omitted_s,
            started_at=facts.started_at,
            reported_by=results.reported_by,
            first_connection_addresses=facts.first_connection_addresses,
            command=command.text if command else "",
            other_results={**requested.options_without_valid_level, **facts.other_results},
            failure=failure or ("" if results.metrics else CUT_OFF_FAILURE),
            remarks=(*results.remarks, *self._list_remarks()),
        )

    def _take_interval_rows(self) -> bool:
        """Take the next rows of intervals together. Return False if the next line is another one."""
        first = self._lines.last_taken_number + 1
        are_omitted = False
        if not (rows := self._lines.take_rows(line_patterns.INTERVAL_ROWS)):
            are_omitted, rows = True, self._lines.take_rows(line_patterns.OMITTED_ROWS)
        foreign = self.rows.add_intervals_and_list_unordered_rows(rows, are_omitted=are_omitted)
        self._foreign_line_numbers += [first + position for position in foreign]
        return bool(rows)

    def _process_row(self, row: re.Match[str]) -> None:
        """Add a row of the summary, or of an interval with an unknown loss."""
        self._is_in_summary |= row["mark"] in (SENDER, RECEIVER)
        if self._is_in_summary:
            self.rows.add_summary(row)
        elif not self.rows.add_interval(row):
            self._foreign_line_numbers.append(self._lines.last_taken_number)

    def _belongs_to_run(self, match: re.Match[str]) -> bool:
        """Return whether a line of iperf3 belongs to this run and not to the next one."""
        name = str(match.lastgroup)
        if name == "is_dashes":
            return self._last_start_line_rank < _RANK_BY_START_LINE["is_connecting"]
        if name == "is_done":
            return self.facts.role != SERVER
        if name == "is_header":
            return not (self._is_in_summary and self._has_summary_of_required_endpoints)
        if name == "is_connected":
            return self._last_start_line_rank <= _RANK_BY_START_LINE[name] and not len(self.rows.intervals)
        return name not in _RANK_BY_START_LINE or _RANK_BY_START_LINE[name] > self._last_start_line_rank

    def _process_start_line(self, start: re.Match[str]) -> None:
        name = str(start.lastgroup)
        if name == "is_error":
            self._process_error_lines()
            return
        self._lines.take_line()
        self._last_start_line_rank = _RANK_BY_START_LINE.get(name, self._last_start_line_rank)
        self.facts.add_start_line(name, start)
        self.rows.is_lone_count_of_datagrams |= self.facts.protocol == "UDP"
        system = self._lines.peek_line()
        if (
            name == "is_version"
            and system
            and not line_patterns.find_start_line(system)
            and not line_patterns.find_other_line(system)
        ):
            self.facts.other_results["system_info"] = self._lines.take_line().strip()

    def _process_error_lines(self) -> None:
        """Take an error. A server that was stopped after the run printed it after complete results."""
        message = take_errors(self._lines)
        is_after_results = self._is_in_summary and self._has_summary_of_required_endpoints
        is_stop = message.startswith("interrupt - ")
        if self.facts.role == SERVER and is_stop and is_after_results:
            self.has_done_line = True
            return
        self._error = message
        separator = line_patterns.find_other_line(self._lines.peek_line() or "")
        header = line_patterns.find_start_line(self._lines.peek_line(1) or "")
        if separator is None or separator.lastgroup != "is_separator":
            return
        if header is not None and header.lastgroup == "is_header":  # Its sums may follow, on another stream.
            self._lines.take_line()
            self._lines.take_line()
            for _ in self._lines.take_while(line_patterns.ROW_PATTERN):
                pass

    def _process_other_line(self, note: re.Match[str]) -> None:
        name = str(note.lastgroup)
        self._lines.take_line()
        self.facts.add_other_line(name, note)
        if name == "is_broken":
            self._foreign_line_numbers.append(self._lines.last_taken_number)
        if name == "is_done":
            self.has_done_line = True
        elif name == "is_separator":
            self._is_in_summary |= line_patterns.is_start_line_next(self._lines, "is_header")
        elif name == "is_servers_output":
            self._server_intervals = read_server_text_intervals(self._lines, self._starts_run)
        elif name == "is_servers_document":
            self._take_server_json_document()

    def _take_server_json_document(self) -> None:
        """Take the document that a server with `-J` sent back."""
        if self._lines.peek_line() is None or self._starts_run(self._lines):
            self._foreign_line_numbers.append(self._lines.last_taken_number)
            return
        try:
            buffer, _ = take_json_document_and_rest(self._lines, self._starts_run)
            self._server_intervals = read_intervals(buffer.parse())
        except ValueError:
            self._foreign_line_numbers.append(self._lines.last_taken_number)

    def _take_foreign_line_inside_run(self, line: str) -> bool:
        """Take a line that is not iperf3's. Return False if the run does not continue after it."""
        if (line.strip() and self._starts_run(self._lines)) or not self._continues_after_foreign_lines():
            return False
        self._lines.take_line()
        if not self.facts.is_blank_after_prefix(line):
            self._foreign_line_numbers.append(self._lines.last_taken_number)
        return True

    def _continues_after_foreign_lines(self) -> bool:
        """Return whether one of the lines after the next one belongs to this run."""
        for ahead in range(1, _MAX_CONSECUTIVE_FOREIGN_LINES + 1):
            line = self._lines.peek_line(ahead)
            if line is None:
                return False
            if line_patterns.ROW_PATTERN.search(line):
                return True
            if match := line_patterns.find_start_line(line) or line_patterns.find_other_line(line):
                return self._belongs_to_run(match)
        return False

    @property
    def _has_summary_of_required_endpoints(self) -> bool:
        summary_endpoints = self.rows.summary_endpoints()
        required = {SENDER, RECEIVER} if self.facts.role == CLIENT else set()
        has_both = all(required <= results or "" in results for results in summary_endpoints.values())
        return bool(summary_endpoints) and has_both and len(summary_endpoints) > self.facts.is_bidirectional

    def _detect_workload(self, workload_if_protocol_unknown: str) -> str:
        return {"": workload_if_protocol_unknown, "UDP": UDP_STREAM}.get(self.facts.protocol, TCP_STREAM)

    def _build_factors(self, workload: str) -> dict[str, Level]:
        facts = self.facts
        streams = (
            facts.total_stream_count // (2 if facts.is_bidirectional else 1)
            or self.rows.stream_count_per_direction
        )
        rate = facts.bit_rate
        raw_levels: dict[str, object] = {
            "streams": streams or None,
            "direction": self._detect_direction(),
            "ip_version": facts.ip_version,
            "message_size": facts.block_bytes and f"{facts.block_bytes} B",
            "datagram_size": facts.block_bytes and f"{facts.block_bytes} B",
            "bit_rate": rate and f"{rate} bit/s",
            "pacing_rate": rate and f"{rate} bit/s",
            "congestion_control": facts.congestion or None,
            **facts.labels_without_factor(),
        }
        levels = {
            name: parse_level_or_none_cached(name, workload, each)
            for name, each in raw_levels.items()
            if each is not None
        }
        return {name: level for name, level in levels.items() if level is not None}

    def _detect_direction(self) -> str | None:
        """Return the direction; None if a log that was cut off does not reveal it."""
        facts = self.facts
        if facts.is_bidirectional or self.rows.is_bidirectional:
            return "both"
        if facts.is_reverse:
            return "reverse"
        if not facts.protocol or not facts.role:
            return None
        is_reverse = facts.role == SERVER and (
            facts.is_this_endpoint_only_sender or self.rows.has_only_sender
        )
        return "reverse" if is_reverse else "forward"

    def _collect_endpoint_results(
        self, directions: tuple[str, ...], factors: dict[str, Level]
    ) -> EndpointResults:
        size = factors.get("datagram_size")
        return self.rows.endpoint_results(directions, None if size is None else int(size), self.facts.role)

    def _choose_own_or_server_intervals(self, directions: tuple[str, ...]) -> PackedIntervals:
        """Return the run's own intervals, or those of the server's output, which say what arrived."""
        return (
            self._server_intervals
            if self._server_intervals and directions == (FORWARD,)
            else self.rows.intervals
        )

    def _list_remarks(self) -> Iterator[str]:
        yield from self.facts.remarks
        if self._server_intervals:
            yield SERVER_INTERVALS_REMARK
        if self._foreign_line_numbers:
            numbers = self._foreign_line_numbers
            yield f"The run has {len(numbers)} unreadable lines. The first is line {numbers[0]}."


def _build_failed_run(error: str, first: int, last: int, command: CommandLine | None) -> Run:
    """Return a run that has nothing but its error."""
    requested = find_requested_options(command)
    return Run(
        tool=TOOL,
        version="",
        first_line=first,
        last_line=last,
        workload=requested.workload,
        factors=requested.factors,
        metrics={},
        command=command.text if command else "",
        other_results=requested.options_without_valid_level,
        failure=error,
    )
