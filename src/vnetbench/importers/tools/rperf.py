"""Read rperf: the result that its client prints as text, and its JSON (`-f json`).

Source: `src/protocol/results.rs` of rperf 0.1.8 to 0.1.25. Megabits and megabytes are powers of 1000. The
amounts are payload with TCP; with UDP they include the UDP header (`UDP_HEADER_SIZE` in `src/stream/udp.rs`).
What the receiver counted is the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from vnetbench.importers.command_line import CommandLine, OptionSyntax
from vnetbench.importers.line_report import LineReport, make_report_reader
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.reader import DocumentReader
from vnetbench.importers.runs import ReportInterval, RoundedValue, Run
from vnetbench.importers.units import DECIMAL_PATTERN, parse_rounded
from vnetbench.importers.validation import drop_invalid_levels_and_intervals
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM, WORKLOADS

TOOL = "rperf"
_SEPARATOR_LINE = "=========="
_UDP_HEADER_BYTES = 8
"""Bytes that rperf counts with each datagram."""
_LOG_LINE = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\dT[\d:]+Z) +(?P<level>[A-Z]+) +rperf(?:::\w+)*\] (?P<text>.*)"
)
"""`[2026-11-23T04:27:21Z INFO  rperf::client] connected to server`."""
_RESULT_LINE = re.compile(
    rf"(?P<family>TCP|UDP) (?P<end>send|receive) result over (?P<seconds>{DECIMAL_PATTERN})s"
    r" \| streams?: (?P<streams>\d+)"
)
_TOTAL_LINE = re.compile(
    rf"total bytes: (?P<bytes>\d+) \| per second: (?P<rate>{DECIMAL_PATTERN}) \| mega(?:bits|bytes)/second"
)
_PACKETS_LINE = re.compile(
    rf"packets: (?P<packets>\d+)(?: \| lost: (?P<lost>\d+) \((?P<percent>{DECIMAL_PATTERN})%\)"
    rf" \| out-of-order: (?P<late>\d+) \| duplicate: (?P<duplicate>\d+) \|)?"
    rf" per second: (?P<rate>{DECIMAL_PATTERN})"
)
_JITTER_LINE = re.compile(rf"jitter: (?P<seconds>{DECIMAL_PATTERN})s over \d+ consecutive packets")
_OTHER_LINE = re.compile(
    r"={10}$|-{10}$|stream-average bytes per second: |bytes: \d+ \| per second: |stalls due to full"
)
_ROLE_LINE = re.compile(r"preparing for (?P<reverse>reverse-)?(?:TCP|UDP) test with ")
_ERROR_LINE = re.compile(r"unable to .*|.*(?:[Cc]onnection (?:refused|lost)|server rejected|failed).*")


@dataclass
class RperfReport(LineReport):
    """What a client prints for one test."""

    tool = TOOL
    programs = ("rperf",)
    option_syntax = OptionSyntax(
        name_by_value_option={
            "-c": "client", "--client": "client", "-b": "bandwidth", "--bandwidth": "bandwidth", "-t": "time",
            "--time": "time", "-P": "parallel", "--parallel": "parallel", "-l": "length",
            "--length": "length", "-O": "omit", "--omit": "omit", "-p": "port", "--port": "port",
            "-f": "format", "--format": "format",
        },
        name_by_switch={
            "-s": "server", "--server": "server", "-R": "reverse", "--reverse": "reverse", "-u": "udp",
            "--udp": "udp", "-N": "no-delay", "-6": "version6",
        },
    )  # fmt: skip

    results: dict[str, dict[str, str]] = field(default_factory=dict)
    """Printed values of the whole test, by `send` and `receive`."""
    is_udp: bool = False
    is_in_total: bool = False
    is_server: bool = False
    is_reverse: bool | None = None
    started_at: datetime | None = None

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether a test's first line, its result without these lines, or a command line is next."""
        line = lines.peek_line() or ""
        if line.startswith("[") and "rperf" in line:
            log = _LOG_LINE.match(line)
            return log is not None and log["text"].startswith(
                ("connecting to server at", "server listening on")
            )
        if line.startswith(_SEPARATOR_LINE):
            return _RESULT_LINE.match(lines.peek_line(1) or "") is not None
        return cls.parse_command(line) is not None

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return rperf's command line in this line, if there is one."""
        return super().parse_command(line) if "rperf" in line and not line.startswith("[") else None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this test."""
        if (log := _LOG_LINE.match(line)) is not None:
            is_first = log["text"].startswith(("connecting to server at", "server listening on"))
            return not is_first or not (self.results or self.started_at)
        if line.startswith(_SEPARATOR_LINE) and {"send", "receive"} <= self.results.keys():
            return False
        patterns = (_RESULT_LINE, _TOTAL_LINE, _PACKETS_LINE, _JITTER_LINE, _OTHER_LINE)
        return any(pattern.match(line) for pattern in patterns)

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        if (log := _LOG_LINE.match(line)) is not None:
            self._add_log_line(log)
        elif line.startswith(("=", "-")):
            self.is_in_total = line.startswith("=")
        elif not self.is_in_total:
            return  # The result of an interval of one stream.
        elif (result := _RESULT_LINE.match(line)) is not None:
            self.is_udp = result["family"] == "UDP"
            self.results[result["end"]] = {"seconds": result["seconds"], "streams": result["streams"]}
        elif self.results:
            values = self.results[next(reversed(self.results))]
            if (total := _TOTAL_LINE.match(line)) is not None:
                values |= {"bytes": total["bytes"], "bytes_per_s": total["rate"]}
            elif (packets := _PACKETS_LINE.match(line)) is not None:
                values |= {name: text for name, text in packets.groupdict().items() if text is not None}
                values["packets_per_s"] = packets["rate"]
            elif (jitter := _JITTER_LINE.match(line)) is not None:
                values["jitter_s"] = jitter["seconds"]

    def _add_log_line(self, log: re.Match[str]) -> None:
        self.started_at = self.started_at or datetime.fromisoformat(log["time"])
        self.is_server |= log["text"].startswith("server listening on")
        if (role := _ROLE_LINE.search(log["text"])) is not None:
            self.is_reverse = role["reverse"] is not None
        if log["level"] == "ERROR" and (error := _ERROR_LINE.match(log["text"])):
            self.record_first_error(error[0])

    def build_runs(self) -> list[Run]:
        """Return the test; none for a server, which reports no results, and none before JSON."""
        has_results = {"send", "receive"} <= self.results.keys()
        if self.is_server or "server" in self.options or self.options.get("format") == "json":
            return []
        if not self.results and not self.error_message:
            return []  # A JSON document follows, or the test was cut off, which no line shows.
        workload = UDP_STREAM if self.is_udp or "udp" in self.options else TCP_STREAM
        received, sent = self.results.get("receive", {}), self.results.get("send", {})
        factors: dict[str, Level] = {}
        if sent or received:
            factors[WORKLOADS[workload].count_factor] = int((received or sent)["streams"])
        if self.is_reverse is not None or self.command is not None:
            is_reverse = self.is_reverse or "reverse" in self.options
            factors["direction"] = REVERSE if is_reverse else FORWARD
        run = Run(
            tool=TOOL,
            version="",
            first_line=self.first_line,
            last_line=self.last_line,
            workload=workload,
            factors=factors,
            metrics=_compute_text_metrics(sent, received, is_udp=self.is_udp) if has_results else {},
            measured_duration_s=float(received["seconds"]) if received else None,
            started_at=self.started_at,
            command=self.command_text,
            failure=self.failure_reason(is_complete=has_results),
            remarks=_list_remarks(is_udp=self.is_udp),
        )
        return [run]


def _compute_text_metrics(
    sent: Mapping[str, str], received: Mapping[str, str], *, is_udp: bool
) -> dict[str, RoundedValue]:
    if "bytes_per_s" not in received:
        return {}
    metrics = {} if is_udp else {"goodput_bps": parse_rounded(received["bytes_per_s"], 8)}
    if "packets_per_s" in sent and "packets_per_s" in received:
        packets, lost = int(received["packets"]), int(received["lost"])
        payload_share = 1 - packets * _UDP_HEADER_BYTES / max(1, int(received["bytes"]))
        metrics |= {
            "goodput_bps": parse_rounded(received["bytes_per_s"], 8 * payload_share),
            "datagrams_sent_per_s": parse_rounded(sent["packets_per_s"]),
            "datagrams_received_per_s": parse_rounded(received["packets_per_s"]),
            "loss_percent": RoundedValue.exact(100 * lost / max(1, packets + lost)),
        }
        if "jitter_s" in received:
            metrics["jitter_us"] = parse_rounded(received["jitter_s"], 1e6)
    return metrics


def _list_remarks(*, is_udp: bool) -> tuple[str, ...]:
    load = "rperf paces each stream (-b, 1 Mbit/s by default), so the goodput is not the network's limit."
    headers = "rperf counts the UDP header with each datagram. The goodput is without it."
    return (load, headers) if is_udp else (load,)


def _is_rperf_document(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and {"config", "streams", "summary", "success"} <= document.keys()
        and isinstance(document["config"], dict)
        and {"additional", "common", "upload"} <= document["config"].keys()
    )


def _read_runs(document: Any, first_line: int, last_line: int) -> list[Run]:
    config, summary = document["config"], document["summary"]
    common, additional, upload = (
        config["common"],
        config["additional"],
        config["upload"] or config["download"],
    )
    is_udp = common["family"] == "udp"
    workload = UDP_STREAM if is_udp else TCP_STREAM
    direction = REVERSE if additional.get("reverse") else FORWARD
    factors: dict[str, Level] = {
        WORKLOADS[workload].count_factor: int(common["streams"]),
        WORKLOADS[workload].size_factor: int(common["length"]),
        "direction": direction,
    }
    if additional.get("ip_version") in (4, 6):
        factors["ip_version"] = str(additional["ip_version"])
    rate = 8 * int(upload.get("bandwidth") or config["download"].get("bandwidth") or 0)
    if rate:
        factors["bit_rate" if is_udp else "pacing_rate"] = rate
    intervals, omitted_s = _build_marked_intervals_and_omitted_s(
        document["streams"], direction, int(additional.get("omit_seconds") or 0)
    )
    duration_s = float(summary["duration_receive"]) / int(common["streams"])  # The sum over the streams.
    run = Run(
        tool=TOOL,
        version="",
        first_line=first_line,
        last_line=last_line,
        workload=workload,
        factors=factors,
        metrics=_compute_json_metrics(summary, duration_s, is_udp=is_udp) if duration_s else {},
        intervals=tuple(intervals),
        measured_duration_s=duration_s,
        omitted_s=omitted_s,
        failure="" if document["success"] else "rperf reports that the test failed",
        remarks=_list_remarks(is_udp=is_udp),
    )
    return [drop_invalid_levels_and_intervals(run)]


def _compute_json_metrics(
    summary: Mapping[str, Any], duration_s: float, *, is_udp: bool
) -> dict[str, RoundedValue]:
    received_packets = int(summary["packets_received"]) if is_udp else 0
    payload_bytes = int(summary["bytes_received"]) - _UDP_HEADER_BYTES * received_packets
    metrics = {"goodput_bps": RoundedValue.exact(8 * payload_bytes / duration_s)}
    if is_udp:
        sent_packets = int(summary["packets_sent"])
        metrics |= {
            "datagrams_sent_per_s": RoundedValue.exact(
                sent_packets / duration_s * summary["duration_receive"] / summary["duration_send"]
            ),
            "datagrams_received_per_s": RoundedValue.exact(received_packets / duration_s),
            "loss_percent": RoundedValue.exact(
                100 * max(0, sent_packets - received_packets) / max(1, sent_packets)
            ),
        }
        if "jitter_average" in summary:
            metrics["jitter_us"] = RoundedValue.exact(1e6 * float(summary["jitter_average"]))
    return metrics


def _build_marked_intervals_and_omitted_s(
    streams: Sequence[Mapping[str, Any]], direction: str, omitted_count: int
) -> tuple[list[ReportInterval], float]:
    """Return the receiver's intervals of all streams together, and the length of those that were omitted.

    rperf omits a number of intervals of about a second each. Those that not all streams have are left out.
    """
    intervals: list[ReportInterval] = []
    start_s = omitted_s = 0.0
    by_stream = [each["intervals"]["receive"] for each in streams]
    for at, rows in enumerate(zip(*by_stream, strict=False)):
        length_s = sum(float(row["duration"]) for row in rows) / len(rows)
        payload = sum(
            int(row["bytes_received"]) - _UDP_HEADER_BYTES * int(row.get("packets_received", 0))
            for row in rows
        )
        values = {"bytes": RoundedValue.exact(payload)}
        is_omitted = at < omitted_count
        intervals.append(
            ReportInterval(start_s, start_s + length_s, values, direction=direction, is_omitted=is_omitted)
        )
        start_s += length_s
        omitted_s = start_s if is_omitted else omitted_s
    return intervals, omitted_s


READERS = (
    DocumentReader(TOOL, "json", _is_rperf_document, _read_runs),
    make_report_reader(RperfReport),
)
