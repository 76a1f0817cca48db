"""netperf's classic tables: what the numbers of a row are, by the test and by how many there are.

Source: `nettest_bsd.c` and `nettest_omni.c` (their `fmt` strings), the manual's chapters of each test. Shares
of CPU are of all CPUs of an end, `-1` where they were not asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vnetbench.importers.arithmetic import over
from vnetbench.importers.runs import Figure
from vnetbench.importers.tools.netperf.test_types import BITS_PER_S, Test
from vnetbench.importers.units import NUMBER, counted, rounded
from vnetbench.study.model import Level
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, STREAM

NUMBERS = re.compile(rf"\s*{NUMBER}(?:\s+{NUMBER})*\s*$")
"""A row: `131072  16384  16384    10.00    11163.09   70.74    70.75    2.085   2.085`."""
_STREAM = ("receive_buffer", "send_buffer", "message", "elapsed", "throughput")
_REQUESTS = ("send_buffer", "receive_buffer", "request", "response", "elapsed", "rate")
_SENT = ("send_buffer", "message", "elapsed", "sent", "errors", "throughput")
_ARRIVED = ("receive_buffer", "elapsed", "arrived", "throughput")
_CPUS = ("local_cpu", "remote_cpu", "local_demand", "remote_demand")
_STREAM_ROWS = {5: _STREAM, 9: (*_STREAM, *_CPUS), 1: ("throughput",)}
_REQUEST_ROWS = {6: _REQUESTS, 10: (*_REQUESTS, *_CPUS), 1: ("rate",)}
_SENT_ROWS = {6: _SENT, 8: (*_SENT, "local_cpu", "local_demand"), 1: ("throughput",)}
_ARRIVED_ROWS = {4: _ARRIVED, 6: (*_ARRIVED, "remote_cpu", "remote_demand")}
_ALSO = {
    "errors": "send errors",
    "local_demand": "local service demand",
    "remote_demand": "remote service demand",
}
_WORDS = re.compile(
    r"(?:Recv|Send|Socket|Size|Message|Elapsed|Time|Throughput|bytes|Bytes|secs\.|Utilization|Service|Demand"
    r"|local|remote|%|SS?|US?|us/KB|us/Tr|Local|/Remote|Request|Resp\.|Trans\.?|Rate|per|sec|Messages|Okay"
    r"|Errors|#|CPU|Util|S\.dem|Tput)"
)
"""The words of the tables' headings."""
_UNIT = re.compile(r"(?P<bits>10\^\dbits)(?:/s(?:ec)?)?$|(?P<other>[KMG]?Bytes|Usec|Trans)/s(?:ec)?$")


def is_heading(line: str) -> bool:
    """Whether a line is of a table's heading: all its words are netperf's own."""
    words = line.split()
    return bool(words) and all(_WORDS.fullmatch(word) or _UNIT.match(word) for word in words)


def unit_in(line: str) -> str | None:
    """The unit of throughput in a line of a heading: `10^6bits`, `MBytes`; `Usec` with `-f u`."""
    found = next((found for word in line.split() if (found := _UNIT.match(word))), None)
    return (found["bits"] or found["other"]) if found else None


@dataclass
class Table:
    """The rows of one test, as they are read."""

    test: Test
    rows: list[dict[str, str]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is missing."""
        is_single = bool(self.rows) and len(self.rows[0]) == 1
        return is_single or len(self.rows) >= (2 if self.test.workload == DATAGRAMS else 1)

    def take(self, numbers: Sequence[str]) -> bool:
        """Take a row; False where its number of columns is none that this test has."""
        forms = self._forms()
        if len(numbers) not in forms:
            return False
        self.rows.append(dict(zip(forms[len(numbers)], numbers, strict=True)))
        return True

    def _forms(self) -> dict[int, tuple[str, ...]]:
        if self.test.workload == DATAGRAMS:
            return _ARRIVED_ROWS if self.rows else _SENT_ROWS
        return _STREAM_ROWS if self.test.workload == STREAM else _REQUEST_ROWS

    @property
    def elapsed_s(self) -> float | None:
        """Of the test."""
        return float(self.rows[0]["elapsed"]) if self.rows and "elapsed" in self.rows[0] else None

    def factors(self) -> dict[str, Level]:
        """What the rows tell of the load."""
        names = {"request": "request_size", "response": "response_size"}
        names["message"] = "datagram_size" if self.test.workload == DATAGRAMS else "message_size"
        row = self.rows[0] if self.rows else {}
        return {ours: int(row[theirs]) for theirs, ours in names.items() if theirs in row}

    def figures(self, unit: str) -> dict[str, Figure]:
        """What the rows tell, with throughputs in this unit."""
        if not self.rows:
            return {}
        figures = dict(self._cpus())
        if self.test.workload == DATAGRAMS:
            return {**figures, **self._of_datagrams(unit)}
        row = self.rows[0]
        if "throughput" in row:
            figures["goodput_bps"] = rounded(row["throughput"], BITS_PER_S[unit])
        elif unit == "Trans":
            name = "connections_per_s" if self.test.workload == CONNECTIONS else "transactions_per_s"
            figures[name] = rounded(row["rate"])
        return figures

    def _of_datagrams(self, unit: str) -> dict[str, Figure]:
        sent = self.rows[0]
        if len(sent) == 1:
            return {}
        arrived = self.rows[1] if len(self.rows) > 1 else {}
        figures = {"datagrams_sent_per_s": over(counted(sent["sent"]), rounded(sent["elapsed"]))}
        if arrived:
            figures["datagrams_received_per_s"] = over(
                counted(arrived["arrived"]), rounded(arrived["elapsed"])
            )
            figures["goodput_bps"] = rounded(arrived["throughput"], BITS_PER_S[unit])
            lost = max(0, int(sent["sent"]) - int(arrived["arrived"]))
            figures["loss_percent"] = Figure.exact(100 * lost / max(1, int(sent["sent"])))
        return figures

    def _cpus(self) -> Iterable[tuple[str, Figure]]:
        ends = ("receiver", "sender") if self.test.is_reverse else ("sender", "receiver")
        row = {name: value for row in reversed(self.rows) for name, value in row.items()}
        for column, end in zip(("local_cpu", "remote_cpu"), ends, strict=True):
            if column in row and float(row[column]) >= 0:
                yield f"{end}_busy_percent", rounded(row[column])

    def also(self) -> dict[str, str]:
        """What is no metric of ours, by netperf's words."""
        rows = {name: value for row in self.rows for name, value in row.items()}
        return {words: rows[name] for name, words in _ALSO.items() if name in rows and rows[name] != "-1.000"}


def latency_row(numbers: Sequence[str]) -> Figure | None:
    """The mean round trip (µs) of what `-v 2` adds to a table of requests: its fifth number."""
    return rounded(numbers[4]) if len(numbers) == 8 else None
