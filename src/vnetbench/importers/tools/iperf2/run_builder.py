"""Build the run of a group of iperf 2 connections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from vnetbench.importers.arithmetic import divide_values, mean_value, scale_value, sum_values
from vnetbench.importers.runs import CUT_OFF_FAILURE, ReportInterval, RoundedValue, Run, SenderOrReceiver
from vnetbench.importers.tools.iperf2.connection_groups import ConnectionGroup, ReportHeader, StreamRows
from vnetbench.importers.tools.iperf2.options import factors_from_options
from vnetbench.importers.tools.iperf2.report_rows import ReportRow
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_RR, TCP_STREAM, UDP_STREAM, WORKLOADS

TOOL = "iperf 2"
_WRITE_FAILURE_PATTERN = re.compile(r"(?:tcp )?write\d? failed: ")
_GOODPUT_METRIC_BY_IS_REVERSE = {False: "goodput_forward_bps", True: "goodput_reverse_bps"}
_RowsByIsReverse = Mapping[bool, list[ReportRow]]
"""Rows by whether they are of the reverse direction."""


def build_run(group: ConnectionGroup, header: ReportHeader) -> Run:
    """Return the run. It has a failure if a stream lacks the row of its whole run."""
    workload = _detect_workload(group, header)
    totals = {
        is_reverse: _find_whole_run_rows(group, header, is_reverse)
        for is_reverse in group.is_reverse_of_used_directions
    }
    is_complete = group.has_all_whole_run_rows and all(
        len(rows) == len(group.find_stream_rows(is_reverse)) for is_reverse, rows in totals.items()
    )
    rows = [row for each in totals.values() for row in each]
    return Run(
        tool=TOOL,
        version=group.peer_version,
        first_line=group.first_line,
        last_line=max(group.last_line, group.first_line),
        workload=workload,
        factors=_build_factors(group, header, workload),
        metrics=_compute_metrics(group, header, workload, totals) if is_complete else {},
        intervals=tuple(_build_intervals(group, header, workload)),
        measured_duration_s=_find_longest_duration_s(rows).value if rows else None,
        started_at=group.started_at,
        reported_by=_detect_reporting_endpoint(group, header),
        command=header.command_text,
        other_results=_collect_other_results(header, rows),
        failure=_find_failure(group, header, is_complete=is_complete),
        remarks=tuple(_list_remarks(group, header)),
    )


def _find_failure(group: ConnectionGroup, header: ReportHeader, *, is_complete: bool) -> str:
    """Return why the run does not count; empty if it does.

    iperf prints the usual report also where the other endpoint broke off a TCP connection.
    """
    if header.only_connects:
        return "the run only opened connections (--connect-only)"
    if is_complete and group.has_requests and not header.is_client:
        return "a server's log has no round trips of --bounceback. Import the client's log"
    if is_complete and not (header.is_client and _WRITE_FAILURE_PATTERN.match(header.error_message)):
        return ""
    return header.error_message or CUT_OFF_FAILURE


def _detect_workload(group: ConnectionGroup, header: ReportHeader) -> str:
    streams = group.rows_of_streams_or_sum.values()
    if (
        group.has_requests
        or any(stream.rows.may_have_transactions() for stream in streams)
        or "request_size" in header.size_bytes_by_factor
    ):
        return TCP_RR
    reports = [stream.receiver_report_row for stream in streams if stream.receiver_report_row is not None]
    is_udp = (
        header.is_udp
        or any("datagrams" in row.value_by_name for row in reports)
        or any(stream.rows.has_udp_receiver_row() for stream in streams)
    )
    return UDP_STREAM if is_udp else TCP_STREAM


def _detect_reporting_endpoint(group: ConnectionGroup, header: ReportHeader) -> SenderOrReceiver:
    has_receiver_report = any(stream.receiver_report_row for stream in group.rows_of_streams_or_sum.values())
    if len(group.is_reverse_of_used_directions) != 1 or has_receiver_report or not header.is_endpoint_known:
        return ""
    return "sender" if header.is_client != group.is_reverse_of_used_directions[0] else "receiver"


def _find_whole_run_rows(group: ConnectionGroup, header: ReportHeader, is_reverse: bool) -> list[ReportRow]:
    """Return the rows of the whole run, one for each stream of a direction.

    A single row may be the first interval of a run that was cut off. The command line decides.
    """
    interval, requested_s = (
        header.command_options.get("interval", ""),
        header.command_options.get("time", "10"),
    )
    streams = group.find_stream_rows(is_reverse)
    rows = [stream.whole_run_row for stream in streams if stream.whole_run_row is not None]
    if header.is_client and interval and float(interval) < float(requested_s):
        single = {id(stream.whole_run_row) for stream in streams if len(stream.rows) == 1}
        rows = [row for row in rows if id(row) not in single or row.printed_end_s != float(interval)]
    return rows


def _find_longest_duration_s(rows: list[ReportRow]) -> RoundedValue:
    """Return the length of the longest row, in seconds."""
    return max((row.rounded_length_s for row in rows), key=lambda length: length.value)


def _build_factors(group: ConnectionGroup, header: ReportHeader, workload: str) -> dict[str, Level]:
    load = WORKLOADS[workload]
    factors = {
        **header.size_bytes_by_factor,
        **factors_from_options(header.command_options, is_udp=load.has_datagrams),
    }
    if load.has_requests:
        size = header.size_bytes_by_factor.get("request_size") or group.request_bytes
        factors = {"request_size": size, "response_size": size} if size else {}
    directions = group.is_reverse_of_used_directions
    direction = "both" if len(directions) == 2 else REVERSE if directions == [True] else FORWARD
    single = sum(
        name.isdigit() and is_reverse == directions[0]
        for name, is_reverse in group.rows_by_stream_and_is_reverse
    )
    requested = int(header.command_options.get("parallel", "1")) if header.is_client else 1
    factors[load.count_factor] = max(single, requested, group.stream_count_of_sum)
    return {**factors, "direction": direction}


def _compute_metrics(
    group: ConnectionGroup, header: ReportHeader, workload: str, whole_run_rows: _RowsByIsReverse
) -> dict[str, RoundedValue]:
    if WORKLOADS[workload].has_requests:
        return _compute_request_metrics([row for rows in whole_run_rows.values() for row in rows])
    if WORKLOADS[workload].has_datagrams:
        return _compute_datagram_metrics(group, header, whole_run_rows)
    goodput = {
        is_reverse: sum_values(row.rate_bps for row in rows) for is_reverse, rows in whole_run_rows.items()
    }
    if len(goodput) == 2:
        by_direction = {
            _GOODPUT_METRIC_BY_IS_REVERSE[is_reverse]: value for is_reverse, value in goodput.items()
        }
        return {"goodput_bps": sum_values(goodput.values()), **by_direction}
    sum_row = group.all_streams_rows.whole_run_row if group.all_streams_rows is not None else None
    metrics = {"goodput_bps": sum_row.rate_bps if sum_row is not None else sum_values(goodput.values())}
    rows = [row for each in whole_run_rows.values() for row in each]
    if all("retransmits" in row.value_by_name for row in rows):
        retransmits = sum_values(row.value_by_name["retransmits"] for row in rows)
        metrics["retransmits_per_s"] = divide_values(retransmits, _find_longest_duration_s(rows))
    if all("rtt_us" in row.value_by_name for row in rows):
        # The last sample of each stream's smoothed round trip time, as the kernel keeps it.
        metrics["rtt_us"] = mean_value(row.value_by_name["rtt_us"] for row in rows)
    return metrics


def _compute_request_metrics(rows: list[ReportRow]) -> dict[str, RoundedValue]:
    """Return the metrics of requests.

    iperf's `rps` is the inverse of the mean round trip, so it is not used.
    """
    if not all("transactions" in row.value_by_name for row in rows):
        return {}  # A server, and a CSV, count bytes only.
    replies = sum_values(row.value_by_name["transactions"] for row in rows)
    return {
        "transactions_per_s": divide_values(replies, _find_longest_duration_s(rows)),
        "latency_mean_us": mean_value(row.value_by_name["latency_mean_us"] for row in rows),
    }


def _compute_datagram_metrics(
    group: ConnectionGroup, header: ReportHeader, whole_run_rows: _RowsByIsReverse
) -> dict[str, RoundedValue]:
    metrics: dict[str, RoundedValue] = {}
    duration = _find_longest_duration_s([row for rows in whole_run_rows.values() for row in rows])
    if group.sent_datagrams_by_stream_id:
        sent = RoundedValue.exact(sum(group.sent_datagrams_by_stream_id.values()))
        metrics["datagrams_sent_per_s"] = divide_values(sent, duration)
    elif (csv_sent := _count_datagrams_of_csv_sender(group, header)) is not None:
        metrics["datagrams_sent_per_s"] = divide_values(csv_sent, duration)
    streams = group.rows_of_streams_or_sum
    reports = [each.receiver_report_row for each in streams.values() if each.receiver_report_row is not None]
    received = reports or [
        row
        for is_reverse, rows in whole_run_rows.items()
        for row in rows
        if _is_from_udp_receiver(row, header, is_reverse)
    ]
    if len(whole_run_rows) == 2 and received and not reports:  # It knows only what arrived at itself.
        is_reverse = header.is_client
        return {
            **metrics,
            _GOODPUT_METRIC_BY_IS_REVERSE[is_reverse]: sum_values(row.rate_bps for row in received),
        }
    if not received or len(received) != len(streams):
        return metrics
    lost = sum_values(row.value_by_name["lost"] for row in received)
    expected = sum_values(row.value_by_name["datagrams"] for row in received)
    arrived = RoundedValue.exact(max(0, expected.value - lost.value))
    metrics |= {
        "goodput_bps": sum_values(row.rate_bps for row in received),
        "datagrams_received_per_s": divide_values(arrived, _find_longest_duration_s(received)),
        "jitter_us": mean_value(row.value_by_name["jitter_us"] for row in received),
    }
    if expected.value:
        is_known = lost.value >= 0
        metrics["loss_percent"] = (
            scale_value(divide_values(lost, expected), 100) if is_known else RoundedValue.exact(0)
        )
    if group.reordered_datagrams is not None and arrived.value:
        metrics["reordered_percent"] = RoundedValue.exact(100 * group.reordered_datagrams / arrived.value)
    return metrics


def _count_datagrams_of_csv_sender(group: ConnectionGroup, header: ReportHeader) -> RoundedValue | None:
    """Return how many datagrams a sender's CSV reports. Its line of the whole run has bytes but no count.

    The size of a datagram is in the intervals. None if there are none.
    """
    counts = []
    for (_, is_reverse), stream in group.rows_of_streams_or_sum.items():
        whole, rows = stream.whole_run_row, stream.interval_rows
        sizes = {
            row.value_by_name["bytes"].value / datagrams.value
            for row in rows
            if not _is_from_udp_receiver(row, header, is_reverse)
            and (datagrams := row.value_by_name.get("datagrams")) is not None
            and datagrams.value > 0
        }
        if whole is None or len(sizes) != 1:
            return None
        counts.append(scale_value(whole.value_by_name["bytes"], 1 / sizes.pop()))
    return sum_values(counts)


def _is_from_udp_receiver(row: ReportRow, header: ReportHeader, is_reverse: bool) -> bool:
    """Return whether a UDP receiver wrote a row. A sender's CSV has the same columns, but no jitter."""
    if "datagrams" not in row.value_by_name:
        return False
    if header.is_endpoint_known:
        return header.is_client == is_reverse
    return row.value_by_name["jitter_us"].value > 0


def _build_intervals(group: ConnectionGroup, header: ReportHeader, workload: str) -> Iterable[ReportInterval]:
    load = WORKLOADS[workload]
    for is_reverse in group.is_reverse_of_used_directions:
        has_sums = group.all_streams_rows is not None and len(group.is_reverse_of_used_directions) == 1
        streams = (
            [group.all_streams_rows]
            if has_sums and group.all_streams_rows
            else group.find_stream_rows(is_reverse)
        )
        rtts = _RoundTripTimes(group.find_stream_rows(is_reverse)) if has_sums else None
        for start_s, end_s, rows in _group_rows_of_intervals_in_all_streams(streams):
            if load.has_datagrams and not all(_is_from_udp_receiver(row, header, is_reverse) for row in rows):
                continue  # The sender's rows say nothing about what arrived.
            values = _combine_stream_values([row.value_by_name for row in rows])
            if rtts is not None and "rtt_us" not in values:
                values |= rtts.mean_of_streams(start_s, end_s)
            if load.has_requests:
                values = {name: each for name, each in values.items() if name == "transactions"}
            if not values:
                continue
            yield ReportInterval(start_s, end_s, values, direction=REVERSE if is_reverse else FORWARD)


class _RoundTripTimes:
    """The round trip times of single streams by interval. The sums that iperf prints have none."""

    def __init__(self, streams: list[StreamRows]) -> None:
        self._stream_count = len(streams)
        self._times_us: dict[tuple[float, float], list[RoundedValue]] = {}
        for stream in streams if any(stream.rows.may_have_rtt() for stream in streams) else ():
            for row in stream.interval_rows:
                if "rtt_us" in row.value_by_name:
                    times = self._times_us.setdefault((row.start_s, row.printed_end_s), [])
                    times.append(row.value_by_name["rtt_us"])

    def mean_of_streams(self, start_s: float, end_s: float) -> dict[str, RoundedValue]:
        """Return the mean `rtt_us` of the streams in an interval, if all of them have one."""
        times = self._times_us.get((start_s, end_s), [])
        return {"rtt_us": mean_value(times)} if times and len(times) == self._stream_count else {}


def _group_rows_of_intervals_in_all_streams(
    streams: list[StreamRows],
) -> Iterable[tuple[float, float, list[ReportRow]]]:
    """Return start, end and rows of the intervals that all streams report."""
    rows_by_time: dict[tuple[float, float], list[ReportRow]] = {}
    for stream in streams:
        for row in stream.interval_rows:
            rows_by_time.setdefault((row.start_s, row.printed_end_s), []).append(row)
    return [(*time, rows) for time, rows in sorted(rows_by_time.items()) if len(rows) == len(streams)]


def _combine_stream_values(values: list[Mapping[str, RoundedValue]]) -> dict[str, RoundedValue]:
    """Return the sums of counts and the means of times, for the values that all rows have."""
    names = set(values[0]).intersection(*values)
    if len(values) == 1:
        return {name: values[0][name] for name in sorted(names) if name != "latency_mean_us"}
    return {
        name: (mean_value if name.endswith("_us") else sum_values)(each[name] for each in values)
        for name in sorted(names)
        if name not in ("latency_mean_us", "cwnd_bytes")
    }


def _collect_other_results(header: ReportHeader, rows: list[ReportRow]) -> dict[str, str]:
    results = dict(header.other_results)
    is_udp = header.is_udp or any("datagrams" in row.value_by_name for row in rows)
    is_from_sender = header.is_client or not any(_is_from_udp_receiver(row, header, False) for row in rows)
    if is_udp and is_from_sender and rows:
        results["sent"] = f"{sum(row.rate_bps.value for row in rows) / 1e6:.6g} Mbit/s"
    return results


def _list_remarks(group: ConnectionGroup, header: ReportHeader) -> Iterable[str]:
    if not header.is_endpoint_known:
        yield "The log does not say whether the sender or the receiver wrote it."
    if header.error_message and any(stream.whole_run_row for stream in group.rows_of_streams_or_sum.values()):
        yield f"iperf reported: {header.error_message}"
    if group.lacks_receiver_report:
        yield "The receiver's report is missing, so the amount of data that arrived is unknown."
    if header.burst_text and not group.has_requests:
        yield f"The load came in bursts ({header.burst_text}), so the goodput is not the network's limit."
    if "rate" in header.command_options and not header.is_udp:
        limit = header.command_options["rate"]
        yield f"The option -b {limit} limited each stream, so the goodput is not the network's limit."
