"""nuttcp: the client's summary with its interval lines, for people, with `-v`, and with `-fparse`.

Source: `nuttcp-8.2.2.c` (its `PERF_FMT…` strings) and `nuttcp(8)`. MB and KB are of 1024, Mbps of 1000. With
a server the amount and rate are the receiver's. `%TX` and `%RX`: CPU time of the two processes, of one CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from vnetbench.importers.arithmetic import narrower, over
from vnetbench.importers.command_line import Command, Grammar, command_in, options_of
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.reader import TextReader
from vnetbench.importers.run_lines import CUT_OFF, own_line
from vnetbench.importers.runs import FORWARD, REVERSE, Figure, Interval, Run
from vnetbench.importers.units import NUMBER, counted, rounded
from vnetbench.importers.validation import credibly
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, STREAM

_MB = 2**20
_GRAMMAR = Grammar(
    valued={f"-{letter}": letter for letter in "TnlNwRipPfMcFxaI"} | {"-ws": "ws", "-wb": "wb"},
    switches={f"-{letter}": letter for letter in "trusSv1bBD46dj"},
)
_RATE = rf"(?P<mb>{NUMBER}) MB /\s*(?P<seconds>{NUMBER}) sec =\s*(?P<mbps>{NUMBER}) Mbps"
_TEXT = re.compile(rf"(?:[\w.-]+: )?\s*{_RATE}(?P<more>.*)")
"""` 1387.0000 MB /   1.00 sec = 11608.7056 Mbps 64 %TX 46 %RX 0 retrans 0.14 msRTT`."""
_MORE: Mapping[str, re.Pattern[str]] = {
    "tx_cpu": re.compile(r" (\d+) %TX"),
    "rx_cpu": re.compile(r" (\d+) %RX"),
    "retrans": re.compile(r" (\d+) (?:host-)?retrans"),
    "rtt_ms": re.compile(rf" ({NUMBER}) msRTT"),
    "drop": re.compile(r" (\d+) /\s+\d+ ~?drop/pkt"),
    "pkt": re.compile(r" \d+ /\s+(\d+) ~?drop/pkt"),
    "msavgjitter": re.compile(rf" ({NUMBER}) msAvgJitter"),
    "msavgOWD": re.compile(rf" ({NUMBER}) msAvgOWD"),
    "cwnd_KB": re.compile(r" (\d+) KB-cwnd"),
}
"""What stands behind the rate, by the names that `-fparse` has for it."""
_PARSED = re.compile(r"(?:[\w.-]+: )?megabytes=(?P<mb>[\d.]+) (?P<rest>real_sec(?:onds)?=.*)")
"""`megabytes=23.8750 real_seconds=2.00 rate_Mbps=99.9517 tx_cpu=98 rx_cpu=1 retrans=0 rtt_ms=0.14`."""
_VERBOSE = re.compile(
    rf"(?:[\w.-]+: )?nuttcp-(?P<end>[tr]): (?P<mb>{NUMBER}) MB in (?P<seconds>{NUMBER}) real seconds = "
    rf"{NUMBER} KB/sec = (?P<mbps>{NUMBER}) Mbps"
)
"""With `-v`: `nuttcp-r: 11.9375 MB in 1.00 real seconds = 12191.29 KB/sec = 99.8711 Mbps`."""
_VERBOSE_PARSED = re.compile(r"nuttcp-(?P<end>[tr]): megabytes=(?P<mb>[\d.]+) (?P<rest>real_seconds=.*)")
_VERBOSE_CPU = re.compile(r"nuttcp-(?P<end>[tr]): (?:.*\s|.*cpu=)(?P<cpu>\d+)% ")
"""`nuttcp-t: 0.9user 0.0sys 0:01real 99% 0i+0d 926maxrss 0+0pf 0+7csw`."""
_VERBOSE_AGAIN = re.compile(r"nuttcp-t: retrans ?= ?(?P<count>\d+)")
_VERBOSE_RTT = re.compile(r"nuttcp-[tr]: connect.*(?:RTT=|rtt_ms=)(?P<ms>[\d.]+)")
_VERSION = re.compile(r"nuttcp-[tr]: v(?P<version>\d[\w.]*): ")
_HEAD = re.compile(
    r"nuttcp-(?P<end>[tr]): buflen=(?P<length>\d+),? nstream=(?P<streams>\d+),? .*?(?P<mode>tcp|udp)\b"
)
"""`nuttcp-t: buflen=65536, nstream=1, port=5001 tcp -> 10.0.0.2`."""
_CLOSING = re.compile(r"nuttcp-r: (?:.*real \d+% |stats=cpu )")
"""The last line of `-v`: the receiver's use of its CPU."""
_OWN = re.compile(r"(?:server )?nuttcp(?:-[tr])?: ")
_FAILED = re.compile(
    r"(?:server )?nuttcp-[tr]: v[\w.]+: (?P<error>[Ee]rror.*)|(?P<refused>connect failed: .*)"
    r"|(?P<other>\w.* only supported for client/server mode)|errno=\d+$"
)
"""`nuttcp-t: v6.1.2: Error: connect: Connection refused`."""
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<suffix>[kKmMgG]?)")
_SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_RATES = {"": 1e3, "k": 1e3, "m": 1e6, "g": 1e9}
"""Of `-R`: without a suffix kbit/s."""
_END = {"t": "sender", "r": "receiver"}


@dataclass
class _Report:
    """What has been read of one transfer."""

    options: dict[str, str]
    is_asked: bool
    """The log has its command line."""
    intervals: list[dict[str, str]] = field(default_factory=list)
    whole: dict[str, str] = field(default_factory=dict)
    """By the names of `-fparse`."""
    ends: dict[str, dict[str, str]] = field(default_factory=dict)
    """With `-v`: what each end tells, `t` and `r`."""
    version: str = ""
    head: re.Match[str] | None = None
    failure: str = ""
    is_closed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the last line is there."""
        return bool(self.whole) or self.is_closed

    def wants(self, line: str) -> bool:
        """Whether a line is of this transfer."""
        if self.is_over:
            return False
        return bool(_OWN.match(line) or _TEXT.match(line) or _PARSED.match(line) or _FAILED.match(line))

    def take(self, line: str) -> None:
        """Add what a line tells."""
        version = _VERSION.match(line)
        self.version = version["version"] if version else self.version
        if (failed := _FAILED.match(line)) is not None:
            self.failure = self.failure or failed["error"] or failed["refused"] or failed["other"] or ""
        elif (found := _TEXT.match(line)) is not None:
            self._rate(_values(found), is_interval="%TX" not in line and "%RX" not in line)
        elif line.startswith("nuttcp-"):
            self._of_end(line)
        elif (found := _PARSED.match(line)) is not None:
            values = _pairs(found)
            self._rate(values, is_interval="real_sec" in values)

    def _rate(self, values: dict[str, str], *, is_interval: bool) -> None:
        if is_interval:
            self.intervals.append(values)
        else:
            self.whole = values

    def _of_end(self, line: str) -> None:
        """Take a line of `-v`."""
        if (head := _HEAD.match(line)) is not None:
            self.head = self.head or head
        elif (found := _VERBOSE.match(line)) is not None:
            self.ends.setdefault(found["end"], {}).update(_values(found))
        elif (found := _VERBOSE_PARSED.match(line)) is not None:
            self.ends.setdefault(found["end"], {}).update(_pairs(found))
        elif (found := _VERBOSE_AGAIN.match(line)) is not None:
            self.ends.setdefault("t", {})["retrans"] = found["count"]
        elif (found := _VERBOSE_RTT.match(line)) is not None:
            self.ends.setdefault("t", {})["rtt_ms"] = found["ms"]
        elif (found := _VERBOSE_CPU.match(line)) is not None:
            name = "tx_cpu" if found["end"] == "t" else "rx_cpu"
            self.ends.setdefault(found["end"], {})[name] = found["cpu"]
        self.is_closed = _CLOSING.match(line) is not None and {"t", "r"} <= set(self.ends)


def _values(found: re.Match[str]) -> dict[str, str]:
    """What a line for people tells, by the names of `-fparse`."""
    more = found.groupdict().get("more") or ""
    values = {"megabytes": found["mb"], "real_seconds": found["seconds"], "rate_Mbps": found["mbps"]}
    return values | {name: at[1] for name, pattern in _MORE.items() if (at := pattern.search(more))}


def _pairs(found: re.Match[str]) -> dict[str, str]:
    values = dict(pair.split("=", 1) for pair in found["rest"].split() if "=" in pair)
    return {**values, "megabytes": found["mb"]}


def _command_at(lines: Lines) -> Command | None:
    line = lines.peek() or ""
    return command_in(line, ("nuttcp",)) if "nuttcp" in line else None


def begins(lines: Lines) -> bool:
    """Whether a transfer's lines, or the command line, are next."""
    line = lines.peek() or ""
    if " MB /" in line:
        return _TEXT.match(line) is not None
    if "megabytes=" in line:
        return _PARSED.match(line) is not None
    return _VERSION.match(line) is not None or _command_at(lines) is not None


def read(lines: Lines, begins: Callable[[Lines], bool]) -> list[Run]:
    """The transfer that is next; none of a server's command line."""
    first = lines.number + 1
    command = _command_at(lines)
    options = options_of(command.words, _GRAMMAR) if command is not None else {}
    report = _Report(options, command is not None)
    if command is not None:
        lines.take()
    last = first
    while (line := own_line(lines, begins, report.wants)) is not None:
        report.take(line)
        last = lines.number
    is_server = bool({"S", "1"} & set(report.options))
    if is_server or (command is not None and not command.words):
        return []
    return [_run(report, command.text if command is not None else "", first, last)]


def _run(report: _Report, command: str, first: int, last: int) -> Run:
    # With -v each end tells its own: the receiver's amounts and rate are the ones that arrived.
    whole = report.whole or ({**report.ends.get("t", {}), **report.ends["r"]} if report.is_closed else {})
    is_udp = _is_udp(report, whole)
    is_reverse = "r" in report.options
    seconds = whole.get("real_seconds")
    return Run(
        tool="nuttcp",
        version=report.version,
        first_line=first,
        last_line=last,
        workload=DATAGRAMS if is_udp else STREAM,
        factors=_factors(report, is_udp=is_udp, is_reverse=is_reverse),
        figures=_figures(whole, is_udp=is_udp) if whole else {},
        intervals=tuple(_intervals(report, REVERSE if is_reverse else FORWARD)),
        duration_s=rounded(seconds).value if seconds else None,
        command=command,
        also={name: whole[name] for name in ("megabytes", "cwnd_KB", "msavgOWD") if name in whole},
        fault="" if whole else report.failure or CUT_OFF,
        remarks=tuple(_remarks(report, whole, is_udp=is_udp)),
    )


def _is_udp(report: _Report, whole: Mapping[str, str]) -> bool:
    is_headed = report.head is not None and report.head["mode"] == "udp"
    return "u" in report.options or is_headed or any("pkt" in each for each in (whole, *report.intervals))


def _factors(report: _Report, *, is_udp: bool, is_reverse: bool) -> dict[str, Level]:
    factors: dict[str, Level] = {}
    if report.is_asked or report.head:  # A summary alone tells neither.
        factors["streams"] = int(report.options.get("N", report.head["streams"] if report.head else "1"))
        factors["direction"] = "reverse" if is_reverse else "forward"
    length = _amount(report.options.get("l", report.head["length"] if report.head else ""), _SIZES)
    if length:
        factors["datagram_size" if is_udp else "message_size"] = int(length)
    rate = _amount(report.options.get("R", "").lstrip("iu"), _RATES)
    if rate and is_udp:
        factors["bit_rate"] = int(rate)
    window = _amount(report.options.get("w", ""), {**_SIZES, "": 2**10})
    if window:
        factors["socket_buffer"] = int(window)
    return factors


def _amount(text: str, suffixes: Mapping[str, float]) -> float | None:
    found = _SIZE.match(text)
    return float(found["number"]) * suffixes[found["suffix"].lower()] if found else None


def _figures(whole: Mapping[str, str], *, is_udp: bool) -> dict[str, Figure]:
    seconds = _seconds(whole)
    figures = {"goodput_bps": rounded(whole["rate_Mbps"], 1e6)}
    for name, ours in (("tx_cpu", "sender_cpu_percent"), ("rx_cpu", "receiver_cpu_percent")):
        if name in whole:
            figures[ours] = rounded(whole[name])
    if is_udp and "drop" in whole and "pkt" in whole:
        lost, sent = int(whole["drop"]), int(whole["pkt"])
        figures["datagrams_received_per_s"] = over(Figure.exact(sent - lost), seconds)
        figures["datagrams_sent_per_s"] = over(Figure.exact(sent), seconds)
        if sent:
            figures["loss_percent"] = Figure.exact(100 * lost / sent)
    if "retrans" in whole and not is_udp:
        figures["retransmits_per_s"] = over(counted(whole["retrans"]), seconds)
    if "msavgjitter" in whole:
        figures["jitter_us"] = rounded(whole["msavgjitter"], 1e3)
    return figures


def _seconds(told: Mapping[str, str]) -> Figure:
    """How long a transfer took: amount and rate tell it better than the two digits that are printed of it."""
    printed = rounded(told["real_sec" if "real_sec" in told else "real_seconds"])
    rate = rounded(told["rate_Mbps"], 1e6 / 8)
    if rate.low <= 0:
        return printed
    return narrower(printed, over(rounded(told["megabytes"], _MB), rate))


def _intervals(report: _Report, way: str) -> Iterable[Interval]:
    at = 0.0
    for each in report.intervals:
        seconds = _seconds(each).value
        values = {"bytes": rounded(each["megabytes"], _MB)}
        values |= {name: counted(each[told]) for name, told in _COUNTS.items() if told in each}
        yield Interval(at, at + seconds, values, way=way)
        at += seconds


_COUNTS = {"retransmits": "retrans", "lost": "drop", "datagrams": "pkt"}


def _remarks(report: _Report, whole: Mapping[str, str], *, is_udp: bool) -> Iterable[str]:
    if whole and report.failure:
        yield f"it says: {report.failure}"
    if not is_udp and _amount(report.options.get("R", "").lstrip("iu"), _RATES):
        yield f"limited by -R {report.options['R']}: what it got is no limit of the network"
    if "rtt_ms" in whole:
        yield f"a round trip of {whole['rtt_ms']} ms is that of connecting, before the load"


READERS = (TextReader("nuttcp", begins, credibly(read)),)
