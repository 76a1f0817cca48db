"""sockperf: its tests' statistics, and the file that `--full-log` writes.

Source: `src/client.cpp`. A latency is half of a round trip, unless `--full-rtt` says otherwise: here it is
the whole. `MBps` counts 1024² bytes of what was sent, `Mbps` the same times 8, `GBps` a thousand `MBps`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vnetbench.importers.arithmetic import over, times
from vnetbench.importers.command_line import Command, Grammar, command_in, options_of
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import TextReader
from vnetbench.importers.run_lines import CUT_OFF, own_line
from vnetbench.importers.runs import Figure, Interval, Run
from vnetbench.importers.units import NUMBER, counted, rounded
from vnetbench.importers.validation import credibly
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, REQUESTS, STREAM

_GRAMMAR = Grammar(
    valued={
        "-m": "msg-size", "--msg-size": "msg-size", "--mps": "mps", "--pps": "mps", "-t": "time",
        "--time": "time", "-i": "ip", "--ip": "ip", "-p": "port", "--port": "port", "-b": "burst",
        "--burst": "burst", "--reply-every": "reply-every", "--full-log": "full-log", "-n": "number",
        "--data-file": "data-file", "--client_port": "client", "-f": "file", "--file": "file",
    },
    switches={"--tcp": "tcp", "--full-rtt": "full-rtt"},
)  # fmt: skip
_VERSION = re.compile(r"sockperf: == version #(?P<version>\S+) ==")
_PARAMETERS = re.compile(r"test was performed using the following parameters: (?P<options>--.*)")
"""Of a full log: `… --mps=200 --burst=1 --reply-every=1 --msg-size=14 --time=1`."""
_RULE = re.compile(r"-{30}$")
_OWN = re.compile(r"sockperf(?:\[\w+\])?:|sockperf\[|\[ ?\d+\] IP = |packet, txTime|illegal time or size")
_LATENCY = re.compile(rf"sockperf: ====> avg-(?P<what>latency|rtt)=(?P<mean>{NUMBER})")
_TOTAL = re.compile(
    rf"sockperf: \[Total Run\] RunTime=(?P<run>{NUMBER}) sec; .*SentMessages=(?P<sent>\d+); "
    r"ReceivedMessages=(?P<received>\d+)"
)
_VALID = re.compile(
    rf"sockperf: \[Valid Duration\] RunTime=(?P<run>{NUMBER}) sec; SentMessages=(?P<sent>\d+); "
    r"ReceivedMessages=(?P<received>\d+)"
)
_PERCENTILE = re.compile(rf"sockperf: ---> percentile\s+(?P<share>{NUMBER}) =\s*(?P<us>{NUMBER})")
"""`sockperf: ---> percentile 99.000 =  360.334`."""
_LAST = re.compile(r"sockperf: ---> <MIN> observation")
_OBSERVATIONS = re.compile(r"sockperf: Total (?P<count>\d+) observations")
_MISSED = re.compile(r"sockperf: (?P<text># dropped messages = .*)")
_SENT = re.compile(rf"sockperf: Total of (?P<sent>\d+) messages sent in (?P<run>{NUMBER}) sec")
_RATE = re.compile(r"sockperf: Summary: Message Rate is (?P<rate>\d+) \[msg/sec\]")
_BANDWIDTH = re.compile(rf"sockperf: Summary: BandWidth is (?P<rate>{NUMBER}) (?P<unit>[MG]Bps)")
_SIZE = re.compile(r"sockperf: NOTE: test was performed, using msg-size=(?P<size>\d+)")
_PROTOCOL = re.compile(r"\[ ?\d+\] IP = .*# (?P<protocol>UDP|TCP)")
_FAILED = re.compile(
    r"(?:sockperf: )?(?P<why>ERROR: .*|No messages were received.*|No valid observations found.*"
    r"|illegal time or size.*|Test end before test start.*)"
)
_PACKET = re.compile(r"\d+, (?P<sent>\d+\.\d+), (?P<received>\d+\.\d+), \d+\.\d+$")
"""Of a full log: `0, 2.408598264, 2.408677842, 39.789`."""
_SHARES = {
    "50.000": "p50", "90.000": "p90", "99.000": "p99", "99.900": "p99_9", "99.990": "p99_99",
    "99.999": "p99_999",
}  # fmt: skip
_FIGURES = {
    "latency": _LATENCY, "total": _TOTAL, "valid": _VALID, "observations": _OBSERVATIONS, "sent": _SENT,
    "missed": _MISSED, "rate": _RATE, "bandwidth": _BANDWIDTH, "size": _SIZE, "last": _LAST,
}  # fmt: skip
_BYTES = {"MBps": 2**20, "GBps": 1000 * 2**20}
_BIN_S = 0.1
"""Of the samples made of a full log's requests."""


@dataclass
class _Report:
    """What has been read of one test."""

    options: dict[str, str]
    asked_for: str = ""
    """The test, as the command line names it."""
    version: str | None = None
    protocol: str = ""
    sockets: int = 0
    is_server: bool = False
    found: dict[str, re.Match[str]] = field(default_factory=dict)
    percentiles: dict[str, str] = field(default_factory=dict)
    failure: str = ""
    answers: dict[int, int] = field(default_factory=dict)
    """Of a full log: answers by the tenth of a second in which they came."""

    def wants(self, line: str) -> bool:
        """Whether a line is of this test: another one's version, or parameters, are not."""
        if _VERSION.match(line):
            return self.version is None and not self.found
        if _PARAMETERS.match(line):
            return not self.found
        return bool(_OWN.match(line) or _PACKET.match(line) or _RULE.match(line) or _FAILED.match(line))

    def take(self, line: str) -> None:
        """Add what a line tells."""
        if (packet := _PACKET.match(line)) is not None:
            when = int(float(packet["received"]) / _BIN_S)
            self.answers[when] = self.answers.get(when, 0) + 1
        elif (version := _VERSION.match(line)) is not None:
            self.version = version["version"]
        elif (protocol := _PROTOCOL.match(line)) is not None:
            self.protocol = protocol["protocol"]
            self.sockets += 1
        elif (share := _PERCENTILE.match(line)) is not None:
            self.percentiles[share["share"]] = share["us"]
        elif (failed := _FAILED.match(line)) is not None:
            self.failure = self.failure or failed["why"]
        elif (given := _PARAMETERS.match(line)) is not None:
            self.options |= options_of(given["options"].split(), _GRAMMAR)
        elif "[SERVER]" in line:
            self.is_server = True
        else:
            self._figure(line)

    def _figure(self, line: str) -> None:
        for name, pattern in _FIGURES.items():
            if (found := pattern.match(line)) is not None:
                self.found[name] = found
                return

    @property
    def is_of_throughput(self) -> bool:
        """Whether it only sends."""
        return "sent" in self.found or "rate" in self.found or self.asked_for in ("throughput", "tp")

    @property
    def is_whole(self) -> bool:
        """Whether the last line of its statistics is there."""
        return ("bandwidth" if self.is_of_throughput else "last") in self.found


def _command_at(lines: Lines) -> Command | None:
    line = lines.peek() or ""
    found = command_in(line, ("sockperf",)) if "sockperf" in line else None
    return found or _by_words(line)


def _by_words(line: str) -> Command | None:
    """`sockperf` with a test's name behind it, where no prompt stands before it."""
    words = line.split()
    is_one = len(words) > 1 and words[0] == "sockperf" and words[1] in _TESTS
    return Command(line.strip(), "sockperf", tuple(words[1:])) if is_one else None


_TESTS = (
    "ping-pong", "pp", "under-load", "ul", "throughput", "tp", "playback", "pb", "server", "sr",
)  # fmt: skip


def begins(lines: Lines) -> bool:
    """Whether a test's version, a full log, or a command line is next."""
    line = lines.peek() or ""
    if line.startswith("---") and _RULE.match(line):
        return _PARAMETERS.match(lines.peek(1) or "") is not None
    return (
        _VERSION.match(line) is not None
        or _PARAMETERS.match(line) is not None
        or _command_at(lines) is not None
    )


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The run of one test; none of a server, which tells no figures."""
    first = lines.number + 1
    command = _command_at(lines)
    words = command.words if command is not None else ()
    report = _Report(options_of(words, _GRAMMAR), words[0] if words else "")
    if command is not None:
        lines.take()
    last = first
    while (line := own_line(lines, begins, report.wants)) is not None:
        report.take(line)
        last = lines.number
    if report.is_server or report.asked_for in ("server", "sr") or report.asked_for.startswith("-"):
        return []
    return [_run(report, command.text if command is not None else "", first, last)]


def _run(report: _Report, command: str, first: int, last: int) -> Run:
    workload = REQUESTS
    if report.is_of_throughput:
        workload = STREAM if _is_tcp(report) else DATAGRAMS
    return Run(
        tool="sockperf",
        version=report.version or "",
        first_line=first,
        last_line=last,
        workload=workload,
        factors=_factors(report, workload),
        figures=_figures(report, workload) if report.is_whole else {},
        intervals=tuple(_intervals(report)),
        duration_s=_duration(report),
        omitted_s=_omitted(report),
        told_by="sender",
        command=command,
        also=_also(report),
        fault="" if report.is_whole else report.failure or CUT_OFF,
        remarks=tuple(_remarks(report, workload)),
    )


def _is_tcp(report: _Report) -> bool:
    return report.protocol == "TCP" or "tcp" in report.options


def _factors(report: _Report, workload: str) -> dict[str, Level]:
    size = report.found["size"]["size"] if "size" in report.found else report.options.get("msg-size")
    names = {
        STREAM: ("message_size",),
        DATAGRAMS: ("datagram_size",),
        REQUESTS: ("request_size", "response_size"),
    }
    factors: dict[str, Level] = {name: int(size) for name in names[workload] if size and size.isdigit()}
    mps = report.options.get("mps", "")
    if mps.isdigit() and workload != STREAM:
        factors["rate"] = float(mps)
    if workload == REQUESTS and not _is_tcp(report) and report.protocol:
        factors["label_protocol"] = "udp"
    if report.sockets:
        factors["connections" if workload == REQUESTS else "streams"] = report.sockets
    return {**factors, "direction": "forward"}


def _figures(report: _Report, workload: str) -> dict[str, Figure]:
    found = report.found
    if workload == DATAGRAMS:
        return {"datagrams_sent_per_s": rounded(found["rate"]["rate"])}
    if workload == STREAM:
        rate = found["bandwidth"]
        return {"goodput_bps": rounded(rate["rate"], 8 * _BYTES[rate["unit"]])}
    scale = 2 if found["latency"]["what"] == "latency" else 1
    figures = {"latency_mean_us": times(rounded(found["latency"]["mean"]), scale)}
    if "valid" in found:
        answered = counted(found["valid"]["received"])
        figures["transactions_per_s"] = over(answered, rounded(found["valid"]["run"]))
    observations = int(found["observations"]["count"])
    for share, text in report.percentiles.items():
        # Of fewer observations it would be the largest of all, under a name that promises more.
        if share in _SHARES and observations * (100 - float(share)) >= 100:
            figures[f"latency_{_SHARES[share]}_us"] = times(rounded(text), scale)
    return figures


def _intervals(report: _Report) -> Iterable[Interval]:
    """Of a full log: the answers of each tenth of a second, but of the first and the last, which are cut."""
    if not report.answers:
        return
    first, last = min(report.answers), max(report.answers)
    for at in range(first + 1, last):
        start = (at - first - 1) * _BIN_S
        yield Interval(start, start + _BIN_S, {"transactions": Figure.exact(report.answers.get(at, 0))})


def _duration(report: _Report) -> float | None:
    for name in ("valid", "sent", "total"):
        if name in report.found:
            return float(report.found[name]["run"])
    return None


def _omitted(report: _Report) -> float:
    """What it left out at the beginning and at the end."""
    found = report.found
    if "total" in found and "valid" in found:
        return max(0.0, float(found["total"]["run"]) - float(found["valid"]["run"]))
    return 0.0


def _also(report: _Report) -> dict[str, str]:
    also: dict[str, str] = {
        name: report.options[name] for name in ("burst", "reply-every") if name in report.options
    }
    if "missed" in report.found:
        also["missed"] = report.found["missed"]["text"]
    if "bandwidth" in report.found:
        also["sent"] = f"{report.found['bandwidth']['rate']} {report.found['bandwidth']['unit']}"
    return also


def _remarks(report: _Report, workload: str) -> Iterable[str]:
    if "latency" in report.found and report.found["latency"]["what"] == "latency":
        yield "sockperf tells half of each round trip: here it is the whole"
    if workload == REQUESTS and not report.protocol and "tcp" not in report.options:
        yield "whether over TCP or UDP is not told"
    if workload == DATAGRAMS:
        yield "what arrived is not told"
    if workload == STREAM:
        yield "what the sender handed over; what arrived is not told"
    if report.options.get("reply-every", "1") != "1":
        yield f"only one of {report.options['reply-every']} requests was answered"


READERS = (TextReader("sockperf", begins, credibly(read)),)
