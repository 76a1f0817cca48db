"""The common base of tools whose output is read line by line, one run after another.

A tool module defines a subclass of `LineReport` and exports `READERS = (make_report_reader(ItsReport),)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from vnetbench.importers.command_line import CommandLine, OptionSyntax, find_command_line, parse_options
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import StartsRun, TextReader
from vnetbench.importers.row_columns import Row, RowColumns, RowPattern
from vnetbench.importers.run_lines import take_run_line
from vnetbench.importers.runs import CUT_OFF_FAILURE, Run
from vnetbench.importers.validation import drop_invalid_levels_and_intervals


@dataclass
class LineReport(ABC):
    """The output of one run. It collects the run's lines and then builds the run from them.

    Most tools report one run at a time. A tool that reports several runs together builds a list of them.
    """

    tool: ClassVar[str]
    """The tool's name in results files."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Names of the tool's programs on a command line."""
    option_syntax: ClassVar[OptionSyntax] = OptionSyntax()
    row_patterns: ClassVar[tuple[RowPattern, ...]] = ()
    """Rows of which a log may have very many. All have the same columns. Where one belongs to the run, those
    that follow it do too."""

    command: CommandLine | None
    """The command line in front of the output, where the log has it."""
    first_line: int
    last_line: int = field(init=False)
    """The line that was added last, the first line before that."""
    options: dict[str, str] = field(init=False)
    """Options of the command line, by name."""
    rows: RowColumns = field(init=False)
    """The rows so far."""
    error_message: str = ""
    """The first error message of the tool."""

    def __post_init__(self) -> None:
        self.last_line = self.first_line
        self.rows = RowColumns(self.row_patterns[0].names if self.row_patterns else ())
        self.options = parse_options(self.command.arguments, self.option_syntax) if self.command else {}

    @classmethod
    @abstractmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether the next line starts a run of the tool. Takes no line."""

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return the tool's command line in this line, if there is one."""
        return find_command_line(line, cls.programs)

    @abstractmethod
    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this run."""

    def belongs_unless_run_starts(self, line: str) -> bool:
        """Return whether the line belongs to this run, provided that no other run starts with it."""
        return False

    @abstractmethod
    def add_non_row_line(self, line: str) -> None:
        """Record what a line reports that is no row. Its number is `last_line`."""

    def add_line(self, line: str) -> RowPattern | None:
        """Record a line of the run. Return the pattern of the row that it is, if it is one."""
        for pattern in self.row_patterns:
            if (row := pattern.match_line(line)) is not None:
                self.add_rows([row], pattern.names)
                return pattern
        self.add_non_row_line(line)
        return None

    def add_rows(self, rows: Sequence[Row], value_names: Sequence[str]) -> None:
        """Append rows to the columns that all `row_patterns` share. Separators between rows are left out."""
        self.rows.extend(value_names, rows)

    @abstractmethod
    def build_runs(self) -> list[Run]:
        """Return the runs that the lines report; none for a server or a request for help."""

    @property
    def command_text(self) -> str:
        """The command line as the log has it, empty if there is none."""
        return self.command.text if self.command is not None else ""

    def record_first_error(self, message: str) -> None:
        """Keep the first error message: later ones are its consequences."""
        self.error_message = self.error_message or message

    def failure_reason(self, *, is_complete: bool) -> str:
        """Return the `Run.failure` of a run whose last lines are there, or are not."""
        return "" if is_complete else self.error_message or CUT_OFF_FAILURE


def make_report_reader(report_type: type[LineReport]) -> TextReader:
    """Return a reader that fills reports of this type and validates their runs."""

    def read_next_report(lines: LogLines, starts_run: StartsRun) -> list[Run]:
        report = report_type(report_type.parse_command(lines.peek_line() or ""), lines.last_taken_number + 1)
        if report.command is not None:
            lines.take_line()

        def belongs_to_run(line: str) -> bool:
            return report.belongs_to_run(line) or (
                report.belongs_unless_run_starts(line) and not starts_run(lines)
            )

        while (line := take_run_line(lines, starts_run, belongs_to_run)) is not None:
            report.last_line = lines.last_taken_number
            if (pattern := report.add_line(line)) is not None:
                _take_following_rows(lines, report, pattern)
        return [drop_invalid_levels_and_intervals(run) for run in report.build_runs()]

    return TextReader(report_type.tool, report_type.starts_run, read_next_report)


def _take_following_rows(lines: LogLines, report: LineReport, pattern: RowPattern) -> None:
    """Take the rows that are next, many at once."""
    line = lines.peek_line()
    if line is None or pattern.match_line(line) is None or not report.belongs_to_run(line):
        return
    while rows := lines.take_rows(pattern):
        report.last_line = lines.last_taken_number
        report.add_rows(rows, pattern.names)
