"""Read netperf's omni output: results by name, as `-k`, `-o` and `-O` print them.

Source: `nettest_omni.c` (`netperf_output_source`), the manual's "Omni Output Selectors".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from vnetbench.importers.arithmetic import scale_value
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import Row, RowColumns
from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.tools.netperf.test_catalog import BITS_PER_S_BY_UNIT
from vnetbench.importers.units import parse_exact_count, parse_rounded
from vnetbench.importers.value_columns import parse_floats, parse_rounded_column, unit_factors
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_RR, TCP_STREAM, UDP_STREAM, WORKLOADS

KEY_VALUE = re.compile(r"(?P<name>[A-Z][A-Z0-9_]*(?:\[\d+\])?)=(?P<value>.*)")
"""`THROUGHPUT=10971.23`."""
FIRST_KEY_PREFIXES = ("THROUGHPUT=", "SOCKET_TYPE=", "PROTOCOL=", "NETPERF_INTERIM_RESULT[0]=")
"""How lines of `-k` start if no title precedes them (`-P 0`)."""
_RESULT_NAME_BY_HEADING = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Elapsed Time (sec)": "ELAPSED_TIME",
    "Protocol": "PROTOCOL",
    "Direction": "DIRECTION",
    "Socket Type": "SOCKET_TYPE",
    "Request Size Bytes": "REQUEST_SIZE",
    "Response Size Bytes": "RESPONSE_SIZE",
    "Local Send Size": "LOCAL_SEND_SIZE",
    "Remote Send Size": "REMOTE_SEND_SIZE",
    "Local CPU Util %": "LOCAL_CPU_UTIL",
    "Remote CPU Util %": "REMOTE_CPU_UTIL",
    "Transaction Rate Tran/s": "TRANSACTION_RATE",
    "Round Trip Latency usec/tran": "RT_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "Local Send Calls": "LOCAL_SEND_CALLS",
    "Remote Recv Calls": "REMOTE_RECV_CALLS",
    "Local Congestion Control Algorithm": "LOCAL_CONG_CONTROL",
    "Initial Burst Requests": "BURST_SIZE",
}
"""Names that `-k` prints, by the heading that `-o` and `-O` print for the same result."""
_METRIC_BY_PERCENTILE_RESULT = {
    "P50_LATENCY": "latency_p50_us",
    "P90_LATENCY": "latency_p90_us",
    "P99_LATENCY": "latency_p99_us",
}
_INTERIM_KEYS = ("NETPERF_INTERIM_RESULT", "NETPERF_UNITS", "NETPERF_INTERVAL", "NETPERF_ENDING")
_MISSING_VALUES = ("", "-1", "-1.0", "-1.00", "-1.000", "Deprecated")


def pair_result_names_with_values(headings: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """Return the results by the names of `-k`. An unknown heading stays as it is."""
    return {
        _RESULT_NAME_BY_HEADING.get(" ".join(heading.split()), " ".join(heading.split())): value.strip()
        for heading, value in zip(headings, values, strict=True)
    }


def parse_columns(headings: Sequence[str], values: str) -> dict[str, str]:
    """Return the results of `-O`: several lines of headings above one of values.

    Each column is as wide as its widest line.
    """
    starts = [found.start() for found in re.finditer(r"\S+", values)]
    boundaries = pairwise((*starts, None))
    spans = [slice(start, end) for start, end in boundaries]
    return pair_result_names_with_values(
        [" ".join(line[span].strip() for line in headings) for span in spans], [values[s] for s in spans]
    )


def find_interim_results(results: Mapping[str, str]) -> list[Row]:
    """Return rate, unit, length and end of the intervals among named results.

    Example: `NETPERF_INTERIM_RESULT[0]=15201.00`.
    """
    found: list[Row] = []
    while set(names := [f"{name}[{len(found)}]" for name in _INTERIM_KEYS]) <= set(results):
        rate, unit, length, end = (results[name] for name in names)
        found.append((rate, unit.removesuffix("/s"), length, end))
    return found


def build_intervals(rows: RowColumns, direction: str) -> PackedIntervals:
    """Return the intervals of interim results, up to one whose unit is neither transactions nor bits.

    Args:
        rows: The columns `rate`, `unit` (without `/s`), `length_s`, and `end_s` of the wall clock.
        direction: The direction of the load.

    Raises:
        ValueError: A number is none.
    """
    units = [unit.removesuffix("/s") for unit in rows["unit"]]
    known = {"Trans": 1.0, **{unit: bits / 8 for unit, bits in BITS_PER_S_BY_UNIT.items()}}
    count = next((at for at, unit in enumerate(units) if unit not in known), len(units))
    if not count:
        return PackedIntervals()
    lengths_s = parse_floats(rows["length_s"])
    ends_unix_s = parse_floats(rows["end_s"])
    ends_s = ends_unix_s - (ends_unix_s[0] - lengths_s[0])
    starts_s = np.maximum(0.0, ends_s - lengths_s)
    rates = parse_rounded_column(rows["rate"][:count])
    amounts = rates.scale(unit_factors(units[:count], known) * lengths_s[:count])
    is_request_count = np.array([unit == "Trans" for unit in units[:count]])
    columns = {"transactions": amounts.replace(~is_request_count, np.nan)} if is_request_count.any() else {}
    if not is_request_count.all():
        columns["bytes"] = amounts.replace(is_request_count, np.nan)
    return PackedIntervals.of_columns(starts_s[:count], ends_s[:count], columns, direction)


def drop_missing(results: Mapping[str, str]) -> dict[str, str]:
    """Return the results that have a value."""
    return {name: value for name, value in results.items() if value not in _MISSING_VALUES}


def find_workload(results: Mapping[str, str], workload_of_test: str | None) -> str:
    """Return the workload that the results describe.

    `known` is the one of the test's title, if it has one.
    """
    if workload_of_test is not None:
        return workload_of_test
    if results.get("DIRECTION") == "Send|Recv" or results.get("THROUGHPUT_UNITS", "").startswith("Trans"):
        return TCP_RR
    return UDP_STREAM if results.get("PROTOCOL") == "UDP" else TCP_STREAM


def find_factors(results: Mapping[str, str], workload: str) -> dict[str, Level]:
    """Return the factor levels in the results."""
    names = {"REQUEST_SIZE": "request_size", "RESPONSE_SIZE": "response_size"}
    if not WORKLOADS[workload].has_requests:
        size = WORKLOADS[workload].size_factor
        names = {"REMOTE_SEND_SIZE" if results.get("DIRECTION") == "Recv" else "LOCAL_SEND_SIZE": size}
    found: dict[str, Level] = {ours: int(results[name]) for name, ours in names.items() if name in results}
    if "LOCAL_CONG_CONTROL" in results and results.get("PROTOCOL") == "TCP":
        found["congestion_control"] = results["LOCAL_CONG_CONTROL"]
    return found


def find_metrics(results: Mapping[str, str], workload: str, *, is_reverse: bool) -> dict[str, RoundedValue]:
    """Return the metrics in the results."""
    found: dict[str, RoundedValue] = {}
    endpoints = ("receiver", "sender") if is_reverse else ("sender", "receiver")
    for name, endpoint in zip(("LOCAL_CPU_UTIL", "REMOTE_CPU_UTIL"), endpoints, strict=True):
        if name in results:
            found[f"{endpoint}_busy_percent"] = parse_rounded(results[name])
    if not WORKLOADS[workload].has_requests:
        unit = results.get("THROUGHPUT_UNITS", "").removesuffix("/s")
        if unit in BITS_PER_S_BY_UNIT and "THROUGHPUT" in results:
            found["goodput_bps"] = parse_rounded(results["THROUGHPUT"], BITS_PER_S_BY_UNIT[unit])
        return {**found, **_retransmit_or_datagram_metrics(results, workload)}
    return {**found, **_compute_request_metrics(results, workload)}


def _compute_request_metrics(results: Mapping[str, str], workload: str) -> dict[str, RoundedValue]:
    found = {
        ours: _parse_percentile(results[name])
        for name, ours in _METRIC_BY_PERCENTILE_RESULT.items()
        if name in results
    }
    rate = WORKLOADS[workload].achieved_rate_metric
    if "TRANSACTION_RATE" in results:
        found[rate] = parse_rounded(results["TRANSACTION_RATE"])
    elif results.get("THROUGHPUT_UNITS", "").startswith("Trans") and "THROUGHPUT" in results:
        found[rate] = parse_rounded(results["THROUGHPUT"])
    if "MEAN_LATENCY" in results:
        found["latency_mean_us"] = parse_rounded(results["MEAN_LATENCY"])
    return found


def _retransmit_or_datagram_metrics(results: Mapping[str, str], workload: str) -> dict[str, RoundedValue]:
    if "ELAPSED_TIME" not in results:
        return {}
    per_s = 1 / float(results["ELAPSED_TIME"])
    if WORKLOADS[workload].is_byte_stream:
        retransmits = results.get("LOCAL_TRANSPORT_RETRANS")
        return (
            {"retransmits_per_s": scale_value(parse_exact_count(retransmits), per_s)} if retransmits else {}
        )
    sent, arrived = results.get("LOCAL_SEND_CALLS"), results.get("REMOTE_RECV_CALLS")
    if not sent or not arrived or int(sent) < 1:
        return {}
    return {
        "datagrams_sent_per_s": scale_value(parse_exact_count(sent), per_s),
        "datagrams_received_per_s": scale_value(parse_exact_count(arrived), per_s),
        "loss_percent": RoundedValue.exact(100 * max(0, int(sent) - int(arrived)) / int(sent)),
    }


def _parse_percentile(text: str) -> RoundedValue:
    """Return a percentile from netperf's histogram (netlib.c, `HIST_add`). It lies anywhere in its bucket.

    A bucket is a tenth of the start of its decade wide, and at least one microsecond.
    """
    value = int(text)
    width = 10 ** max(0, len(str(value)) - 2)
    low = value // width * width
    return RoundedValue(float(value), float(low), float(low + width))
