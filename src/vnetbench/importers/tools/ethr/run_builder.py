"""The runs that a test of ethr makes, in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vnetbench.importers.arithmetic import mean, times, total
from vnetbench.importers.run_lines import CUT_OFF
from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval, Run
from vnetbench.importers.tools.ethr.report import SHARES, Report
from vnetbench.study.model import Level
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, REQUESTS, STREAM


def runs_of(report: Report, command: str, first: int, last: int) -> list[Run]:
    if report.latencies:
        begun = [first, *(number for number, _ in report.latencies[1:])]
        ends = [*(number for number, _ in report.latencies[:-1]), last]
        return [
            _of_latencies(report, command, told, lines)
            for (_, told), *lines in zip(report.latencies, begun, ends, strict=True)
        ]
    if report.is_serving and not report.rows:
        return []
    return [_of_rows(report, command, first, last)]


def _of_latencies(report: Report, command: str, told: Mapping[str, Figure], lines: list[int]) -> Run:
    is_ping = report.kind == "ping" or report.options.get("t") == "pi"
    of = "connect" if is_ping else "latency"
    figures = {
        f"{of}_{name}_us": figure
        for name, figure in told.items()
        if name == "mean" or not report.count or report.count * (100 - SHARES[name]) >= 100
    }
    sizes: dict[str, Level] = {}
    if report.size and not is_ping:
        sizes = {"request_size": report.size, "response_size": report.size}
    remarks = (
        ("ethr wrote its percentiles under shifted names: they are put right",) if report.is_shifted else ()
    )
    return Run(
        tool="ethr",
        version=report.version,
        first_line=lines[0],
        last_line=lines[1],
        workload=CONNECTIONS if is_ping else REQUESTS,
        factors={**sizes, "connections": 1, "direction": "forward"},
        figures=figures,
        started_at=report.started_at,
        told_by="sender",
        command=command,
        also=_also(report),
        remarks=remarks,
    )


def _of_rows(report: Report, command: str, first: int, last: int) -> Run:
    workload = DATAGRAMS if report.protocol == "UDP" or report.options.get("p") == "udp" else STREAM
    if report.kind == "connections" or report.options.get("t") == "c":
        workload = CONNECTIONS
    is_reverse = "r" in report.options
    seconds = dict(_seconds(report))
    is_whole = bool(seconds) and (report.is_done or report.is_serving)
    factors: dict[str, Level] = {"direction": "reverse" if is_reverse else "forward"}
    if not report.is_serving:  # A server adds up what comes from one address.
        count = len(report.streams) or int(report.options.get("n", "1"))
        factors["connections" if workload == CONNECTIONS else "streams"] = count
    return Run(
        tool="ethr",
        version=report.version,
        first_line=first,
        last_line=last,
        workload=workload,
        factors=factors,
        figures=_figures(report, workload, seconds) if is_whole else {},
        intervals=tuple(_intervals(report, workload, seconds, REVERSE if is_reverse else FORWARD)),
        duration_s=float(len(seconds)) or None,
        started_at=report.started_at,
        told_by="receiver" if report.is_serving or is_reverse else "sender",
        command=command,
        also={**_also(report), **_untold(workload, seconds)},
        fault="" if is_whole else report.failure or CUT_OFF,
        remarks=tuple(_remarks(report, workload)),
    )


def _seconds(report: Report) -> Iterable[tuple[int, dict[str, Figure]]]:
    """Each second, all streams together: as ethr sums them, else added up here."""
    for second in sorted({second for second, _ in report.rows}):
        told = {stream: row for (at, stream), row in report.rows.items() if at == second}
        rows = [told["SUM"]] if "SUM" in told else list(told.values())
        names = set(rows[0]).intersection(*rows)
        yield second, {name: total(row[name] for row in rows) for name in sorted(names)}


def _is_sending(report: Report) -> bool:
    return not report.is_serving and "r" not in report.options


def _figures(report: Report, workload: str, seconds: Mapping[int, dict[str, Figure]]) -> dict[str, Figure]:
    names = {"bits": "goodput_bps"} if workload == STREAM else {}
    if workload == DATAGRAMS:
        arrived = {"bits": "goodput_bps", "packets": "datagrams_received_per_s"}
        names = {"packets": "datagrams_sent_per_s"} if _is_sending(report) else arrived
    return {
        ours: mean(row[theirs] for row in seconds.values())
        for theirs, ours in names.items()
        if all(theirs in row for row in seconds.values())
    }


def _intervals(
    report: Report, workload: str, seconds: Mapping[int, dict[str, Figure]], way: str
) -> Iterable[Interval]:
    """Of datagrams only a receiver's: a sender knows nothing of what arrived."""
    if workload == CONNECTIONS or (workload == DATAGRAMS and _is_sending(report)):
        return
    for second, row in seconds.items():
        if "bits" in row:
            yield Interval(float(second), second + 1.0, {"bytes": times(row["bits"], 1 / 8)}, way=way)


def _also(report: Report) -> dict[str, str]:
    return {name: text for name, text in (("title", report.title), ("ended", report.how)) if text}


def _untold(workload: str, seconds: Mapping[int, dict[str, Figure]]) -> dict[str, str]:
    """Connections a second without a request, which no metric of ours counts."""
    rows = [row["connections"] for row in seconds.values() if "connections" in row]
    return {"Conn/s": f"{mean(rows).value:g}"} if workload == CONNECTIONS and rows else {}


def _remarks(report: Report, workload: str) -> Iterable[str]:
    if workload == CONNECTIONS:
        yield "its connections carry no request: their rate is none of our metrics"
    elif workload == DATAGRAMS and _is_sending(report):
        yield "what arrived is not told"
    elif report.rows:
        yield "ethr tells no figure of the whole run: this is the mean of its seconds"
    if report.failure and report.rows:
        yield f"it says: {report.failure}"
