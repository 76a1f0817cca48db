"""Read sockperf: the statistics of its tests, and the file that `--full-log` writes.

Source: `src/client.cpp`. sockperf reports half of a round trip as latency, unless `--full-rtt` is set. This
reader reports the full round trip. `MBps` counts 1024² bytes of sent payload, `Mbps` the same times 8, `GBps`
1000 `MBps`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from vnetbench.importers.arithmetic import divide_values, has_observation_beyond, scale_value
from vnetbench.importers.command_line import CommandLine, OptionSyntax, parse_options
from vnetbench.importers.line_report import LineReport, make_report_reader
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import RowPattern
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.units import NUMBER_PATTERN, parse_exact_count, parse_rounded
from vnetbench.importers.value_columns import ValueColumn, parse_floats
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_RR, TCP_STREAM, UDP_STREAM, WORKLOADS

_VERSION_LINE = re.compile(r"sockperf: == version #(?P<version>\S+) ==")
_PARAMETERS_LINE = re.compile(r"test was performed using the following parameters: (?P<options>--.*)")
"""In a full log: `… --mps=200 --burst=1 --reply-every=1 --msg-size=14 --time=1`."""
_SEPARATOR_LINE = re.compile(r"-{30}$")
_SOCKPERF_PREFIX = re.compile(
    r"sockperf(?:\[\w+\])?:|sockperf\[|\[ ?\d+\] IP = |packet, txTime|illegal time or size"
)
_PERCENTILE_LINE = re.compile(
    rf"sockperf: ---> percentile\s+(?P<percent>{NUMBER_PATTERN}) =\s*(?P<us>{NUMBER_PATTERN})"
)
"""`sockperf: ---> percentile 99.000 =  360.334`."""
_PROTOCOL_LINE = re.compile(r"\[ ?\d+\] IP = .*# (?P<protocol>UDP|TCP)")
_ERROR_LINE = re.compile(
    r"(?:sockperf: )?(?P<message>ERROR: .*|No messages were received.*|No valid observations found.*"
    r"|illegal time or size.*|Test end before test start.*)"
)
_PACKET_ROWS = RowPattern(r"\d+, \d+\.\d+, (?P<received_s>\d+\.\d+), \d+\.\d+")
"""In a full log: `0, 2.408598264, 2.408677842, 39.789`."""
_STATISTIC_LINES = {
    "latency": re.compile(rf"sockperf: ====> avg-(?P<kind>latency|rtt)=(?P<mean>{NUMBER_PATTERN})"),
    "total": re.compile(
        rf"sockperf: \[Total Run\] RunTime=(?P<run>{NUMBER_PATTERN}) sec; .*SentMessages=(?P<sent>\d+); "
        r"ReceivedMessages=(?P<received>\d+)"
    ),
    "valid": re.compile(
        rf"sockperf: \[Valid Duration\] RunTime=(?P<run>{NUMBER_PATTERN}) sec; SentMessages=(?P<sent>\d+); "
        r"ReceivedMessages=(?P<received>\d+)"
    ),
    "observations": re.compile(r"sockperf: Total (?P<count>\d+) observations"),
    "sent": re.compile(rf"sockperf: Total of (?P<sent>\d+) messages sent in (?P<run>{NUMBER_PATTERN}) sec"),
    "missed": re.compile(r"sockperf: (?P<text># dropped messages = .*)"),
    "rate": re.compile(r"sockperf: Summary: Message Rate is (?P<rate>\d+) \[msg/sec\]"),
    "bandwidth": re.compile(rf"sockperf: Summary: BandWidth is (?P<rate>{NUMBER_PATTERN}) (?P<unit>[MG]Bps)"),
    "size": re.compile(r"sockperf: NOTE: test was performed, using msg-size=(?P<size>\d+)"),
    "minimum": re.compile(r"sockperf: ---> <MIN> observation"),
}
"""Lines of the statistics. `minimum` is the last line of a latency test, `bandwidth` of a throughput test."""
_PERCENTILE_NAME_BY_PERCENT = {
    "50.000": "p50", "90.000": "p90", "99.000": "p99", "99.900": "p99_9", "99.990": "p99_99",
    "99.999": "p99_999",
}  # fmt: skip
_BYTES_PER_S_BY_UNIT = {"MBps": 2**20, "GBps": 1000 * 2**20}
_UNLIMITED_RATES = (600_000, 10_000_000)
"""Rates that a full log names where none was requested (`MPS_MAX_PP`, `MPS_MAX_UL` in `src/defs.h`)."""
_INTERVAL_LENGTH_S = 0.1
"""Length of the intervals that a full log is divided into."""
_MAX_INTERVALS = 1_000_000
_TEST_NAMES = (
    "ping-pong", "pp", "under-load", "ul", "throughput", "tp", "playback", "pb", "server", "sr",
)  # fmt: skip


@dataclass
class SockperfReport(LineReport):
    """The output of one test."""

    tool = "sockperf"
    programs = ("sockperf",)
    option_syntax = OptionSyntax(
        name_by_value_option={
            "-m": "msg-size", "--msg-size": "msg-size", "--mps": "mps", "--pps": "mps", "-t": "time",
            "--time": "time", "-i": "ip", "--ip": "ip", "-p": "port", "--port": "port", "-b": "burst",
            "--burst": "burst", "--reply-every": "reply-every", "--full-log": "full-log", "-n": "number",
            "--data-file": "data-file", "--client_port": "client", "-f": "file", "--file": "file",
        },
        name_by_switch={"--tcp": "tcp", "--full-rtt": "full-rtt"},
    )  # fmt: skip

    row_patterns = (_PACKET_ROWS,)

    version: str | None = None
    protocol: str = ""
    socket_count: int = 0
    is_server: bool = False
    statistics: dict[str, re.Match[str]] = field(default_factory=dict)
    printed_us_by_percent: dict[str, str] = field(default_factory=dict)

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a test's version, a full log, or a command line is next."""
        line = lines.peek_line() or ""
        if line.startswith("---") and _SEPARATOR_LINE.match(line):
            return _PARAMETERS_LINE.match(lines.peek_line(1) or "") is not None
        is_header = _VERSION_LINE.match(line) is not None or _PARAMETERS_LINE.match(line) is not None
        return is_header or cls.parse_command(line) is not None

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return sockperf's command line. Without a prompt the name of a test must follow the program."""
        command = super().parse_command(line) if "sockperf" in line else None
        if command is not None:
            return command
        words = line.split()
        is_usage = any(word.startswith("[") for word in words)
        has_test = len(words) > 1 and words[0] == "sockperf" and words[1] in _TEST_NAMES and not is_usage
        return CommandLine(line.strip(), "sockperf", tuple(words[1:])) if has_test else None

    @property
    def word_of_requested_test(self) -> str:
        """The test as the command line names it."""
        arguments = self.command.arguments if self.command is not None else ()
        return arguments[0] if arguments else ""

    @property
    def is_throughput_test(self) -> bool:
        """Whether the test only sends."""
        has_rate = "sent" in self.statistics or "rate" in self.statistics
        return has_rate or self.word_of_requested_test in ("throughput", "tp")

    @property
    def is_complete(self) -> bool:
        """Whether the last line of the statistics is there."""
        return ("bandwidth" if self.is_throughput_test else "minimum") in self.statistics

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test: a second version or parameter line does not."""
        if _VERSION_LINE.match(line):
            return self.version is None and not self.statistics
        if _PARAMETERS_LINE.match(line):
            return not self.statistics
        return any(
            pattern.match(line)
            for pattern in (_SOCKPERF_PREFIX, _PACKET_ROWS.line, _SEPARATOR_LINE, _ERROR_LINE)
        )

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if (version := _VERSION_LINE.match(line)) is not None:
            self.version = version["version"]
        elif (protocol := _PROTOCOL_LINE.match(line)) is not None:
            self.protocol = protocol["protocol"]
            self.socket_count += 1
        elif (percentile := _PERCENTILE_LINE.match(line)) is not None:
            self.printed_us_by_percent[percentile["percent"]] = percentile["us"]
        elif (error := _ERROR_LINE.match(line)) is not None:
            self.record_first_error(error["message"])
        elif (parameters := _PARAMETERS_LINE.match(line)) is not None:
            self.options |= parse_options(parameters["options"].split(), self.option_syntax)
        elif "[SERVER]" in line:
            self.is_server = True
        else:
            self._add_statistic(line)

    def _add_statistic(self, line: str) -> None:
        for name, pattern in _STATISTIC_LINES.items():
            if (found := pattern.match(line)) is not None:
                self.statistics[name] = found
                return

    def build_runs(self) -> list[Run]:
        """Return the test as a run; none for a server, which reports no results."""
        if (
            self.is_server
            or self.word_of_requested_test in ("server", "sr")
            or self.word_of_requested_test.startswith("-")
        ):
            return []
        workload = TCP_RR
        if self.is_throughput_test:
            workload = TCP_STREAM if self._is_tcp() else UDP_STREAM
        run = Run(
            tool=self.tool,
            version=self.version or "",
            first_line=self.first_line,
            last_line=self.last_line,
            workload=workload,
            factors=self._build_factors(workload),
            metrics=self._compute_metrics(workload) if self.is_complete else {},
            intervals=self._count_replies_by_interval(),
            measured_duration_s=self._find_duration_s(),
            omitted_s=self._find_omitted_edges_s(),
            reported_by="sender",
            command=self.command_text,
            other_results=self._collect_other_results(),
            failure=self.failure_reason(is_complete=self.is_complete),
            remarks=tuple(self._list_remarks(workload)),
        )
        return [run]

    def _is_tcp(self) -> bool:
        return self.protocol == "TCP" or "tcp" in self.options

    def _build_factors(self, workload: str) -> dict[str, Level]:
        load = WORKLOADS[workload]
        stated = self.statistics.get("size")
        size = stated["size"] if stated is not None else self.options.get("msg-size")
        size_factors = [load.size_factor, *(["response_size"] if load.has_requests else [])]
        factors: dict[str, Level] = {name: int(size) for name in size_factors if size and size.isdigit()}
        rate = self.options.get("mps", "")
        if rate.isdigit() and int(rate) not in _UNLIMITED_RATES and not load.is_byte_stream:
            factors["rate"] = float(rate)
        if load.has_requests and not self._is_tcp() and self.protocol:
            factors["label_protocol"] = "udp"
        if self.socket_count:
            factors[load.count_factor] = self.socket_count
        return {**factors, "direction": "forward"}

    def _compute_metrics(self, workload: str) -> dict[str, RoundedValue]:
        statistics = self.statistics
        if WORKLOADS[workload].has_datagrams:
            return {"datagrams_sent_per_s": parse_rounded(statistics["rate"]["rate"])}
        if WORKLOADS[workload].is_byte_stream:
            rate = statistics["bandwidth"]
            return {"goodput_bps": parse_rounded(rate["rate"], 8 * _BYTES_PER_S_BY_UNIT[rate["unit"]])}
        factor = 2 if statistics["latency"]["kind"] == "latency" else 1
        metrics = {"latency_mean_us": scale_value(parse_rounded(statistics["latency"]["mean"]), factor)}
        if "valid" in statistics:
            replies = parse_exact_count(statistics["valid"]["received"])
            metrics["transactions_per_s"] = divide_values(replies, parse_rounded(statistics["valid"]["run"]))
        observations = int(statistics["observations"]["count"])
        for percent, text in self.printed_us_by_percent.items():
            # With fewer observations sockperf prints the maximum under the name of the percentile.
            if percent in _PERCENTILE_NAME_BY_PERCENT and has_observation_beyond(
                observations, float(percent)
            ):
                metrics[f"latency_{_PERCENTILE_NAME_BY_PERCENT[percent]}_us"] = scale_value(
                    parse_rounded(text), factor
                )
        return metrics

    def _count_replies_by_interval(self) -> PackedIntervals:
        """Return the replies of each bin of a full log, without the partial first and last ones.

        Raises:
            ValueError: The packets lie so far apart that the bins would not fit in memory.
        """
        if not len(self.rows):
            return PackedIntervals()
        bins = np.floor(parse_floats(self.rows["received_s"]) / _INTERVAL_LENGTH_S)
        first, last = bins.min(), bins.max()
        if not last - first <= _MAX_INTERVALS:
            raise ValueError(f"the packets cover more than {_MAX_INTERVALS * _INTERVAL_LENGTH_S:g} s")
        counts = np.bincount((bins - first).astype(np.intp))[1:-1]
        starts_s = np.arange(len(counts), dtype=np.float64) * _INTERVAL_LENGTH_S
        replies = {"transactions": ValueColumn.exact(counts)}
        return PackedIntervals.of_columns(starts_s, starts_s + _INTERVAL_LENGTH_S, replies)

    def _find_duration_s(self) -> float | None:
        for name in ("valid", "sent", "total"):
            if name in self.statistics:
                return float(self.statistics[name]["run"])
        return None

    def _find_omitted_edges_s(self) -> float:
        """Return the time that sockperf excludes at the start and at the end."""
        if "total" in self.statistics and "valid" in self.statistics:
            return max(0.0, float(self.statistics["total"]["run"]) - float(self.statistics["valid"]["run"]))
        return 0.0

    def _collect_other_results(self) -> dict[str, str]:
        results: dict[str, str] = {
            name: self.options[name] for name in ("burst", "reply-every") if name in self.options
        }
        if "missed" in self.statistics:
            results["missed"] = self.statistics["missed"]["text"]
        if "bandwidth" in self.statistics:
            bandwidth = self.statistics["bandwidth"]
            results["sent"] = f"{bandwidth['rate']} {bandwidth['unit']}"
        return results

    def _list_remarks(self, workload: str) -> Iterable[str]:
        load = WORKLOADS[workload]
        if "latency" in self.statistics and self.statistics["latency"]["kind"] == "latency":
            yield (
                "sockperf reports half of each round trip. The latencies in the results file are full "
                "round trips."
            )
        if load.has_requests and not self.protocol and "tcp" not in self.options:
            yield "The log does not say whether the requests used TCP or UDP."
        if load.has_datagrams:
            yield "The log does not say how many datagrams arrived."
        if load.is_byte_stream:
            yield "The goodput is what the sender wrote, because the log does not say how much arrived."
        if self.options.get("reply-every", "1") != "1":
            yield f"The server answered only one of every {self.options['reply-every']} requests."


READERS = (make_report_reader(SockperfReport),)
