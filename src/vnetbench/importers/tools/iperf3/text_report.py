"""iperf3's text: one run of a client, or one test of a server's log, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from vnetbench.importers.command_line import Command
from vnetbench.importers.json_documents import Extent
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.runs import CUT_OFF, FORWARD, Run
from vnetbench.importers.tools.iperf3 import line_patterns
from vnetbench.importers.tools.iperf3.endpoint_results import (
    CLIENT,
    RECEIVER,
    SENDER,
    SERVER,
    WAYS,
    Ends,
    cpu_figures,
    known,
    reckon,
)
from vnetbench.importers.tools.iperf3.json_parts import intervals_of
from vnetbench.importers.tools.iperf3.options import asked_of, known_level
from vnetbench.importers.tools.iperf3.text_facts import Facts
from vnetbench.importers.tools.iperf3.text_rows import Rows
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, STREAM

TOOL = "iperf3"
SENT_BACK = "its intervals are those that the server sent back (--get-server-output)"

_RANK = {"is_version": 0, "is_listening": 1, "is_connecting": 2, "is_accepted": 2, "is_connected": 3}
"""The order of the lines with which a run begins: one that comes too late begins the next run."""
_BEGUN = _RANK["is_connecting"]
_LOOK_AHEAD = 20
"""So many lines of something else may stand in the middle of a run: those of `-d`, a kernel's, a person's."""


def read(lines: Lines, begins: Callable[[Lines], bool], command: Command | None = None) -> list[Run]:
    """The run that begins with the next line; none where a server waited in vain, or only says its version.

    A program whose output goes to a file writes its errors first, and all else when it ends. So a run whose
    error stands before it is one run; a whole run after an error is a second one.
    """
    first = lines.number + 1
    error = errors(lines)
    failed = [_failed(error, first, lines.number, command)] if error else []
    if error and not _is_next(lines, "is_connecting", "is_version"):
        return failed
    then, reading = lines.number + 1, Reading(lines, begins)
    reading.walk()
    if reading.is_empty:
        return failed
    if error and reading.is_done:
        return [*failed, reading.run(then, command)]
    return [reading.run(first, command, error)]


def errors(lines: Lines) -> str:
    """What the lines say that come next, as far as they are errors; they are taken."""
    found: list[str] = []
    while (line := lines.peek()) is not None:
        begun = line_patterns.beginning_in(line)
        if begun is None or begun.lastgroup != "is_error":
            break
        lines.take()
        found += [begun["error"].strip()] if begun["error"].strip() not in found else []
    if found and (lines.peek() or "").startswith("Usage: "):
        while (line := lines.peek()) is not None and line_patterns.USAGE.match(line):
            lines.take()
    return "; ".join(found)


def intervals_in(lines: Lines, begins: Callable[[Lines], bool]) -> PackedIntervals:
    """The intervals of the text that comes next: a server's that receives, sent back to its client."""
    reading = Reading(lines, begins)
    reading.walk()
    reading.rows.settle((FORWARD,))
    return reading.rows.intervals


class Reading:
    """A run while its lines are taken."""

    def __init__(self, lines: Lines, begins: Callable[[Lines], bool]) -> None:
        self.rows = Rows()
        self.facts = Facts()
        self._lines, self._begins = lines, begins
        self._rank = -1
        self._is_in_summary = False
        self.is_done = False
        """Whether the client said so."""
        self._error = ""
        self._sent_back: PackedIntervals | None = None
        self._strange: list[int] = []
        """Lines in the middle that are none of its own, or broken."""

    def walk(self) -> None:
        """Take the lines of the run, and none after it."""
        is_row = line_patterns.ROW.search
        while not (self._error or self.is_done) and (line := self._lines.peek()) is not None:
            row = is_row(line)
            if row is not None:
                self._lines.take()
                self._take_row(row)
            elif begun := line_patterns.beginning_in(line):
                if not self._goes_on_with(begun):
                    return
                self._take_beginning(begun)
            elif note := line_patterns.note_in(line):
                if not self._goes_on_with(note):
                    return
                self._take_note(note)
            elif not self._take_strange(line):
                return

    @property
    def is_empty(self) -> bool:
        """Nobody came, and nothing went wrong but that it was ended by hand."""
        is_idle = self._rank < _BEGUN and not self._is_in_summary and not len(self.rows.intervals)
        return is_idle and (not self._error or "the server has terminated" in self._error)

    @property
    def is_whole(self) -> bool:
        """Whether it has all that a whole run has.

        A client that is interrupted shows a summary with zeros for the receiver, and no end.
        """
        is_ended = self.is_done or self.facts.role == SERVER or not self.rows.sends_alone
        return not self._error and self._has_summary and is_ended

    def run(self, first_line: int, command: Command | None = None, error: str = "") -> Run:
        """What was read, once its lines are taken; `error`: what had been said before them."""
        facts = self.facts
        workload = self._workload(asked_of(command).workload)
        asked = asked_of(command, workload)
        factors = {**asked.factors, **self._factors(workload)}
        direction = factors.get("direction", FORWARD)
        fault = self._error or error or ("" if self.is_whole else CUT_OFF)
        ways = WAYS.get(direction, (FORWARD,))
        self.rows.settle(ways)
        reckoned = reckon(workload, known(self._ends(ways, factors), facts.role, is_whole=not fault))
        cpu = cpu_figures(facts.role, direction, facts.cpu, is_whole=not fault) if facts.cpu else {}
        return Run(
            tool=TOOL,
            version=facts.version,
            first_line=first_line,
            last_line=self._lines.number,
            workload=workload,
            factors=factors,
            figures={**reckoned.figures, **cpu},
            intervals=self._intervals(ways),
            duration_s=reckoned.duration_s,
            omitted_s=self.rows.omitted_s,
            started_at=facts.started_at,
            told_by=reckoned.told_by,
            connection=facts.connection,
            command=command.text if command else "",
            also={**asked.also, **facts.also},
            fault=fault or ("" if reckoned.figures else CUT_OFF),
            remarks=(*reckoned.remarks, *self._remarks()),
        )

    # ---- taking lines

    def _take_row(self, row: re.Match[str]) -> None:
        groups = row.groups()
        self._is_in_summary |= groups[-1] in (SENDER, RECEIVER)
        if self._is_in_summary:
            self.rows.take_summary(row)
        elif not self.rows.take_interval(groups):
            self._strange.append(self._lines.number)

    def _goes_on_with(self, found: re.Match[str]) -> bool:
        """Whether a line of iperf3's is one of this run, not of the next one."""
        name = str(found.lastgroup)
        if name == "is_dashes":
            return self._rank < _BEGUN
        if name == "is_done":
            return self.facts.role != SERVER
        if name == "is_header":
            return not (self._is_in_summary and self._has_summary)
        if name == "is_connected":
            return self._rank <= _RANK[name] and not len(self.rows.intervals)
        return name not in _RANK or _RANK[name] > self._rank

    def _take_beginning(self, begun: re.Match[str]) -> None:
        name = str(begun.lastgroup)
        if name == "is_error":
            self._error = errors(self._lines)
            return
        self._lines.take()
        self._rank = _RANK.get(name, self._rank)
        self.facts.take_beginning(name, begun)
        self.rows.counts_datagrams |= self.facts.protocol == "UDP"
        system = self._lines.peek()
        if (
            name == "is_version"
            and system
            and not line_patterns.beginning_in(system)
            and not line_patterns.note_in(system)
        ):
            self.facts.also["system_info"] = self._lines.take().strip()

    def _take_note(self, note: re.Match[str]) -> None:
        name = str(note.lastgroup)
        self._lines.take()
        self.facts.take_note(name, note)
        if name == "is_broken":
            self._strange.append(self._lines.number)
        if name == "is_done":
            self.is_done = True
        elif name == "is_separator":
            self._is_in_summary |= _is_next(self._lines, "is_header")
        elif name == "is_servers_output":
            self._sent_back = intervals_in(self._lines, self._begins)
        elif name == "is_servers_document":
            self._take_document()

    def _take_document(self) -> None:
        """What a server with `-J` sent back."""
        extent, rest = Extent(), None
        while rest is None and self._lines.peek() is not None and not self._begins(self._lines):
            rest = extent.feed(self._lines.take())
        try:
            self._sent_back = intervals_of(extent.document())
        except ValueError:
            self._strange.append(self._lines.number)

    def _take_strange(self, line: str) -> bool:
        """Take a line that is none of iperf3's; False where the run does not go on after it."""
        if (line.strip() and self._begins(self._lines)) or not self._goes_on_after():
            return False
        self._lines.take()
        if not self.facts.is_blank(line):
            self._strange.append(self._lines.number)
        return True

    def _goes_on_after(self) -> bool:
        """Whether one of the lines after the next one is of this run again."""
        for ahead in range(1, _LOOK_AHEAD + 1):
            line = self._lines.peek(ahead)
            if line is None:
                return False
            if line_patterns.ROW.search(line):
                return True
            if found := line_patterns.beginning_in(line) or line_patterns.note_in(line):
                return self._goes_on_with(found)
        return False

    # ---- what they come to

    @property
    def _has_summary(self) -> bool:
        marks = self.rows.marks()
        wanted = {SENDER, RECEIVER} if self.facts.role == CLIENT else set()
        is_told = all(wanted <= told or "" in told for told in marks.values())
        return bool(marks) and is_told and len(marks) > self.facts.is_both_ways

    def _workload(self, asked: str) -> str:
        return {"": asked, "UDP": DATAGRAMS}.get(self.facts.protocol, STREAM)

    def _factors(self, workload: str) -> dict[str, Level]:
        facts = self.facts
        streams = facts.streams // (2 if facts.is_both_ways else 1) or self.rows.streams
        rate = facts.bit_rate
        raw: dict[str, object] = {
            "streams": streams or None,
            "direction": self._direction(),
            "ip_version": facts.ip_version,
            "message_size": facts.block_bytes and f"{facts.block_bytes} B",
            "datagram_size": facts.block_bytes and f"{facts.block_bytes} B",
            "bit_rate": rate and f"{rate} bit/s",
            "pacing_rate": rate and f"{rate} bit/s",
            "congestion_control": facts.congestion or None,
            **facts.labels(),
        }
        levels = {name: known_level(name, workload, each) for name, each in raw.items() if each is not None}
        return {name: level for name, level in levels.items() if level is not None}

    def _direction(self) -> str | None:
        """Absent where a log that was cut off does not tell it yet."""
        facts = self.facts
        if facts.is_both_ways or self.rows.is_both_ways:
            return "both"
        if facts.is_reverse:
            return "reverse"
        if not facts.protocol or not facts.role:
            return None
        is_reverse = facts.role == SERVER and (facts.sends or self.rows.sends_alone)
        return "reverse" if is_reverse else "forward"

    def _ends(self, ways: tuple[str, ...], factors: dict[str, Level]) -> Ends:
        size = factors.get("datagram_size")
        return self.rows.ends(ways, None if size is None else int(size), self.facts.role)

    def _intervals(self, ways: tuple[str, ...]) -> PackedIntervals:
        """Its own, or where the server's output is beside them and says what arrived, that one's."""
        return self._sent_back if self._sent_back and ways == (FORWARD,) else self.rows.intervals

    def _remarks(self) -> Iterator[str]:
        yield from self.facts.remarks
        if self._sent_back:
            yield SENT_BACK
        if self._strange:
            first = self._strange[0]
            yield f"lines in it that were not understood: {len(self._strange)}, the first is {first}"


def _is_next(lines: Lines, *names: str) -> bool:
    """Whether one of these beginnings comes next, or after the title of the summary."""
    line = lines.peek() or ""
    if "Test Complete" in line:
        line = lines.peek(1) or ""
    begun = line_patterns.beginning_in(line)
    return begun is not None and begun.lastgroup in names


def _failed(error: str, first: int, last: int, command: Command | None) -> Run:
    """A run of which there is nothing but its error."""
    asked = asked_of(command)
    return Run(
        tool=TOOL,
        version="",
        first_line=first,
        last_line=last,
        workload=asked.workload,
        factors=asked.factors,
        figures={},
        command=command.text if command else "",
        also=asked.also,
        fault=error,
    )
