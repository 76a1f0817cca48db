"""Read netperf's reports: a title, warnings and interim results, then a table or named results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vnetbench.importers.command_line import CommandLine
from vnetbench.importers.line_report import LineReport
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import SPACE, RowPattern
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.tools.netperf import omni_results
from vnetbench.importers.tools.netperf.classic_tables import (
    NUMBER_ROW_PATTERN,
    ClassicTable,
    find_throughput_unit,
    is_heading,
    parse_mean_round_trip_us,
    parse_transaction_rate,
)
from vnetbench.importers.tools.netperf.test_catalog import (
    DEFAULT_THROUGHPUT_UNIT,
    PROGRAMS,
    TEST_BY_NAME,
    TITLE_PATTERN,
    CommandRequestedTest,
    NetperfTest,
    find_test_name,
)
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS

_INTERIM_RESULT_ROWS = RowPattern(
    rf"Interim result:{SPACE}*(?P<rate>\S+) (?P<unit>\S+)/s over (?P<length_s>[\d.]+) seconds"
    r" ending at (?P<end_s>[\d.]+).*"
)
"""`Interim result: 9384.36 10^6bits/s over 0.500 seconds ending at 1700000000.123`."""
_INTERIM_CSV_ROWS = RowPattern(
    rf"{SPACE}*(?P<rate>[\d.]+),(?P<unit>[^,\n]+)/s,(?P<length_s>[\d.]+),(?P<end_s>\d+\.\d+){SPACE}*"
)
_ACHIEVED_CONFIDENCE_LINE = re.compile(r"!!! Confidence intervals: Throughput\s*: (?P<width>[\d.]+%)")
_REQUESTED_CONFIDENCE_PATTERN = re.compile(r"\+/-(?P<width>[\d.]+)% @ (?P<level>\d+)% conf")
_FIRST_BURST_PATTERN = re.compile(r"first burst (?P<count>\d+)")
_ERROR_LINE_START = "establish control: "
_ERROR_LINE = re.compile(
    r"establish.control: .*|establish_control could not .*|netperf: .*|recv_response\w*: .*|send_\w+: .*"
    r"|shutdown_control: .*|catcher: .*|get_transport_info: .*|remote error .*"
)
"""`establish control: are you sure there is a netserver listening on 10.0.0.2 at port 12865?`."""
_HINT_LINE = re.compile(
    r"Sorry, Demo Mode|Please consider reconfiguring netperf|--enable-\w+=yes|Resetting interim"
)
_VERBOSE_TABLE_HEADING_LINE = re.compile(
    r"Alignment\s+Offset|Local\s+Remote\s+Local\s+Remote|Send\s+Recv\s+Send|Maximum$|Segment$|Size \(bytes\)"
)
"""Headings that `-v 2` adds below a table."""
_HISTOGRAM_LINE = re.compile(
    r"Histogram of |(?:UNIT|TEN|HUNDRED)_(?:USEC|MSEC|SEC) +:|>100_SECS:|HIST_TOTAL:"
)
"""The histogram that `-v 2` and `-v 3` add below a table."""
_DIRECTION_BY_OMNI_TITLE = {"OMNI Send": "Send", "OMNI Receive": "Recv", "OMNI Send|Recv": "Send|Recv"}
_REMOTE_BUFFER_SIZES_LINE = re.compile(r"\d+\s+\d+$")
"""Buffer sizes of the remote endpoint, below a row of requests."""
_MAX_OMNI_HEADING_LINES = 12
"""Lines of omni headings. The longest headings have half as many."""
_NUMBER_PATTERN = re.compile(r"(?<!\S)-?\d+(?:\.\d+)?(?!\S)")
_OTHER_RESULT_NAMES = (
    "RT_LATENCY", "MIN_LATENCY", "MAX_LATENCY", "STDDEV_LATENCY", "LOCAL_SD", "REMOTE_SD", "SD_UNITS",
)  # fmt: skip


@dataclass
class NetperfReport(LineReport):
    """The output of one test."""

    tool = "netperf"
    programs = PROGRAMS
    row_patterns = (_INTERIM_RESULT_ROWS, _INTERIM_CSV_ROWS)

    requested_by_command: CommandRequestedTest = field(init=False)
    test_name: str = field(init=False)
    title: str = ""
    table_rate_unit: str | None = None
    table: ClassicTable | None = None
    omni_results_by_name: dict[str, str] = field(default_factory=dict)
    """Results of an omni test, by name."""
    pending_omni_headings: list[str] = field(default_factory=list)
    """Headings of an omni table or CSV, until the values follow."""
    remarks: list[str] = field(default_factory=list)
    mean_round_trip_us: RoundedValue | None = None
    verbose_transaction_rate: RoundedValue | None = None
    """The rate of requests, where `-v 3` prints no other table."""
    is_in_verbose_table: bool = False
    is_latency_row_next: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.requested_by_command = CommandRequestedTest.parse(self.command)
        self.test_name = self.requested_by_command.test_name

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a table's title, named results, or a command line is next."""
        line = lines.peek_line() or ""
        if " TEST " in line:
            title = TITLE_PATTERN.match(line)
            return title is not None and ("AF_" in line or find_test_name(title["title"]) in TEST_BY_NAME)
        if line.startswith(omni_results.FIRST_KEY_PREFIXES):
            return True
        return cls.parse_command(line) is not None or line.startswith(_ERROR_LINE_START)

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return netperf's command line in this line, unless it only asks for version or help."""
        command = super().parse_command(line) if "netperf" in line else None
        is_test = command is not None and not {"-V", "-h"} & set(command.arguments)
        return command if is_test else None

    @property
    def test(self) -> NetperfTest | None:
        """The test; None for omni tests, which only their results describe."""
        return TEST_BY_NAME.get(self.test_name)

    @property
    def is_complete(self) -> bool:
        """Whether the results are there."""
        has_results = any(not name.startswith("NETPERF_") for name in self.omni_results_by_name)
        has_table = self.table is not None and self.table.is_complete
        return has_results or has_table or self.verbose_transaction_rate is not None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test."""
        line = line.rstrip()
        if self.is_complete:
            return self._belongs_after_results(line)
        if TITLE_PATTERN.match(line):
            return not self.title
        patterns = (
            NUMBER_ROW_PATTERN,
            _INTERIM_RESULT_ROWS.line,
            _INTERIM_CSV_ROWS.line,
            omni_results.KEY_VALUE,
            _ERROR_LINE,
            _HINT_LINE,
        )
        is_known = any(pattern.match(line) for pattern in patterns) or self._is_verbose_line(line)
        return is_known or is_heading(line) or line.startswith("!!!")

    def _belongs_after_results(self, line: str) -> bool:
        """Return whether the line belongs to this test once its results are there."""
        if self._is_verbose_line(line):
            return True
        if self.omni_results_by_name:
            return not self.pending_omni_headings and omni_results.KEY_VALUE.match(line) is not None
        is_remote = not self.is_in_verbose_table and _REMOTE_BUFFER_SIZES_LINE.match(line) is not None
        is_extra = _VERBOSE_TABLE_HEADING_LINE.match(line) or (
            self.is_in_verbose_table and NUMBER_ROW_PATTERN.match(line)
        )
        return is_remote or bool(is_extra)

    def _is_verbose_line(self, line: str) -> bool:
        """Return whether the line is one that `-v 2` or `-v 3` adds to a classic table."""
        is_classic = self.test is not None and not self.omni_results_by_name
        return is_classic and bool(_HISTOGRAM_LINE.match(line) or _VERBOSE_TABLE_HEADING_LINE.match(line))

    def belongs_unless_run_starts(self, line: str) -> bool:
        """Return whether the line may be one of omni's headings or values, which can be any words."""
        if not line.strip() or self.is_complete or len(self.pending_omni_headings) >= _MAX_OMNI_HEADING_LINES:
            return False
        is_classic = (
            self.test is not None and not self.requested_by_command.is_omni and self.command is not None
        )
        return bool(self.pending_omni_headings) or bool(self.title and not is_classic and self.table is None)

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        line = line.rstrip()
        if (title := TITLE_PATTERN.match(line)) is not None and not self.is_complete:
            self._add_title(title)
        elif line.startswith("!!!"):
            if (achieved := _ACHIEVED_CONFIDENCE_LINE.match(line)) is not None:
                width = achieved["width"]
                self.remarks.append(
                    f"netperf did not reach the confidence that -I requests. Its interval is {width} wide."
                )
        elif (pair := omni_results.KEY_VALUE.match(line)) is not None:
            self.omni_results_by_name[pair["name"]] = pair["value"].strip('"')
        elif _ERROR_LINE.match(line):
            self.record_first_error(line)
        elif not _HINT_LINE.match(line):
            self._add_table_line(line)

    def _add_title(self, title: re.Match[str]) -> None:
        self.title = title["title"]
        self.test_name = find_test_name(self.title)
        if (confidence := _REQUESTED_CONFIDENCE_PATTERN.search(title["details"])) is not None:
            width = confidence["width"]
            self.remarks.append(
                f"The results are means over the iterations that netperf ran for an interval of ±{width} % "
                "(-I)."
            )
        burst = _FIRST_BURST_PATTERN.search(title["details"])
        if burst is not None and int(burst["count"]):
            count = int(burst["count"]) + 1
            self.remarks.append(f"netperf kept {count} requests outstanding on one connection (-b).")

    def _add_table_line(self, line: str) -> None:
        if _HISTOGRAM_LINE.match(line):
            return
        if _VERBOSE_TABLE_HEADING_LINE.match(line):
            self.is_in_verbose_table = True
            self.is_latency_row_next = self.is_latency_row_next or "RoundTrip" in line
        elif self.is_in_verbose_table:
            if self.is_latency_row_next and NUMBER_ROW_PATTERN.match(line):
                self.mean_round_trip_us = parse_mean_round_trip_us(line.split())
            if self.is_latency_row_next and self.table is None and NUMBER_ROW_PATTERN.match(line):
                self.verbose_transaction_rate = parse_transaction_rate(line.split())
            self.is_latency_row_next &= NUMBER_ROW_PATTERN.match(line) is None
        elif not self._add_classic_line(line):
            self._add_omni_headings_or_values(line)

    def _add_classic_line(self, line: str) -> bool:
        """Add a line of a classic table. Return False if it is none."""
        if self.test is None or self.pending_omni_headings:
            return False
        if NUMBER_ROW_PATTERN.match(line):
            table = self.table or ClassicTable(self.test)
            if not table.add(line.split()):
                return self.is_complete
            self.table = table
            return True
        if not is_heading(line):
            return False
        self.table_rate_unit = (
            self.table_rate_unit or find_throughput_unit(line) or ("Trans" if "per sec" in line else None)
        )
        return True

    def _add_omni_headings_or_values(self, line: str) -> None:
        is_csv = bool(self.pending_omni_headings) and "," in self.pending_omni_headings[0]
        if self.pending_omni_headings and is_csv:
            names, values = self.pending_omni_headings[0].split(","), line.split(",")
            if len(names) == len(values):
                self.omni_results_by_name = omni_results.pair_result_names_with_values(names, values)
        elif self.pending_omni_headings and _NUMBER_PATTERN.search(line):
            self.omni_results_by_name = omni_results.parse_columns(self.pending_omni_headings, line)
        else:
            self.pending_omni_headings.append(line)

    def build_runs(self) -> list[Run]:
        """Return the run of the test."""
        results, test = omni_results.drop_missing(self.omni_results_by_name), self.test
        if results and self.title in _DIRECTION_BY_OMNI_TITLE:
            results["DIRECTION"] = _DIRECTION_BY_OMNI_TITLE[self.title]
        workload = omni_results.find_workload(results, test.workload if test is not None else None)
        is_reverse = test.is_reverse if test is not None else results.get("DIRECTION") == "Recv"
        table = self.table if not results else None
        elapsed = results.get("ELAPSED_TIME")
        if results:
            other_results = {name: results[name] for name in _OTHER_RESULT_NAMES if name in results}
        else:
            other_results = table.other_results() if table is not None else {}
        metrics = self._compute_metrics(results, workload, is_reverse=is_reverse) if self.is_complete else {}
        run = Run(
            tool=self.tool,
            version="",
            first_line=self.first_line,
            last_line=self.last_line,
            workload=workload,
            factors=self._build_factors(results, workload, is_reverse=is_reverse),
            metrics=metrics,
            intervals=self._build_intervals(workload, REVERSE if is_reverse else FORWARD),
            measured_duration_s=float(elapsed) if elapsed else table.elapsed_s if table is not None else None,
            reported_by="" if WORKLOADS[workload].has_datagrams else "receiver" if is_reverse else "sender",
            command=self.command_text or results.get("COMMAND_LINE", ""),
            other_results=other_results,
            failure=self.failure_reason(is_complete=self.is_complete),
            remarks=tuple(self._list_run_remarks(results, workload)),
        )
        return [run]

    def _build_factors(
        self, results: Mapping[str, str], workload: str, *, is_reverse: bool
    ) -> dict[str, Level]:
        factors: dict[str, Level] = dict(self.test.factors) if self.test is not None else {}
        if results:
            factors |= omni_results.find_factors(results, workload)
        elif self.table is not None:
            factors |= self.table.factors()
        factors[WORKLOADS[workload].count_factor] = 1
        factors["direction"] = REVERSE if is_reverse else FORWARD
        if self.test is None and WORKLOADS[workload].has_requests and results.get("PROTOCOL") == "UDP":
            factors["label_protocol"] = "udp"
        return {**factors, **self.requested_by_command.socket_buffer_factor()}

    def _compute_metrics(
        self, results: Mapping[str, str], workload: str, *, is_reverse: bool
    ) -> dict[str, RoundedValue]:
        if results:
            return omni_results.find_metrics(results, workload, is_reverse=is_reverse)
        if self.table is None:
            return self._compute_verbose_metrics(workload)
        default_unit = self.requested_by_command.requested_throughput_unit or DEFAULT_THROUGHPUT_UNIT
        if WORKLOADS[workload].has_requests:
            default_unit = (
                "Trans" if self.requested_by_command.general_options.get("f", "x") == "x" else "other"
            )
        metrics = self.table.metrics(self.table_rate_unit or default_unit)
        return (
            {**metrics, "latency_mean_us": self.mean_round_trip_us}
            if self.mean_round_trip_us is not None
            else metrics
        )

    def _compute_verbose_metrics(self, workload: str) -> dict[str, RoundedValue]:
        """Return the metrics in the only table of `-v 3`."""
        rate, round_trip = self.verbose_transaction_rate, self.mean_round_trip_us
        if rate is None or round_trip is None or not WORKLOADS[workload].has_requests:
            return {}
        return {
            WORKLOADS[workload].achieved_rate_metric: rate,
            "latency_mean_us": round_trip,
        }

    def _build_intervals(self, workload: str, direction: str) -> PackedIntervals:
        """Return the intervals of `-D`. For UDP they count what was sent, so there are none."""
        load = WORKLOADS[workload]
        if not len(self.rows):
            named = omni_results.find_interim_results(self.omni_results_by_name)
            self.rows.extend(_INTERIM_RESULT_ROWS.names, named)
        if load.has_datagrams or load.has_connection_per_request:
            return PackedIntervals()
        return omni_results.build_intervals(self.rows, direction)

    def _list_run_remarks(self, results: Mapping[str, str], workload: str) -> Iterable[str]:
        yield from self.remarks
        if self.error_message and self.is_complete:
            yield f"netperf reported: {self.error_message}"
        has_requests = WORKLOADS[workload].has_requests
        is_protocol_known = self.test is not None or "PROTOCOL" in results or not results
        if not is_protocol_known:
            yield "The log does not say whether the load used TCP or UDP."
        if "P50_LATENCY" in results and has_requests:
            yield "The percentiles come from a histogram whose buckets are up to a tenth of the latency wide."
        if has_requests and self.table_rate_unit not in (None, "Trans"):
            yield "The option -f selected another unit than transactions, so the log has no transaction rate."
