"""The run that a group of connections of iperf 2 makes, in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vnetbench.importers.arithmetic import mean, over, times, total
from vnetbench.importers.run_lines import CUT_OFF
from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval, Run
from vnetbench.importers.tools.iperf2.connection_groups import Flow, Group, Told
from vnetbench.importers.tools.iperf2.report_rows import Row
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, REQUESTS, STREAM

_GOODPUT = {False: "goodput_forward_bps", True: "goodput_reverse_bps"}


def run_of(group: Group, told: Told) -> Run:
    """The run; with a fault where a stream does not tell its whole."""
    workload = _workload(group, told)
    wholes = {way: _wholes(group, told, way) for way in group.ways}
    is_whole = group.is_over and all(len(rows) == len(group.of_way(way)) for way, rows in wholes.items())
    rows = [row for each in wholes.values() for row in each]
    return Run(
        tool="iperf 2",
        version=group.peer,
        first_line=group.first_line,
        last_line=max(group.last_line, group.first_line),
        workload=workload,
        factors=_factors(group, told, workload),
        figures=_figures(group, told, workload, wholes) if is_whole else {},
        intervals=tuple(_intervals(group, told, workload)),
        duration_s=_longest(rows).value if rows else None,
        started_at=group.started_at,
        told_by=_end(group, told),
        command=told.asked.text,
        also=_also(group, told, rows),
        fault="" if is_whole else told.failure or CUT_OFF,
        remarks=tuple(_remarks(group, told)),
    )


def _workload(group: Group, told: Told) -> str:
    rows = [row for flow in group.streams.values() for row in (*flow.rows, *filter(None, [flow.report]))]
    if any("transactions" in row.values for row in rows) or "request_size" in told.sizes:
        return REQUESTS
    return DATAGRAMS if told.is_udp or any("datagrams" in row.values for row in rows) else STREAM


def _end(group: Group, told: Told) -> str:
    has_report = any(flow.report for flow in group.streams.values())
    if len(group.ways) != 1 or has_report or not told.is_end_known:
        return ""
    return "sender" if told.is_client != group.ways[0] else "receiver"


def _wholes(group: Group, told: Told, way: bool) -> list[Row]:
    """The rows of the whole, of each stream of a way.

    A single row may be the first interval of a run that was cut off: its command line tells.
    """
    options = told.asked.options
    interval, asked_s = options.get("interval", ""), options.get("time", "10")
    rows = [flow.whole for flow in group.of_way(way) if flow.whole is not None]
    if told.is_client and interval and float(interval) < float(asked_s):
        is_alone = {id(flow.whole) for flow in group.of_way(way) if len(flow.rows) == 1}
        rows = [row for row in rows if id(row) not in is_alone or row.end_s != float(interval)]
    return rows


def _longest(rows: list[Row]) -> Figure:
    """The length of the longest row, in seconds."""
    return max((row.length for row in rows), key=lambda length: length.value)


def _factors(group: Group, told: Told, workload: str) -> dict[str, Level]:
    factors = {**told.sizes, **told.asked.factors(is_udp=workload == DATAGRAMS)}
    if workload == REQUESTS:
        size = told.sizes.get("request_size")
        factors = {"request_size": size, "response_size": size} if size else {}
    ways = group.ways
    direction = "both" if len(ways) == 2 else "reverse" if ways == [True] else "forward"
    single = sum(name.isdigit() and back == ways[0] for name, back in group.flows)
    parallel = int(told.asked.options.get("parallel", "1")) if told.is_client else 1
    factors["connections" if workload == REQUESTS else "streams"] = max(single, parallel)
    return {**factors, "direction": direction}


def _figures(group: Group, told: Told, workload: str, wholes: Mapping[bool, list[Row]]) -> dict[str, Figure]:
    if workload == REQUESTS:
        return _of_requests([row for rows in wholes.values() for row in rows])
    if workload == DATAGRAMS:
        return _of_datagrams(group, told, wholes)
    goodput = {way: total(row.rate_bps for row in rows) for way, rows in wholes.items()}
    if len(goodput) == 2:
        return {
            "goodput_bps": total(goodput.values()),
            **{_GOODPUT[way]: figure for way, figure in goodput.items()},
        }
    summed = group.sums.whole if group.sums is not None else None
    figures = {"goodput_bps": summed.rate_bps if summed is not None else total(goodput.values())}
    rows = [row for each in wholes.values() for row in each]
    if all("retransmits" in row.values for row in rows):
        again = total(row.values["retransmits"] for row in rows)
        figures["retransmits_per_s"] = over(again, _longest(rows))
    if all("rtt_us" in row.values for row in rows):
        # The last sample of each stream's smoothed round trip, as the kernel keeps it.
        figures["rtt_us"] = mean(row.values["rtt_us"] for row in rows)
    return figures


def _of_requests(rows: list[Row]) -> dict[str, Figure]:
    """Its `rps` is the inverse of the mean round trip; what was answered in a second is counted here."""
    counted = total(row.values["transactions"] for row in rows)
    return {
        "transactions_per_s": over(counted, _longest(rows)),
        "latency_mean_us": mean(row.values["latency_mean_us"] for row in rows),
    }


def _of_datagrams(group: Group, told: Told, wholes: Mapping[bool, list[Row]]) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    length = _longest([row for rows in wholes.values() for row in rows])
    if group.sent:
        figures["datagrams_sent_per_s"] = over(Figure.exact(sum(group.sent.values())), length)
    reports = [flow.report for flow in group.streams.values() if flow.report is not None]
    received = reports or [row for way, rows in wholes.items() for row in rows if _arrived(row, told, way)]
    if not received or len(received) != len(group.streams):
        return figures
    lost = total(row.values["lost"] for row in received)
    sent = total(row.values["datagrams"] for row in received)
    arrived = Figure.exact(max(0, sent.value - lost.value))
    figures |= {
        "goodput_bps": total(row.rate_bps for row in received),
        "datagrams_received_per_s": over(arrived, _longest(received)),
        "jitter_us": mean(row.values["jitter_us"] for row in received),
    }
    if sent.value:
        figures["loss_percent"] = times(over(lost, sent), 100) if lost.value >= 0 else Figure.exact(0)
    if group.reordered is not None and arrived.value:
        figures["reordered_percent"] = Figure.exact(100 * group.reordered / arrived.value)
    return figures


def _arrived(row: Row, told: Told, way: bool) -> bool:
    """Whether a row is a receiver's: of datagrams, a sender's CSV has the same columns, but no jitter."""
    if "datagrams" not in row.values:
        return False
    return told.is_client == way if told.is_end_known else row.values["jitter_us"].value > 0


def _intervals(group: Group, told: Told, workload: str) -> Iterable[Interval]:
    for way in group.ways:
        flows = [group.sums] if group.sums is not None and len(group.ways) == 1 else group.of_way(way)
        for start, end, rows in _at_once(flows):
            if workload == DATAGRAMS and not all(_arrived(row, told, way) for row in rows):
                continue  # What was sent tells nothing of what arrived.
            values = _added([row.values for row in rows])
            if workload == REQUESTS:
                values = {"transactions": values["transactions"]}
            yield Interval(start, end, values, way=REVERSE if way else FORWARD)


def _at_once(flows: list[Flow]) -> Iterable[tuple[float, float, list[Row]]]:
    """The intervals that all streams tell, with the rows of each."""
    by_time: dict[tuple[float, float], list[Row]] = {}
    for flow in flows:
        for row in flow.parts:
            by_time.setdefault((row.start_s, row.end_s), []).append(row)
    return [(*when, rows) for when, rows in sorted(by_time.items()) if len(rows) == len(flows)]


def _added(values: list[Mapping[str, Figure]]) -> dict[str, Figure]:
    """Counts are summed, of times the mean is taken; only what all tell."""
    names = set(values[0]).intersection(*values)
    return {
        name: (mean if name.endswith("_us") else total)(each[name] for each in values)
        for name in sorted(names)
        if name != "latency_mean_us" and not (name == "cwnd_bytes" and len(values) > 1)
    }


def _also(group: Group, told: Told, rows: list[Row]) -> dict[str, str]:
    also = dict(told.also)
    if told.is_udp and told.is_client and rows:
        also["sent"] = f"{sum(row.rate_bps.value for row in rows) / 1e6:.6g} Mbit/s"
    return also


def _remarks(group: Group, told: Told) -> Iterable[str]:
    if not told.is_end_known:
        yield "the log does not tell whether the sender or the receiver wrote it"
    if told.failure and any(flow.whole for flow in group.streams.values()):
        yield f"it says: {told.failure}"
    if group.is_unanswered:
        yield "the receiver's report is missing: nothing is known of what arrived"
    if "rate" in told.asked.options and not told.is_udp:
        limit = told.asked.options["rate"]
        yield f"each stream was limited by -b {limit}: what it got is no limit of the network"
