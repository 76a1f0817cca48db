"""Read neper: the `key=value` lines of its programs, and the CSV of `--all-samples`.

Source: `stream.c`, `rr.c`, `thread.c`, `common.c` (units), `histo.c`, `coef.c`. `local_throughput` and
`remote_throughput` are bit/s that each endpoint read, or transactions per second. Times are in seconds, a
pacing rate is in bytes per second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from vnetbench.importers.arithmetic import sum_values
from vnetbench.importers.command_line import CommandLine
from vnetbench.importers.cumulative_samples import CumulativeSamples, split_samples
from vnetbench.importers.line_report import LineReport, make_report_reader
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import RowPattern
from vnetbench.importers.runs import CUT_OFF_FAILURE, RoundedValue, Run, SenderOrReceiver
from vnetbench.importers.units import parse_rounded
from vnetbench.importers.value_columns import ValueColumn, parse_floats
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.factors.registry import require_factor_or_label
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_CRR, TCP_RR, TCP_STREAM, UDP_STREAM, WORKLOADS

_TOOL_NAME = "neper"
_WORKLOAD_BY_PROGRAM = {
    "tcp_stream": TCP_STREAM,
    "udp_stream": UDP_STREAM,
    "tcp_rr": TCP_RR,
    "udp_rr": TCP_RR,
    "tcp_crr": TCP_CRR,
}
"""The workload of each program."""
_FIRST_SETTING_LINE = re.compile(r"(?:VERSION=\d|(?:mark|noburst|delay|async_connect|all_samples|log_rtt)=)")
"""The line that a program prints first."""
_SETTING_LINE = re.compile(r"(?P<key>[A-Za-z_][\w.]*)=(?P<value>.*)")
_LAST_SETTING_KEY = "remote_throughput"
_ERROR_LINE = re.compile(
    r"(?:connect|bind|listen|accept|getaddrinfo|recv|send|read|write|epoll_\w+)(?:\(.*\))?: .+"
)
"""`connect: Connection refused`."""
_PERCENTILE_NAME_BY_KEY = {
    "latency_p50": "p50", "latency_p90": "p90", "latency_p99": "p99", "latency_p99.9": "p99_9",
    "latency_p99.99": "p99_99", "latency_p99.999": "p99_999",
}  # fmt: skip
_RELATIVE_BUCKET_WIDTH = 1 / 64
"""Width of a histogram bucket relative to its time (histo.h, DEFAULT_K_BITS = 6)."""
_CPU_TIME_KEYS = ("utime_start", "utime_end", "stime_start", "stime_end", "time_start", "time_end")
_SAMPLES_HEADER_LINE = re.compile(r"tid,flow_id,time,(?P<counter>bytes_read|transactions),")
_SAMPLE_ROWS = RowPattern(r"\d+,(?P<flow>\d+),(?P<time_s>\d+\.\d+),(?P<count>\d+),.*")
"""`0,1,60386.546367375,4308038,0.00,0.000465,…`. The count is cumulative."""
_MIN_INTERVAL_SHARE_OF_MEDIAN = 0.1
"""Shortest interval relative to the median one: the last samples of a test often follow immediately."""


@dataclass
class NeperReport(LineReport):
    """The output of one program, at one endpoint."""

    tool = _TOOL_NAME
    programs = tuple(_WORKLOAD_BY_PROGRAM)

    settings_and_results: dict[str, str] = field(default_factory=dict)
    """Settings and results, by their keys."""

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether the first setting of a program, or its command line, is next."""
        line = lines.peek_line() or ""
        if "=" in line and _FIRST_SETTING_LINE.match(line):
            return _SETTING_LINE.match(lines.peek_line(1) or "") is not None
        return cls.parse_command(line) is not None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this run: a repeated key starts the next one."""
        setting = _SETTING_LINE.match(line)
        is_repeated = setting is not None and setting["key"] in self.settings_and_results
        return (
            _LAST_SETTING_KEY not in self.settings_and_results
            and not is_repeated
            and bool(setting or _ERROR_LINE.match(line))
        )

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if (setting := _SETTING_LINE.match(line)) is not None:
            self.settings_and_results[setting["key"]] = setting["value"].strip()
        else:
            self.record_first_error(line.strip())

    def build_runs(self) -> list[Run]:
        """Return the run of the program."""
        if not self.settings_and_results and self.command is None:
            return []
        settings = self.settings_and_results
        program = self.command.program if self.command is not None else self._identify_program()
        workload = _WORKLOAD_BY_PROGRAM[program]
        metrics = self._compute_metrics(workload) if _LAST_SETTING_KEY in settings else {}
        names = ("throughput", "throughput_units", "latency_max")
        run = Run(
            tool=self.tool,
            version=settings.get("VERSION", ""),
            first_line=self.first_line,
            last_line=self.last_line,
            workload=workload,
            factors=self._build_factors(program),
            metrics=metrics,
            measured_duration_s=self._find_duration_s(),
            reported_by=self._detect_reporting_endpoint(workload),
            command=self.command_text,
            other_results={name: settings[name] for name in names if name in settings},
            failure=self.failure_reason(is_complete=bool(metrics)),
            remarks=tuple(self._list_remarks(metrics)),
        )
        return [run]

    def _identify_program(self) -> str:
        """Return the program that printed these settings: each has some that others lack."""
        is_tcp = "congestion_control" in self.settings_and_results
        if "request_size" in self.settings_and_results:
            is_crr = self.settings_and_results.get("async_connect") == "1"
            return "udp_rr" if not is_tcp else "tcp_crr" if is_crr else "tcp_rr"
        return "tcp_stream" if is_tcp else "udp_stream"

    def _is_client(self) -> bool:
        return self.settings_and_results.get("client") == "1"

    def _find_duration_s(self) -> float | None:
        start, end = self.settings_and_results.get("time_start"), self.settings_and_results.get("time_end")
        if start and end:
            return float(end) - float(start)
        length = self.settings_and_results.get("test_length")
        # A server's own setting is not what the client runs.
        return float(length) if length and self._is_client() else None

    def _detect_direction(self) -> str:
        """Return the direction of a stream. Either endpoint may read, or both."""
        reads, writes = (
            self.settings_and_results.get("enable_read") == "1",
            self.settings_and_results.get("enable_write") == "1",
        )
        if reads and writes:
            return "both"
        return REVERSE if reads != writes and reads == self._is_client() else FORWARD

    def _detect_reporting_endpoint(self, workload: str) -> SenderOrReceiver:
        if WORKLOADS[workload].has_requests:
            return "sender" if self._is_client() else "receiver"
        direction = self._detect_direction()
        if direction == "both":
            return ""
        return "sender" if self._is_client() == (direction == FORWARD) else "receiver"

    def _build_factors(self, program: str) -> dict[str, Level]:
        settings, workload = self.settings_and_results, WORKLOADS[_WORKLOAD_BY_PROGRAM[program]]
        names = {"num_flows": workload.count_factor}
        if workload.has_requests:
            names |= {"request_size": "request_size", "response_size": "response_size"}
        else:
            names["buffer_size"] = workload.size_factor
        if require_factor_or_label("threads").has_workload(workload.name):
            names["num_threads"] = "threads"
        factors: dict[str, Level] = {
            ours: int(settings[key]) for key, ours in names.items() if settings.get(key)
        }
        factors["direction"] = self._detect_direction() if workload.is_byte_stream else FORWARD
        if settings.get("congestion_control"):
            factors["congestion_control"] = settings["congestion_control"]
        if workload.is_byte_stream and settings.get("max_pacing_rate", "0") != "0":
            factors["pacing_rate"] = int(settings["max_pacing_rate"]) * 8
        if workload.is_byte_stream and settings.get("zerocopy") == "1":
            factors["send_mode"] = "zerocopy"
        if program == "udp_rr":
            factors["label_protocol"] = "udp"
        return factors

    def _compute_metrics(self, workload: str) -> dict[str, RoundedValue]:
        settings, is_client = self.settings_and_results, self._is_client()
        local, remote = (_parse_truncated(settings[f"{end}_throughput"]) for end in ("local", "remote"))
        client, server = (local, remote) if is_client else (remote, local)
        metrics = self._compute_cpu_metrics(workload)
        if WORKLOADS[workload].has_requests:
            rate = WORKLOADS[workload].achieved_rate_metric
            has_exact_rate = is_client and "throughput" in settings
            metrics[rate] = parse_rounded(settings["throughput"]) if has_exact_rate else client
            return {**metrics, **(self._compute_latency_metrics() if is_client else {})}
        direction = self._detect_direction()
        if direction != "both":
            return {**metrics, "goodput_bps": client if direction == REVERSE else server}
        combined = sum_values([client, server])
        return {
            **metrics, "goodput_bps": combined, "goodput_forward_bps": server, "goodput_reverse_bps": client,
        }  # fmt: skip

    def _compute_latency_metrics(self) -> dict[str, RoundedValue]:
        metrics = {}
        if "latency_mean" in self.settings_and_results:
            metrics["latency_mean_us"] = parse_rounded(self.settings_and_results["latency_mean"], 1e6)
        for key, name in _PERCENTILE_NAME_BY_KEY.items():
            if key in self.settings_and_results:
                value = float(self.settings_and_results[key]) * 1e6
                low, high = value * (1 - _RELATIVE_BUCKET_WIDTH), value * (1 + _RELATIVE_BUCKET_WIDTH)
                metrics[f"latency_{name}_us"] = RoundedValue(value, low, high)
        return metrics

    def _compute_cpu_metrics(self, workload: str) -> dict[str, RoundedValue]:
        """Return the process's share of CPU time. With `-S` neper reports the whole machine's instead."""
        if self.settings_and_results.get("stime_use_proc") == "1" or not all(
            map(self.settings_and_results.get, _CPU_TIME_KEYS)
        ):
            return {}
        times = {key: float(self.settings_and_results[key]) for key in _CPU_TIME_KEYS}
        duration = times["time_end"] - times["time_start"]
        endpoint = self._detect_reporting_endpoint(workload)
        if duration <= 0 or not endpoint:
            return {}
        cpu_s = times["utime_end"] - times["utime_start"] + times["stime_end"] - times["stime_start"]
        return {f"{endpoint}_cpu_percent": RoundedValue.exact(100 * cpu_s / duration)}

    def _list_remarks(self, metrics: Mapping[str, RoundedValue]) -> Iterable[str]:
        if metrics and self.error_message:
            yield f"neper reported: {self.error_message}"
        if any(name in metrics for name in ("latency_p50_us", "latency_p99_us")):
            yield "The percentiles come from a histogram whose buckets are 1/64 of the latency wide."
        if self.settings_and_results.get("max_pacing_rate", "0") != "0":
            yield "The streams were paced, so the goodput is not the network's limit."


def _parse_truncated(text: str) -> RoundedValue:
    """Return a rate whose fraction neper cut off (`%lld`)."""
    value = float(text)
    return RoundedValue(value, value, value + 1)


@dataclass
class NeperSamples(LineReport):
    """The CSV of `--all-samples`. It does not say which test wrote it."""

    tool = _TOOL_NAME
    row_patterns = (_SAMPLE_ROWS,)

    counter: str = ""
    """`bytes_read` or `transactions`; empty before the header."""

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether the header of samples is next."""
        line = lines.peek_line() or ""
        return line.startswith("tid,") and _SAMPLES_HEADER_LINE.match(line) is not None

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return None: a file of samples has no command line."""
        return None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line is a sample, or the header in front of the first one."""
        return (_SAMPLE_ROWS.line if self.counter else _SAMPLES_HEADER_LINE).match(line) is not None

    def add_non_row_line(self, line: str) -> None:
        """Record the header."""
        if (header := _SAMPLES_HEADER_LINE.match(line)) is not None:
            self.counter = header["counter"]

    def build_runs(self) -> list[Run]:
        """Return the run of the samples."""
        is_stream = self.counter == "bytes_read"
        times_s = parse_floats(self.rows["time_s"])
        flows = list(split_samples(self.rows["flow"], times_s, self.rows["count"]).values())
        intervals = _combine_flows(flows, "bytes" if is_stream else "transactions")
        run = Run(
            tool=self.tool,
            version="",
            first_line=self.first_line,
            last_line=self.last_line,
            workload=TCP_STREAM if is_stream else TCP_RR,
            factors={"streams" if is_stream else "connections": max(1, len(flows)), "direction": FORWARD},
            metrics=_compute_sample_metrics(flows, is_stream=is_stream) if intervals else {},
            intervals=intervals,
            measured_duration_s=intervals[-1].end_s if intervals else None,
            reported_by="receiver" if is_stream else "",
            failure="" if intervals else CUT_OFF_FAILURE,
            remarks=(
                "The samples do not say protocol and direction, so vnetbench reads them as TCP in the "
                "direction forward.",
            ),
        )
        return [run]


def _compute_sample_metrics(
    flows: Sequence[CumulativeSamples], *, is_stream: bool
) -> dict[str, RoundedValue]:
    """Return the rate of all flows from the first sample to the last, as coef.c computes it."""
    count = sum(int(flow.totals[-1] - flow.totals[0]) for flow in flows)
    duration = float(max(flow.times_s[-1] for flow in flows) - min(flow.times_s[0] for flow in flows))
    name, factor = ("goodput_bps", 8) if is_stream else ("transactions_per_s", 1)
    return {name: RoundedValue.exact(count * factor / duration)}


def _combine_flows(flows: Sequence[CumulativeSamples], value_name: str) -> PackedIntervals:
    """Return intervals of all flows together, between the samples of the same number.

    The column of rates is not used: with several flows it is the rate between samples of different flows.
    """
    round_count = min((len(flow.totals) for flow in flows), default=0)
    if round_count < 2:
        return PackedIntervals()
    times_s = reduce(np.add, (flow.times_s[:round_count] for flow in flows)) / len(flows)
    counts = np.diff(reduce(np.add, (flow.totals[:round_count] for flow in flows)))
    lengths_s = np.diff(times_s)
    if lengths_s.min() < 0:
        raise ValueError("the times of the samples go backwards")
    is_kept = (lengths_s > 0) & (lengths_s >= _MIN_INTERVAL_SHARE_OF_MEDIAN * np.median(lengths_s))
    since_start_s = times_s - times_s[0]
    values = {value_name: ValueColumn.exact(counts[is_kept])}
    return PackedIntervals.of_columns(since_start_s[:-1][is_kept], since_start_s[1:][is_kept], values)


READERS = (make_report_reader(NeperSamples), make_report_reader(NeperReport))
