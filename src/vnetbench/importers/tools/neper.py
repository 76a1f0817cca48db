"""neper: what its programs print as `key=value`, and the CSV of `--all-samples`.

Source: `stream.c`, `rr.c`, `thread.c`, `common.c` (units), `histo.c`, `coef.c`. `local_throughput` and
`remote_throughput` are bit/s of what each end read, or transactions a second; times are in seconds; a pacing
rate is in bytes a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from vnetbench.importers.command_line import Command, command_in
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import TextReader
from vnetbench.importers.run_lines import CUT_OFF, own_line
from vnetbench.importers.runs import FORWARD, Figure, Interval, Run
from vnetbench.importers.units import rounded
from vnetbench.importers.validation import credibly
from vnetbench.study.model import Level
from vnetbench.study.workloads import CONNECTIONS, DATAGRAMS, REQUESTS, STREAM

_PROGRAMS = {
    "tcp_stream": STREAM,
    "udp_stream": DATAGRAMS,
    "tcp_rr": REQUESTS,
    "udp_rr": REQUESTS,
    "tcp_crr": CONNECTIONS,
}
_FIRST = re.compile(r"(?:VERSION=\d|(?:mark|noburst|delay|async_connect|all_samples|log_rtt)=)")
"""What its programs print first."""
_KEYED = re.compile(r"(?P<key>[A-Za-z_][\w.]*)=(?P<value>.*)")
_LAST = "remote_throughput"
_FAILED = re.compile(
    r"(?:connect|bind|listen|accept|getaddrinfo|recv|send|read|write|epoll_\w+)(?:\(.*\))?: .+"
)
"""`connect: Connection refused`."""
_SHARES = {
    "latency_p50": "p50", "latency_p90": "p90", "latency_p99": "p99", "latency_p99.9": "p99_9",
    "latency_p99.99": "p99_99", "latency_p99.999": "p99_999",
}  # fmt: skip
_BUCKET = 1 / 64
"""Width of a bucket of its histogram, as a share of the time (histo.h, DEFAULT_K_BITS = 6)."""
_SAMPLES = re.compile(r"tid,flow_id,time,(?P<what>bytes_read|transactions),")
_SAMPLE = re.compile(r"\d+,(?P<flow>\d+),(?P<time>\d+\.\d+),(?P<count>\d+),")
"""`0,1,60386.546367375,4308038,0.00,0.000465,…`: counts since the beginning."""
_SHORTEST = 0.1
"""Of an interval, as a share of the median one: the last samples of a test often follow at once."""


def _command_at(lines: Lines) -> Command | None:
    return command_in(lines.peek() or "", tuple(_PROGRAMS))


def begins(lines: Lines) -> bool:
    """Whether the settings that a program prints first, or its command line, are next."""
    line = lines.peek() or ""
    if "=" in line and _FIRST.match(line):
        return _KEYED.match(lines.peek(1) or "") is not None
    return _command_at(lines) is not None


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The run of one program, as one end tells it."""
    first = lines.number + 1
    command = _command_at(lines)
    told: dict[str, str] = {}
    failures: list[str] = []
    if command is not None:
        lines.take()

    def is_own(line: str) -> bool:
        found = _KEYED.match(line)
        is_another = found is not None and found["key"] in told
        return _LAST not in told and not is_another and bool(found or _FAILED.match(line))

    last = first
    while (line := own_line(lines, begins, is_own)) is not None:
        last = lines.number
        if (found := _KEYED.match(line)) is not None:
            told[found["key"]] = found["value"].strip()
        else:
            failures.append(line.strip())
    return [_run(command, told, failures, first, last)] if told or command is not None else []


def _run(
    command: Command | None, told: Mapping[str, str], failures: Sequence[str], first: int, last: int
) -> Run:
    program = command.program if command is not None else _program(told)
    workload = _PROGRAMS[program]
    figures = _figures(told, workload) if _LAST in told else {}
    began, ended = told.get("time_start"), told.get("time_end")
    length = float(ended) - float(began) if began and ended else None
    if length is None and _is_client(told):  # A server's own setting is not what is run.
        length = _number(told, "test_length")
    return Run(
        tool="neper",
        version=told.get("VERSION", ""),
        first_line=first,
        last_line=last,
        workload=workload,
        factors=_factors(told, program),
        figures=figures,
        duration_s=length,
        told_by=_end(told, workload),
        command=command.text if command is not None else "",
        also={name: told[name] for name in ("throughput", "throughput_units", "latency_max") if name in told},
        fault="" if figures else failures[0] if failures else CUT_OFF,
        remarks=tuple(_remarks(told, figures, failures)),
    )


def _number(told: Mapping[str, str], name: str) -> float | None:
    return float(told[name]) if told.get(name) else None


def _program(told: Mapping[str, str]) -> str:
    """Which program printed these settings: each has some that others lack."""
    is_tcp = "congestion_control" in told
    if "request_size" in told:
        return "udp_rr" if not is_tcp else "tcp_crr" if told.get("async_connect") == "1" else "tcp_rr"
    return "tcp_stream" if is_tcp else "udp_stream"


def _is_client(told: Mapping[str, str]) -> bool:
    return told.get("client") == "1"


def _ways(told: Mapping[str, str]) -> str:
    """The direction of a stream: the reading end may be either, or both are."""
    reads, writes = told.get("enable_read") == "1", told.get("enable_write") == "1"
    if reads and writes:
        return "both"
    return "reverse" if reads != writes and reads == _is_client(told) else "forward"


def _end(told: Mapping[str, str], workload: str) -> str:
    if workload in (STREAM, DATAGRAMS):
        if _ways(told) == "both":
            return ""
        return "sender" if _is_client(told) == (_ways(told) == "forward") else "receiver"
    return "sender" if _is_client(told) else "receiver"


def _factors(told: Mapping[str, str], program: str) -> dict[str, Level]:
    workload = _PROGRAMS[program]
    is_stream = workload in (STREAM, DATAGRAMS)
    names = {"num_flows": "streams" if is_stream else "connections"}
    if is_stream:
        names["buffer_size"] = "datagram_size" if workload == DATAGRAMS else "message_size"
    else:
        names |= {"request_size": "request_size", "response_size": "response_size"}
    if workload in (STREAM, REQUESTS):
        names["num_threads"] = "threads"
    factors: dict[str, Level] = {ours: int(told[name]) for name, ours in names.items() if told.get(name)}
    factors["direction"] = _ways(told) if workload == STREAM else "forward"
    if told.get("congestion_control"):
        factors["congestion_control"] = told["congestion_control"]
    if workload == STREAM and told.get("max_pacing_rate", "0") != "0":
        factors["pacing_rate"] = int(told["max_pacing_rate"]) * 8
    if told.get("zerocopy") == "1" and workload == STREAM:
        factors["send_mode"] = "zerocopy"
    if program == "udp_rr":
        factors["label_protocol"] = "udp"
    return factors


def _figures(told: Mapping[str, str], workload: str) -> dict[str, Figure]:
    local, remote = (_counted(told[f"{end}_throughput"]) for end in ("local", "remote"))
    client, server = (local, remote) if _is_client(told) else (remote, local)
    figures = _cpu(told, workload)
    if workload not in (STREAM, DATAGRAMS):
        rate = "connections_per_s" if workload == CONNECTIONS else "transactions_per_s"
        is_here = _is_client(told) and "throughput" in told
        figures[rate] = rounded(told["throughput"]) if is_here else client
        return {**figures, **(_latencies(told) if _is_client(told) else {})}
    if _ways(told) != "both":
        return {**figures, "goodput_bps": client if _ways(told) == "reverse" else server}
    both = Figure(client.value + server.value, client.low + server.low, client.high + server.high)
    return {**figures, "goodput_bps": both, "goodput_forward_bps": server, "goodput_reverse_bps": client}


def _counted(text: str) -> Figure:
    """A rate whose fraction was cut off (`%lld`)."""
    value = float(text)
    return Figure(value, value, value + 1)


def _latencies(told: Mapping[str, str]) -> dict[str, Figure]:
    figures = {"latency_mean_us": rounded(told["latency_mean"], 1e6)} if "latency_mean" in told else {}
    for name, share in _SHARES.items():
        if name in told:
            value = float(told[name]) * 1e6
            figures[f"latency_{share}_us"] = Figure(value, value * (1 - _BUCKET), value * (1 + _BUCKET))
    return figures


def _cpu(told: Mapping[str, str], workload: str) -> dict[str, Figure]:
    """CPU time of the process over the time that it tells; with `-S` it is the whole machine's."""
    needed = ("utime_start", "utime_end", "stime_start", "stime_end", "time_start", "time_end")
    if told.get("stime_use_proc") == "1" or not all(told.get(name) for name in needed):
        return {}
    at = {name: float(told[name]) for name in needed}
    length = at["time_end"] - at["time_start"]
    end = _end(told, workload)
    if length <= 0 or not end:
        return {}
    spent = at["utime_end"] - at["utime_start"] + at["stime_end"] - at["stime_start"]
    return {f"{end}_cpu_percent": Figure.exact(100 * spent / length)}


def _remarks(
    told: Mapping[str, str], figures: Mapping[str, Figure], failures: Sequence[str]
) -> Iterable[str]:
    if figures and failures:
        yield f"it says: {failures[0]}"
    if any(name in figures for name in ("latency_p50_us", "latency_p99_us")):
        yield "its percentiles are from a histogram with buckets of a sixty-fourth"
    if told.get("max_pacing_rate", "0") != "0":
        yield "its streams were paced: what they got is no limit of the network"


def begins_samples(lines: Lines) -> bool:
    """Whether the names of the columns of samples are next."""
    line = lines.peek() or ""
    return line.startswith("tid,") and _SAMPLES.match(line) is not None


def read_samples(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """A run that only has samples; the test that made them tells what it was."""
    first = lines.number + 1
    names = _SAMPLES.match(lines.take())
    assert names is not None
    flows: dict[str, list[tuple[float, int]]] = {}
    while (line := own_line(lines, begins, _SAMPLE.match)) is not None:
        found = _SAMPLE.match(line)
        assert found is not None
        flows.setdefault(found["flow"], []).append((float(found["time"]), int(found["count"])))
    is_stream = names["what"] == "bytes_read"
    intervals = tuple(_together(list(flows.values()), "bytes" if is_stream else "transactions"))
    return [
        Run(
            tool="neper",
            version="",
            first_line=first,
            last_line=lines.number,
            workload=STREAM if is_stream else REQUESTS,
            factors={"streams" if is_stream else "connections": max(1, len(flows)), "direction": FORWARD},
            figures=_of_samples(list(flows.values()), is_stream=is_stream) if intervals else {},
            intervals=intervals,
            duration_s=intervals[-1].end_s if intervals else None,
            told_by="receiver" if is_stream else "",
            fault="" if intervals else CUT_OFF,
            remarks=("samples alone: protocol and direction are not told, TCP forward is assumed",),
        )
    ]


def _of_samples(flows: Sequence[Sequence[tuple[float, int]]], *, is_stream: bool) -> dict[str, Figure]:
    """What all flows did from the first sample to the last, as coef.c reckons it."""
    count = sum(flow[-1][1] - flow[0][1] for flow in flows)
    length = max(flow[-1][0] for flow in flows) - min(flow[0][0] for flow in flows)
    name, scale = ("goodput_bps", 8) if is_stream else ("transactions_per_s", 1)
    return {name: Figure.exact(count * scale / length)}


def _together(flows: Sequence[Sequence[tuple[float, int]]], what: str) -> Iterable[Interval]:
    """Intervals of all flows together, between their samples of one number.

    The column of rates is not read: with several flows it is reckoned from one flow's sample to another's.
    """
    rounds = [list(each) for each in zip(*flows, strict=False)]
    times = [sum(at for at, _ in each) / len(each) for each in rounds]
    counts = [sum(count for _, count in each) for each in rounds]
    lengths = [after - before for before, after in pairwise(times)]
    if any(length < 0 for length in lengths):
        raise ValueError("its samples go back in time")
    usual = median(lengths) if lengths else 0.0
    for number, length in enumerate(lengths):
        if length > 0 and length >= _SHORTEST * usual:
            values = {what: Figure.exact(counts[number + 1] - counts[number])}
            yield Interval(times[number] - times[0], times[number + 1] - times[0], values)


READERS = (
    TextReader("neper", begins_samples, credibly(read_samples)),
    TextReader("neper", begins, credibly(read)),
)
