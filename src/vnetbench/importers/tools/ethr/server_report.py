"""Build runs from the rows of an ethr server, which prints one row a second for each client.

A server's log has no marks between tests. It prints bandwidth, connections and latencies in one table, so
what a row reports decides which test it belongs to. A row of zeros belongs to the test before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vnetbench.importers.arithmetic import mean_value, scale_value, sum_values
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.study.factors.directions import FORWARD
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_CRR, TCP_RR, TCP_STREAM, UDP_STREAM

if TYPE_CHECKING:
    from vnetbench.importers.tools.ethr.report import EthrReport

SUM = "SUM"
"""The client of a row that adds up all clients of a second."""
_BANDWIDTH, _LATENCY, _CONNECTIONS = "bandwidth", "latency", "connections"
_WORKLOAD_BY_TEST_AND_PROTOCOL = {
    (_BANDWIDTH, "TCP"): TCP_STREAM,
    (_BANDWIDTH, "UDP"): UDP_STREAM,
    (_LATENCY, "TCP"): TCP_RR,
    (_CONNECTIONS, "TCP"): TCP_CRR,
}


@dataclass(frozen=True)
class ServerRow:
    """A row of a server: what one client, or all of them together, did in a second."""

    line_number: int
    client: str
    protocol: str
    values: Mapping[str, RoundedValue]
    """By name: `bits`, `packets`, `connections` (each per second), `latency_us`. Absent if not printed."""

    @property
    def test(self) -> str:
        """The test that the row reports; empty if nothing happened in its second."""
        if "latency_us" in self.values:
            return _LATENCY
        for name, test in (("bits", _BANDWIDTH), ("packets", _BANDWIDTH), ("connections", _CONNECTIONS)):
            if name in self.values and self.values[name].value > 0:
                return test
        return ""


def build_server_runs(report: EthrReport) -> list[Run]:
    """Return a run for each test in a server's rows, in the order of their first lines."""
    protocols = dict.fromkeys(row.protocol for row in report.server_rows)
    tests = [
        (protocol, test, seconds)
        for protocol in protocols
        for test, seconds in _split_into_named_tests(
            _group_by_second([row for row in report.server_rows if row.protocol == protocol])
        )
        if (test, protocol) in _WORKLOAD_BY_TEST_AND_PROTOCOL
    ]
    tests.sort(key=lambda each: each[2][0][0].line_number)
    return [_build_run(report, protocol, test, seconds) for protocol, test, seconds in tests]


_Second = Sequence[ServerRow]


def _group_by_second(rows: Iterable[ServerRow]) -> list[list[ServerRow]]:
    """Return the rows of each second. A client that occurs again starts the next one."""
    seconds: list[list[ServerRow]] = []
    for row in rows:
        if not seconds or row.client in {each.client for each in seconds[-1]}:
            seconds.append([])
        seconds[-1].append(row)
    return seconds


def _split_into_named_tests(seconds: Iterable[_Second]) -> list[tuple[str, list[_Second]]]:
    """Return the tests with their seconds, without those without load before and after a test."""
    tests: list[tuple[str, list[_Second]]] = []
    for rows in seconds:
        test = next((row.test for row in rows if row.test), "")
        if test and (not tests or tests[-1][0] != test):
            tests.append((test, []))
        if tests:
            tests[-1][1].append(rows)
    return [(test, _drop_idle_end(rows)) for test, rows in tests]


def _drop_idle_end(seconds: list[_Second]) -> list[_Second]:
    last = max(at for at, rows in enumerate(seconds) if any(row.test for row in rows))
    return seconds[: last + 1]


def _combine_clients(rows: _Second, name: str) -> RoundedValue | None:
    """Return a value of all clients together: ethr's own sum, or the sum of its clients."""
    sums = [row for row in rows if row.client == SUM]
    values = [row.values[name] for row in sums or rows if name in row.values]
    if not values:
        return None
    return mean_value(values) if name == "latency_us" else sum_values(values)


def _build_run(report: EthrReport, protocol: str, test: str, seconds: Sequence[_Second]) -> Run:
    workload = _WORKLOAD_BY_TEST_AND_PROTOCOL[test, protocol]
    series = {
        name: [value for rows in seconds if (value := _combine_clients(rows, name)) is not None]
        for name in ("bits", "packets", "connections", "latency_us")
    }
    names = {
        TCP_STREAM: {"bits": "goodput_bps"},
        UDP_STREAM: {"bits": "goodput_bps", "packets": "datagrams_received_per_s"},
        TCP_RR: {"latency_us": "latency_mean_us"},
        TCP_CRR: {},
    }[workload]
    intervals = [
        ReportInterval(float(at), at + 1.0, {"bytes": scale_value(value, 1 / 8)})
        for at, value in enumerate(series["bits"])
        if test == _BANDWIDTH
    ]
    factors: dict[str, Level] = {"direction": FORWARD}
    other_results = {"title": report.test_title} if report.test_title else {}
    if test == _CONNECTIONS:
        other_results["Conn/s"] = f"{mean_value(series['connections']).value:g}"
    is_first = seconds[0][0].line_number == report.server_rows[0].line_number
    return Run(
        tool=report.tool,
        version=report.version,
        first_line=report.first_line if is_first else seconds[0][0].line_number,
        last_line=seconds[-1][-1].line_number,
        workload=workload,
        factors=factors,
        metrics={ours: mean_value(series[theirs]) for theirs, ours in names.items() if series[theirs]},
        intervals=tuple(intervals),
        measured_duration_s=float(len(seconds)),
        started_at=report.started_at if is_first else None,
        reported_by="receiver",
        command=report.command_text,
        other_results=other_results,
        remarks=(_REMARK_BY_TEST[test],),
    )


_REMARK_BY_TEST = {
    _BANDWIDTH: "ethr reports no result of the whole run, so the result is the mean of the values for each "
    "second.",
    _LATENCY: "ethr's server reports the mean latency of each second, so the result is their mean.",
    _CONNECTIONS: "The connections carry no request, so vnetbench has no metric for their rate.",
}
