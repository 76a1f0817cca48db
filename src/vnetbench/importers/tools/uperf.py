"""Read uperf: the master's transaction lines, averages (`-a`), raw samples (`-R`) and run statistics.

Source: `print.c`, `numbers.c`, `master.c`. KB, MB, GB are powers of 1024; Kb/s, Mb/s, Gb/s are powers of
1000. Bytes and operations count both reads and writes. Only the averages say which of the two they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from vnetbench.importers.arithmetic import divide_values
from vnetbench.importers.command_line import OptionSyntax
from vnetbench.importers.cumulative_samples import CumulativeSamples, split_samples
from vnetbench.importers.line_report import LineReport, make_report_reader
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import RowPattern
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.importers.units import NUMBER_PATTERN, parse_exact_count, parse_rounded
from vnetbench.importers.value_columns import ValueColumn, parse_floats
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_RR, TCP_STREAM

_START_LINE = re.compile(
    r"Starting (?P<count>\d+) (?:threads|processes)(?>.*? running profile:)(?P<profile>.*?) \.\.\."
)
"""`Starting 2 threads running profile:netperf ...   0.00 seconds`."""
_TRANSACTION_LINE = re.compile(
    rf"(?P<name>\S+)\s+(?P<data>{NUMBER_PATTERN}[KMGTP]?B?)\s*/\s*(?P<seconds>{NUMBER_PATTERN}) *\(s\) =\s+"
    rf"(?P<rate>{NUMBER_PATTERN}(?:[KMGTP]?b/s)?)\s+(?P<ops>\d+)(?:op|txn)/s"
)
"""`Txn2     5.46GB /  30.23(s) =     1.55Gb/s       83322op/s`. uperf repeats the line while it grows."""
_RAW_SAMPLE_ROWS = RowPattern(
    r"timestamp_ms:(?P<ms>\d+\.\d+) name:(?P<name>\S+) nr_bytes:(?P<bytes>\d+) nr_ops:\d+.*"
)
"""With `-R`: `timestamp_ms:1589482100127.3811 name:Txn2 nr_bytes:131072 nr_ops:2`. Counts start with Txn2."""
_AVERAGES_HEADER_LINE = re.compile(r"(?P<subject>Txn|Flowop)\s+Count\s+avg\s+cpu\s+max\s+min")
_AVERAGE_LINE = re.compile(
    r"(?P<name>\w+)\s+(?P<count>\d+)(?:\s+[-+]?\.?\d[\d.,]*+(?:[eE][-+]?\d++)?[A-Za-z]\w*+){4}"
)
_HOST_TABLE_HEADER_LINE = re.compile(r"Hostname\s+Time\s+Data\s+Throughput\s+Operations\s+Errors")
_HOST_LINE = re.compile(
    rf"(?P<host>\S+)\s+(?P<seconds>{NUMBER_PATTERN})s\s+(?P<data>{NUMBER_PATTERN}[KMGTP]?B?)\s+"
    rf"(?P<rate>{NUMBER_PATTERN}(?:[KMGTP]?b/s)?)\s+(?P<ops>\d+)\s+(?P<errors>{NUMBER_PATTERN})\s*$"
)
_INTERFACE_LINE = re.compile(
    rf"(?P<name>\S+)(?:\s+\d+){{2}}\s+(?P<out>{NUMBER_PATTERN}[KMGTP]?b/s)\s+(?P<in>{NUMBER_PATTERN}[KMGTP]?b/s)\s*$"
)
"""Traffic of a network adapter: `eth0    81205    40602    9.77Gb/s    21.44Mb/s`."""
_LOOPBACK_INTERFACE = "lo"
"""It receives whatever it sends, so it does not reveal the direction."""
_MIN_RATIO_OF_ONE_DIRECTION = 5.0
"""Ratio of the bits in both directions from which on the smaller one is acknowledgements."""
_LAST_STATISTICS_LINE = re.compile(r"Difference\(%\)")
"""The last line of the run statistics."""
_OTHER_OUTPUT_LINE = re.compile(
    r"-{20,}$|Group Details|Strand Details|Run Statistics|Netstat statistics|Nic\s+opkts/s"
    r"|Allocating shared memory|Waiting to exchange stats|called out$|[TR]X [Cc]ommand \["
    r"|Master: Shutting down"
    r"|(?:Completed|Starting) handshake|Handshake phase|\s+(?:Done|Sending|Sent) |Sending \d+ slave_info_t"
    r"|TX worklist success|Unable to increase file descriptors|Set (?:Send|Recv) buffer size to "
    r"|.*(?:Send|Recv) buffer: [\d.]+KB \(Requested:"
)
"""Headings, the phases of `-v`, and warnings that change no figure."""
_ERROR_LINE = re.compile(
    r"\*\*\* Slave aborted! \*\*\*|WARNING: \d+ Errors detected during run|\*\* .*|[Ee]rror .*"
)
_REFUSED_LINE = re.compile(r"Error connecting to \S+$|\*\* \w+: Cannot connect to ")
"""What a master prints where no slave listens, instead of its first line."""
_TOTAL_LINE_NAME = "Total"
_EXPONENT_BY_PREFIX = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_AMOUNT_PATTERN = re.compile(rf"(?P<number>{NUMBER_PATTERN})(?P<prefix>[KMGTP]?)(?P<unit>B|b/s)?")
_WRITE_OPERATIONS = ("write", "send", "sendfile", "sendfilev")
_READ_OPERATIONS = ("read", "recv")


@dataclass
class UperfReport(LineReport):
    """The output of one run of the master."""

    tool = "uperf"
    programs = ("uperf",)
    option_syntax = OptionSyntax(
        name_by_value_option={
            "-m": "profile",
            "-i": "interval",
            "-P": "port",
            "-X": "file",
            "-E": "events",
            "-S": "name",
        },
        name_by_switch={"-s": "slave", "-h": "help", "-V": "version", "-a": "averages", "-R": "raw"},
    )

    row_patterns = (_RAW_SAMPLE_ROWS,)

    thread_count: int = 0
    profile: str = ""
    last_result_line_by_transaction: dict[str, re.Match[str]] = field(default_factory=dict)
    """Match of the last result line of each transaction, and of `Total`."""
    operation_count_by_type: dict[str, int] = field(default_factory=dict)
    """Number of operations by type, from the averages."""
    out_and_in_bps_by_interface: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Bits that left and that entered through each network adapter, per second."""
    current_averages_subject: str = ""
    """`Txn` or `Flowop` while a table of averages is read."""
    is_in_host_table: bool = False
    error_percent: str = ""
    has_statistics_end: bool = False

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether the master's first line, its failure to connect, or its command line is next."""
        line = lines.peek_line() or ""
        is_start = line.startswith("Starting ") and _START_LINE.match(line) is not None
        is_refused = line.startswith(("Error c", "** ")) and _REFUSED_LINE.match(line) is not None
        return is_start or is_refused or cls.parse_command(line) is not None

    @property
    def is_complete(self) -> bool:
        """Whether the total is there."""
        return (
            _TOTAL_LINE_NAME in self.last_result_line_by_transaction
            or _TOTAL_LINE_NAME in self.samples_by_transaction
            or self.has_statistics_end
        )

    @cached_property
    def samples_by_transaction(self) -> dict[str, CumulativeSamples]:
        """Raw samples of the bytes so far, by transaction, once all lines are there."""
        times_s = parse_floats(self.rows["ms"]) / 1e3
        return split_samples(self.rows["name"], times_s, self.rows["bytes"])

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this run."""
        if _START_LINE.match(line):
            return not self.thread_count
        if self.has_statistics_end:
            return False
        if self.current_averages_subject and _AVERAGE_LINE.match(line):
            return True
        if self.is_in_host_table and _HOST_LINE.match(line):
            return True
        patterns = (
            _TRANSACTION_LINE, _RAW_SAMPLE_ROWS.line, _AVERAGES_HEADER_LINE, _HOST_TABLE_HEADER_LINE,
            _LAST_STATISTICS_LINE, _OTHER_OUTPUT_LINE, _ERROR_LINE, _INTERFACE_LINE,
        )  # fmt: skip
        return any(pattern.match(line) for pattern in patterns)

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if (start := _START_LINE.match(line)) is not None:
            self.thread_count, self.profile = int(start["count"]), start["profile"]
        elif (transaction := _TRANSACTION_LINE.match(line)) is not None:
            # Groups and threads (-a, -g, -t) have lines of the same form below the total.
            if _TOTAL_LINE_NAME not in self.last_result_line_by_transaction:
                self.last_result_line_by_transaction[transaction["name"]] = transaction
        elif (header := _AVERAGES_HEADER_LINE.match(line)) is not None:
            self.current_averages_subject = header["subject"]
        elif self.is_in_host_table and (host := _HOST_LINE.match(line)) is not None:
            self.error_percent = host["errors"]
        elif self.current_averages_subject and (average := _AVERAGE_LINE.match(line)) is not None:
            if self.current_averages_subject == "Flowop":
                name = average["name"].lower()
                self.operation_count_by_type[name] = self.operation_count_by_type.get(name, 0) + int(
                    average["count"]
                )
        elif (interface := _INTERFACE_LINE.match(line)) is not None:
            rates = (_parse_bits_per_s(interface[name]).value for name in ("out", "in"))
            self.out_and_in_bps_by_interface[interface["name"]] = (next(rates), next(rates))
        elif _HOST_TABLE_HEADER_LINE.match(line):
            self.is_in_host_table, self.current_averages_subject = True, ""
        elif _LAST_STATISTICS_LINE.match(line):
            self.has_statistics_end = True
        elif _ERROR_LINE.match(line):
            self.record_first_error(line.strip(" *"))

    def build_runs(self) -> list[Run]:
        """Return the run of a master; none for a slave."""
        if {"slave", "help", "version"} & set(self.options):
            return []
        writes = sum(self.operation_count_by_type.get(name, 0) for name in _WRITE_OPERATIONS)
        reads = sum(self.operation_count_by_type.get(name, 0) for name in _READ_OPERATIONS)
        direction_of_bytes = self._detect_direction_of_bytes(writes, reads)
        has_requests, is_reverse = bool(writes and reads), direction_of_bytes == REVERSE
        direction = REVERSE if is_reverse else FORWARD
        transaction = self._find_data_transaction()
        factors: dict[str, Level] = {}
        if self.thread_count:
            factors["connections" if has_requests else "streams"] = self.thread_count
        is_known = bool(direction_of_bytes or has_requests) and transaction is not None
        run = Run(
            tool=self.tool,
            version="",
            first_line=self.first_line,
            last_line=self.last_line,
            workload=TCP_RR if has_requests else TCP_STREAM,
            factors={**factors, "direction": direction},
            metrics=self._compute_data_transaction_metrics(reads if has_requests else 0)
            if self.is_complete and is_known
            else {},
            intervals=self._build_intervals(direction) if is_known and not has_requests else (),
            measured_duration_s=self._find_duration_s(),
            reported_by="receiver" if is_reverse else "sender",
            command=self.command_text,
            other_results=self._collect_other_results(transaction),
            failure=self.failure_reason(is_complete=self.is_complete),
            remarks=tuple(self._list_remarks(transaction, is_known=is_known)),
        )
        return [run]

    def _detect_direction_of_bytes(self, write_count: int, read_count: int) -> str:
        """Return the direction of all bytes; empty if both carried data, or if the log does not say.

        Without the averages, the busiest network adapter shows it, unless it is the loopback.
        """
        if write_count or read_count:
            return "" if write_count and read_count else FORWARD if write_count else REVERSE
        rates = self.out_and_in_bps_by_interface
        busiest = max(rates, key=lambda name: max(rates[name]), default=_LOOPBACK_INTERFACE)
        sent, received = rates.get(busiest, (0.0, 0.0))
        if busiest == _LOOPBACK_INTERFACE:
            return ""
        if sent >= _MIN_RATIO_OF_ONE_DIRECTION * received:
            return FORWARD
        return REVERSE if received >= _MIN_RATIO_OF_ONE_DIRECTION * sent else ""

    def _find_data_transaction(self) -> str | None:
        """Return the transaction that carried the data. Those around it connect and disconnect."""
        sizes = {
            name: _parse_bytes(line["data"]).value
            for name, line in self.last_result_line_by_transaction.items()
            if name != _TOTAL_LINE_NAME
        }
        sizes |= {
            name: float(each.totals[-1])
            for name, each in self.samples_by_transaction.items()
            if name != _TOTAL_LINE_NAME
        }
        return max(sizes, key=lambda name: sizes[name]) if sizes else None

    def _find_duration_s(self) -> float | None:
        name = self._find_data_transaction()
        if name in self.last_result_line_by_transaction:
            return float(self.last_result_line_by_transaction[name]["seconds"])
        samples = self.samples_by_transaction.get(name or "")
        if samples is None or len(samples.times_s) < 2:
            return None
        return float(samples.times_s[-1] - samples.times_s[0])

    def _compute_data_transaction_metrics(self, request_count: int) -> dict[str, RoundedValue]:
        """Return the metrics of the transaction that carried the data."""
        name, duration_s = self._find_data_transaction() or "", self._find_duration_s()
        if request_count and duration_s:
            rate = divide_values(parse_exact_count(str(request_count)), RoundedValue.exact(duration_s))
            return {"transactions_per_s": rate}
        if name in self.last_result_line_by_transaction:
            return {"goodput_bps": _parse_bits_per_s(self.last_result_line_by_transaction[name]["rate"])}
        if duration_s:
            totals = self.samples_by_transaction[name].totals
            sent_bits = 8 * int(totals[-1] - totals[0])
            return {"goodput_bps": RoundedValue.exact(sent_bits / duration_s)}
        return {}

    def _build_intervals(self, direction: str) -> Sequence[ReportInterval]:
        """Return the intervals between raw samples of the transaction that carried the data."""
        samples = self.samples_by_transaction.get(self._find_data_transaction() or "")
        if samples is None:
            return ()
        times_s, amounts = samples.times_s - samples.times_s[0], np.diff(samples.totals)
        is_kept = (np.diff(samples.times_s) > 0) & (amounts >= 0)
        values = {"bytes": ValueColumn.exact(amounts[is_kept])}
        return PackedIntervals.of_columns(times_s[:-1][is_kept], times_s[1:][is_kept], values, direction)

    def _collect_other_results(self, transaction: str | None) -> dict[str, str]:
        results = {"profile": self.profile} if self.profile else {}
        for name, line in self.last_result_line_by_transaction.items():
            if name in (transaction, _TOTAL_LINE_NAME):
                results[name] = f"{line['data']} in {line['seconds']} s, {line['rate']}, {line['ops']} op/s"
        if self.error_percent:
            results["errors"] = f"{self.error_percent} %"
        return results

    def _list_remarks(self, transaction: str | None, *, is_known: bool) -> Iterable[str]:
        if not is_known:
            yield (
                "The log does not say whether uperf wrote or read the bytes, so the run has no goodput. "
                "Run uperf with -a."
            )
        elif transaction is not None:
            yield (
                f"The results are from the transaction {transaction}, which carried the data. Total also "
                "includes connecting."
            )
            yield "The log does not say whether the load used TCP or UDP."
            if not self.operation_count_by_type:
                yield "The busiest network adapter (Netstat statistics) shows the direction of the bytes."
        if self.error_message and self.is_complete:
            yield f"uperf reported: {self.error_message}"


def _parse_bytes(text: str) -> RoundedValue:
    amount = _AMOUNT_PATTERN.fullmatch(text)
    if amount is None:
        raise ValueError(f"not an amount of bytes: {text[:20]!r}")
    return parse_rounded(amount["number"], 1024.0 ** _EXPONENT_BY_PREFIX[amount["prefix"]])


def _parse_bits_per_s(text: str) -> RoundedValue:
    amount = _AMOUNT_PATTERN.fullmatch(text)
    if amount is None:
        raise ValueError(f"not a rate: {text[:20]!r}")
    return parse_rounded(amount["number"], 1000.0 ** _EXPONENT_BY_PREFIX[amount["prefix"]])


READERS = (make_report_reader(UperfReport),)
