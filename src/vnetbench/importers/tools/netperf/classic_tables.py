"""Read netperf's classic tables: the columns of a row, by the test and by the number of columns.

Source: `nettest_bsd.c` and `nettest_omni.c` (their `fmt` strings), the manual's chapter of each test. CPU
utilization is a share of all CPUs of an endpoint, `-1` if it was not requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vnetbench.importers.arithmetic import divide_values
from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.tools.netperf.test_catalog import BITS_PER_S_BY_UNIT, NetperfTest
from vnetbench.importers.units import NUMBER_PATTERN, parse_exact_count, parse_rounded
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS, Workload

NUMBER_ROW_PATTERN = re.compile(rf"\s*{NUMBER_PATTERN}(?:\s+{NUMBER_PATTERN})*\s*$")
"""A row: `131072  16384  16384    10.00    11163.09   70.74    70.75    2.085   2.085`."""
_STREAM_COLUMNS = ("receive_buffer", "send_buffer", "message", "elapsed", "throughput")
_REQUEST_COLUMNS = ("send_buffer", "receive_buffer", "request", "response", "elapsed", "rate")
_UDP_SENDER_COLUMNS = ("send_buffer", "message", "elapsed", "sent", "errors", "throughput")
_UDP_RECEIVER_COLUMNS = ("receive_buffer", "elapsed", "arrived", "throughput")
_CPU_COLUMNS = ("local_cpu", "remote_cpu", "local_demand", "remote_demand")
_STREAM_COLUMNS_BY_CELL_COUNT = {5: _STREAM_COLUMNS, 9: (*_STREAM_COLUMNS, *_CPU_COLUMNS), 1: ("throughput",)}
_REQUEST_COLUMNS_BY_CELL_COUNT = {6: _REQUEST_COLUMNS, 10: (*_REQUEST_COLUMNS, *_CPU_COLUMNS), 1: ("rate",)}
_UDP_SENDER_COLUMNS_BY_CELL_COUNT = {
    6: _UDP_SENDER_COLUMNS,
    8: (*_UDP_SENDER_COLUMNS, "local_cpu", "local_demand"),
    1: ("throughput",),
}
_UDP_RECEIVER_COLUMNS_BY_CELL_COUNT = {
    4: _UDP_RECEIVER_COLUMNS,
    6: (*_UDP_RECEIVER_COLUMNS, "remote_cpu", "remote_demand"),
}
_OTHER_RESULT_NAME_BY_COLUMN = {
    "errors": "send errors",
    "local_demand": "local service demand",
    "remote_demand": "remote service demand",
}
_HEADING_WORD_PATTERN = re.compile(
    r"(?:Recv|Send|Socket|Size|Message|Elapsed|Time|Throughput|bytes|Bytes|secs\.?|Utilization|Service|Demand"
    r"|local|remote|%|SS?|US?|us/KB|us/Tr|Local|/Remote|Request|Resp\.|Trans\.?|Rate|per|sec|Messages|Okay"
    r"|Errors|#|CPU|Util|S\.dem|Tput)"
)
"""Words in the headings of the tables."""
_THROUGHPUT_UNIT_PATTERN = re.compile(
    r"(?P<bits>10\^\dbits)(?:/s(?:ec)?)?$|(?P<other>[KMG]?Bytes|Usec|Trans)/s(?:ec)?$"
)


def is_heading(line: str) -> bool:
    """Return whether the line is part of a table's heading: all of its words are netperf's own."""
    words = line.split()
    return bool(words) and all(
        _HEADING_WORD_PATTERN.fullmatch(word) or _THROUGHPUT_UNIT_PATTERN.match(word) for word in words
    )


def find_throughput_unit(line: str) -> str | None:
    """Return the unit of throughput in a line of a heading: `10^6bits`, `MBytes`; `Usec` with `-f u`."""
    unit = next((unit for word in line.split() if (unit := _THROUGHPUT_UNIT_PATTERN.match(word))), None)
    return (unit["bits"] or unit["other"]) if unit else None


@dataclass
class ClassicTable:
    """The rows of one test."""

    test: NetperfTest
    rows: list[dict[str, str]] = field(default_factory=list)

    @property
    def workload(self) -> Workload:
        """Workload of the test."""
        return WORKLOADS[self.test.workload]

    @property
    def is_complete(self) -> bool:
        """Whether no row is missing."""
        is_single = bool(self.rows) and len(self.rows[0]) == 1
        return is_single or len(self.rows) >= (2 if self.workload.has_datagrams else 1)

    def add(self, numbers: Sequence[str]) -> bool:
        """Add a row. Return False if the test has no row with so many columns."""
        formats = self._next_row_columns_by_cell_count()
        if len(numbers) not in formats:
            return False
        self.rows.append(dict(zip(formats[len(numbers)], numbers, strict=True)))
        return True

    def _next_row_columns_by_cell_count(self) -> dict[int, tuple[str, ...]]:
        if self.workload.has_datagrams:
            return _UDP_RECEIVER_COLUMNS_BY_CELL_COUNT if self.rows else _UDP_SENDER_COLUMNS_BY_CELL_COUNT
        return _REQUEST_COLUMNS_BY_CELL_COUNT if self.workload.has_requests else _STREAM_COLUMNS_BY_CELL_COUNT

    @property
    def elapsed_s(self) -> float | None:
        """Duration of the test."""
        return float(self.rows[0]["elapsed"]) if self.rows and "elapsed" in self.rows[0] else None

    def factors(self) -> dict[str, Level]:
        """Return the factor levels in the rows."""
        names = {"request": "request_size", "response": "response_size", "message": self.workload.size_factor}
        row = self.rows[0] if self.rows else {}
        return {ours: int(row[theirs]) for theirs, ours in names.items() if theirs in row}

    def metrics(self, throughput_unit: str) -> dict[str, RoundedValue]:
        """Return the metrics in the rows. Throughputs are in this unit."""
        if not self.rows:
            return {}
        metrics = dict(self._compute_cpu_metrics())
        if self.workload.has_datagrams:
            return {**metrics, **self._compute_datagram_metrics(throughput_unit)}
        row = self.rows[0]
        if "throughput" in row:
            metrics["goodput_bps"] = parse_rounded(row["throughput"], BITS_PER_S_BY_UNIT[throughput_unit])
        elif throughput_unit == "Trans":
            metrics[self.workload.achieved_rate_metric] = parse_rounded(row["rate"])
        return metrics

    def _compute_datagram_metrics(self, unit: str) -> dict[str, RoundedValue]:
        sent = self.rows[0]
        if len(sent) == 1:
            return {}
        arrived = self.rows[1] if len(self.rows) > 1 else {}
        metrics = {
            "datagrams_sent_per_s": divide_values(
                parse_exact_count(sent["sent"]), parse_rounded(sent["elapsed"])
            )
        }
        if arrived:
            metrics["datagrams_received_per_s"] = divide_values(
                parse_exact_count(arrived["arrived"]), parse_rounded(arrived["elapsed"])
            )
            metrics["goodput_bps"] = parse_rounded(arrived["throughput"], BITS_PER_S_BY_UNIT[unit])
            lost = max(0, int(sent["sent"]) - int(arrived["arrived"]))
            metrics["loss_percent"] = RoundedValue.exact(100 * lost / max(1, int(sent["sent"])))
        return metrics

    def _compute_cpu_metrics(self) -> Iterable[tuple[str, RoundedValue]]:
        endpoints = ("receiver", "sender") if self.test.is_reverse else ("sender", "receiver")
        row = {name: value for row in reversed(self.rows) for name, value in row.items()}
        for column, endpoint in zip(("local_cpu", "remote_cpu"), endpoints, strict=True):
            if column in row and float(row[column]) >= 0:
                yield f"{endpoint}_busy_percent", parse_rounded(row[column])

    def other_results(self) -> dict[str, str]:
        """Return the results without a metric of ours, in netperf's words."""
        rows = {name: value for row in self.rows for name, value in row.items()}
        return {
            text: rows[name]
            for name, text in _OTHER_RESULT_NAME_BY_COLUMN.items()
            if name in rows and rows[name] != "-1.000"
        }


def parse_mean_round_trip_us(numbers: Sequence[str]) -> RoundedValue | None:
    """Return the mean round trip in µs from the row that `-v 2` adds to a table of requests."""
    return parse_rounded(numbers[4]) if len(numbers) == 8 else None


def parse_transaction_rate(numbers: Sequence[str]) -> RoundedValue | None:
    """Return the requests per second from the same row."""
    return parse_rounded(numbers[5]) if len(numbers) == 8 else None
