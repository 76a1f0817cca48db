"""netperf's omni output: results by their names, as `-k`, `-o` and `-O` print them.

Source: `nettest_omni.c` (`netperf_output_source`), the manual's "Omni Output Selectors".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vnetbench.importers.arithmetic import times
from vnetbench.importers.runs import Figure
from vnetbench.importers.tools.netperf.test_types import BITS_PER_S
from vnetbench.importers.units import counted, rounded
from vnetbench.study.model import Level
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, REQUESTS, STREAM

KEYED = re.compile(r"(?P<name>[A-Z][A-Z0-9_]*(?:\[\d+\])?)=(?P<value>.*)")
"""`THROUGHPUT=10971.23`."""
FIRST_KEYS = ("THROUGHPUT=", "SOCKET_TYPE=", "PROTOCOL=", "NETPERF_INTERIM_RESULT[0]=")
"""How lines of `-k` begin where no title stands before them (`-P 0`)."""
_LABELS = {
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
"""The headings of `-o` and `-O`, by the names that `-k` prints for the same."""
_SHARES = {"P50_LATENCY": "latency_p50_us", "P90_LATENCY": "latency_p90_us", "P99_LATENCY": "latency_p99_us"}
_INTERIM = ("NETPERF_INTERIM_RESULT", "NETPERF_UNITS", "NETPERF_INTERVAL", "NETPERF_ENDING")
_NOT_TOLD = ("", "-1", "-1.0", "-1.00", "-1.000", "Deprecated")


def by_name(headings: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """Results by the names of `-k`, from the headings of `-o` or `-O`; unknown ones keep their heading."""
    return {
        _LABELS.get(" ".join(heading.split()), " ".join(heading.split())): value.strip()
        for heading, value in zip(headings, values, strict=True)
    }


def columns(headings: Sequence[str], values: str) -> dict[str, str]:
    """Of `-O`: lines of headings above one of values, each column as wide as its widest."""
    starts = [found.start() for found in re.finditer(r"\S+", values)]
    ends = pairwise((*starts, None))
    spans = [slice(start, end) for start, end in ends]
    return by_name(
        [" ".join(line[span].strip() for line in headings) for span in spans], [values[s] for s in spans]
    )


@dataclass(frozen=True)
class Interim:
    """What -D tells of an interval."""

    rate: Figure
    unit: str
    length_s: float
    end_s: float
    """By the clock."""

    @classmethod
    def of(cls, rate: str, unit: str, length: str, end: str) -> Interim:
        """From what is printed. Raises ValueError where a number is none."""
        return cls(rounded(rate), unit.removesuffix("/s"), float(length), float(end))


def interim(results: Mapping[str, str]) -> list[Interim]:
    """The intervals among results by name: `NETPERF_INTERIM_RESULT[0]=15201.00`, and what goes with it."""
    found: list[Interim] = []
    while set(names := [f"{name}[{len(found)}]" for name in _INTERIM]) <= set(results):
        rate, unit, length, end = (results[name] for name in names)
        found.append(Interim.of(rate, unit, length, end))
    return found


def told(results: Mapping[str, str]) -> dict[str, str]:
    """The results that have a value."""
    return {name: value for name, value in results.items() if value not in _NOT_TOLD}


def workload(results: Mapping[str, str], otherwise: str | None) -> str:
    """Of the load; `otherwise` where its title tells it."""
    if otherwise is not None:
        return otherwise
    if results.get("DIRECTION") == "Send|Recv" or results.get("THROUGHPUT_UNITS", "").startswith("Trans"):
        return REQUESTS
    return DATAGRAMS if results.get("PROTOCOL") == "UDP" else STREAM


def factors(results: Mapping[str, str], workload: str) -> dict[str, Level]:
    """Levels of our factors."""
    names = {"REQUEST_SIZE": "request_size", "RESPONSE_SIZE": "response_size"}
    if workload in (STREAM, DATAGRAMS):
        size = "datagram_size" if workload == DATAGRAMS else "message_size"
        names = {"REMOTE_SEND_SIZE" if results.get("DIRECTION") == "Recv" else "LOCAL_SEND_SIZE": size}
    found: dict[str, Level] = {ours: int(results[name]) for name, ours in names.items() if name in results}
    if "LOCAL_CONG_CONTROL" in results and results.get("PROTOCOL") == "TCP":
        found["congestion_control"] = results["LOCAL_CONG_CONTROL"]
    return found


def figures(results: Mapping[str, str], workload: str, *, is_reverse: bool) -> dict[str, Figure]:
    """What the results tell of our metrics."""
    found: dict[str, Figure] = {}
    ends = ("receiver", "sender") if is_reverse else ("sender", "receiver")
    for name, end in zip(("LOCAL_CPU_UTIL", "REMOTE_CPU_UTIL"), ends, strict=True):
        if name in results:
            found[f"{end}_busy_percent"] = rounded(results[name])
    if workload in (STREAM, DATAGRAMS):
        unit = results.get("THROUGHPUT_UNITS", "").removesuffix("/s")
        if unit in BITS_PER_S and "THROUGHPUT" in results:
            found["goodput_bps"] = rounded(results["THROUGHPUT"], BITS_PER_S[unit])
        return {**found, **_counts(results, workload)}
    return {**found, **_of_requests(results, workload)}


def _of_requests(results: Mapping[str, str], workload: str) -> dict[str, Figure]:
    found = {ours: _in_bucket(results[name]) for name, ours in _SHARES.items() if name in results}
    rate = "connections_per_s" if workload == CONNECTIONS else "transactions_per_s"
    if "TRANSACTION_RATE" in results:
        found[rate] = rounded(results["TRANSACTION_RATE"])
    elif results.get("THROUGHPUT_UNITS", "").startswith("Trans") and "THROUGHPUT" in results:
        found[rate] = rounded(results["THROUGHPUT"])
    if "MEAN_LATENCY" in results:
        found["latency_mean_us"] = rounded(results["MEAN_LATENCY"])
    return found


def _counts(results: Mapping[str, str], workload: str) -> dict[str, Figure]:
    if "ELAPSED_TIME" not in results:
        return {}
    per_s = 1 / float(results["ELAPSED_TIME"])
    if workload == STREAM:
        again = results.get("LOCAL_TRANSPORT_RETRANS")
        return {"retransmits_per_s": times(counted(again), per_s)} if again else {}
    sent, arrived = results.get("LOCAL_SEND_CALLS"), results.get("REMOTE_RECV_CALLS")
    if not sent or not arrived or int(sent) < 1:
        return {}
    return {
        "datagrams_sent_per_s": times(counted(sent), per_s),
        "datagrams_received_per_s": times(counted(arrived), per_s),
        "loss_percent": Figure.exact(100 * max(0, int(sent) - int(arrived)) / int(sent)),
    }


def _in_bucket(text: str) -> Figure:
    """A percentile out of netperf's histogram (netlib.c, `HIST_add`): it lies anywhere in its bucket.

    Each decade has buckets of a tenth of its beginning, of whole microseconds at least.
    """
    value = int(text)
    width = 10 ** max(0, len(str(value)) - 2)
    low = value // width * width
    return Figure(float(value), float(low), float(low + width))
