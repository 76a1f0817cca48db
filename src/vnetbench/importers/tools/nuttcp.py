"""Read nuttcp: the client's summary and interval lines, as plain text, with `-v`, and with `-fparse`.

Source: `nuttcp-8.2.2.c` (its `PERF_FMT…` strings) and `nuttcp(8)`. MB and KB are powers of 1024, Mbps a power
of 1000. With a server, amount and rate are the receiver's. `%TX` and `%RX` are CPU time of the two processes
in percent of one CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vnetbench.importers.arithmetic import choose_more_precise, divide_values
from vnetbench.importers.command_line import CommandLine, OptionSyntax
from vnetbench.importers.line_report import LineReport, make_report_reader
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.row_columns import SPACE, RowPattern
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.importers.units import NUMBER_PATTERN, parse_exact_count, parse_rounded
from vnetbench.importers.value_columns import (
    CachedNumbers,
    Floats,
    ValueColumn,
    cache_values,
    choose_more_precise_value_per_row,
    divide_columns,
    parse_rounded_column,
)
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

_BYTES_PER_NUTTCP_MEGABYTE = 2**20
_RATE_COLUMNS_PATTERN = (
    rf"(?P<mb>{NUMBER_PATTERN}) MB /\s*(?P<seconds>{NUMBER_PATTERN}) sec =\s*(?P<mbps>{NUMBER_PATTERN}) Mbps"
)
_RATE_LINE = re.compile(rf"(?:[\w.-]+: )?\s*{_RATE_COLUMNS_PATTERN}(?P<details>.*)")
"""` 1387.0000 MB /   1.00 sec = 11608.7056 Mbps 64 %TX 46 %RX 0 retrans 0.14 msRTT`."""
_RATE_DETAIL_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "tx_cpu": re.compile(r" (\d+) %TX"),
    "rx_cpu": re.compile(r" (\d+) %RX"),
    "retrans": re.compile(r" (\d+) (?:host-)?retrans"),
    "rtt_ms": re.compile(rf" ({NUMBER_PATTERN}) msRTT"),
    "drop": re.compile(r" (\d+) /\s+\d+ ~?drop/pkt"),
    "pkt": re.compile(r" \d+ /\s+(\d+) ~?drop/pkt"),
    "loss": re.compile(rf" ({NUMBER_PATTERN}) %loss"),
    "msavgjitter": re.compile(rf" ({NUMBER_PATTERN}) msAvgJitter"),
    "msavgOWD": re.compile(rf" ({NUMBER_PATTERN}) msAvgOWD"),
    "cwnd_KB": re.compile(r" (\d+) KB-cwnd"),
}
"""Values behind the rate, by the names that `-fparse` prints."""
_MACHINE_READABLE_LINE = re.compile(r"(?:[\w.-]+: )?megabytes=(?P<mb>[\d.]+) (?P<pairs>real_sec(?:onds)?=.*)")
"""`megabytes=23.8750 real_seconds=2.00 rate_Mbps=99.9517 tx_cpu=98 rx_cpu=1 retrans=0 rtt_ms=0.14`."""
_DETAILS_WITHOUT_CPU_PATTERN = r"[^%\n]*+(?:%(?![TR]X)[^%\n]*+)*+"
"""The whole transfer has the CPU time, `%TX` or `%RX`. Intervals do not have it."""
_INTERVAL_ROWS = RowPattern(
    rf"(?:[\w.-]+: )?{SPACE}*{_RATE_COLUMNS_PATTERN}(?P<details>{_DETAILS_WITHOUT_CPU_PATTERN})".replace(
        r"\s", SPACE
    )
)
_MACHINE_READABLE_INTERVAL_ROWS = RowPattern(
    r"(?:[\w.-]+: )?megabytes=(?P<mb>[\d.]+) real_sec=(?P<seconds>\S+) rate_Mbps=(?P<mbps>\S+)(?P<details>.*)"
)
"""With `-fparse` intervals have `real_sec`, and the whole transfer has `real_seconds`."""
_VERBOSE_RATE_LINE = re.compile(
    rf"(?:[\w.-]+: )?nuttcp-(?P<end>[tr]): (?P<mb>{NUMBER_PATTERN}) MB in (?P<seconds>{NUMBER_PATTERN})"
    r" real seconds = "
    rf"{NUMBER_PATTERN} KB/sec = (?P<mbps>{NUMBER_PATTERN}) Mbps"
)
"""With `-v`: `nuttcp-r: 11.9375 MB in 1.00 real seconds = 12191.29 KB/sec = 99.8711 Mbps`."""
_VERBOSE_MACHINE_READABLE_LINE = re.compile(
    r"nuttcp-(?P<end>[tr]): megabytes=(?P<mb>[\d.]+) (?P<pairs>real_seconds=.*)"
)
_VERBOSE_CPU_LINE = re.compile(r"nuttcp-(?P<end>[tr]): (?:.*\s|.*cpu=)(?P<cpu>\d+)% ")
"""`nuttcp-t: 0.9user 0.0sys 0:01real 99% 0i+0d 926maxrss 0+0pf 0+7csw`."""
_VERBOSE_RETRANSMITS_LINE = re.compile(r"nuttcp-t: retrans ?= ?(?P<count>\d+)")
_VERBOSE_DROPS_LINE = re.compile(r"nuttcp-r: (?:drop=)?(?P<lost>\d+)(?: / | pkt=)(?P<total>\d+) ")
_VERBOSE_RTT_LINE = re.compile(r"nuttcp-[tr]: connect.*(?:RTT=|rtt_ms=)(?P<ms>[\d.]+)")
_VERSION_LINE = re.compile(r"nuttcp-[tr]: v(?P<version>\d[\w.]*): ")
_SETTINGS_LINE = re.compile(
    r"nuttcp-(?P<end>[tr]): buflen=(?P<length>\d+),? nstream=(?P<streams>\d+),? .*?(?P<mode>tcp|udp)\b"
)
"""`nuttcp-t: buflen=65536, nstream=1, port=5001 tcp -> 10.0.0.2`."""
_LAST_VERBOSE_LINE = re.compile(r"nuttcp-r: (?:.*real \d+% |stats=cpu )")
"""The last line of `-v`: the CPU time of the receiver."""
_NUTTCP_PREFIX = re.compile(r"(?:server )?nuttcp(?:-[tr])?: ")
_ERROR_LINE = re.compile(
    r"(?:server )?nuttcp-[tr]: v[\w.]+: (?P<error>[Ee]rror.*)|(?P<refused>connect failed: .*)"
    r"|(?P<other>\w.* only supported for client/server mode)|errno=\d+$"
)
"""`nuttcp-t: v6.1.2: Error: connect: Connection refused`."""
_AMOUNT_PATTERN = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<suffix>[kKmMgG]?)")
_SIZE_MULTIPLIER_BY_SUFFIX = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_RATE_MULTIPLIER_BY_SUFFIX = {"": 1e3, "k": 1e3, "m": 1e6, "g": 1e9}
"""Suffixes of `-R`. Without one the rate is in kbit/s."""
_COUNTER_BY_INTERVAL_VALUE = {"retransmits": "retrans", "lost": "drop", "datagrams": "pkt"}


@dataclass
class NuttcpReport(LineReport):
    """The output of one transfer."""

    tool = "nuttcp"
    programs = ("nuttcp",)
    option_syntax = OptionSyntax(
        name_by_value_option={f"-{letter}": letter for letter in "TnlNwRipPfMcFxaI"}
        | {"-ws": "ws", "-wb": "wb"},
        name_by_switch={f"-{letter}": letter for letter in "trusSv1bBD46dj"},
    )

    row_patterns = (_INTERVAL_ROWS, _MACHINE_READABLE_INTERVAL_ROWS)

    summary: dict[str, str] = field(default_factory=dict)
    """Values of the whole transfer, by the names of `-fparse`."""
    endpoint_summaries: dict[str, dict[str, str]] = field(default_factory=dict)
    """With `-v`, the summary of the transmitter (`t`) and of the receiver (`r`)."""
    version: str = ""
    settings: re.Match[str] | None = None
    has_verbose_end: bool = False

    @classmethod
    def starts_run(cls, lines: LogLines) -> bool:
        """Return whether the output of a transfer, or its command line, is next."""
        line = lines.peek_line() or ""
        if " MB /" in line:
            return _RATE_LINE.match(line) is not None
        if "megabytes=" in line:
            return _MACHINE_READABLE_LINE.match(line) is not None
        return _VERSION_LINE.match(line) is not None or cls.parse_command(line) is not None

    @classmethod
    def parse_command(cls, line: str) -> CommandLine | None:
        """Return nuttcp's command line in this line, if there is one."""
        return super().parse_command(line) if "nuttcp" in line else None

    def belongs_to_run(self, line: str) -> bool:
        """Return whether the line belongs to this transfer."""
        if self.summary or self.has_verbose_end:
            return False
        return any(
            pattern.match(line)
            for pattern in (_NUTTCP_PREFIX, _RATE_LINE, _MACHINE_READABLE_LINE, _ERROR_LINE)
        )

    def add_non_row_line(self, line: str) -> None:
        """Record what the line reports."""
        version = _VERSION_LINE.match(line)
        self.version = version["version"] if version else self.version
        if (error := _ERROR_LINE.match(line)) is not None:
            self.record_first_error(error["error"] or error["refused"] or error["other"] or "")
        elif (rate := _RATE_LINE.match(line)) is not None:
            self.summary = _parse_rate_line(rate)
        elif line.startswith("nuttcp-"):
            self._add_verbose_line(line)
        elif (pairs := _MACHINE_READABLE_LINE.match(line)) is not None:
            values = _parse_name_value_pairs(pairs)
            if "real_sec" in values:
                interval = (pairs["mb"], values["real_sec"], values["rate_Mbps"], pairs["pairs"])
                self.rows.extend(_INTERVAL_ROWS.names, [interval])
            else:
                self.summary = values

    def _add_verbose_line(self, line: str) -> None:
        """Record a line of `-v`."""
        if (settings := _SETTINGS_LINE.match(line)) is not None:
            self.settings = self.settings or settings
        elif (rate := _VERBOSE_RATE_LINE.match(line)) is not None:
            self._get_or_create_endpoint_summary(rate["end"]).update(_parse_rate_line(rate))
        elif (pairs := _VERBOSE_MACHINE_READABLE_LINE.match(line)) is not None:
            self._get_or_create_endpoint_summary(pairs["end"]).update(_parse_name_value_pairs(pairs))
        elif (retransmits := _VERBOSE_RETRANSMITS_LINE.match(line)) is not None:
            self._get_or_create_endpoint_summary("t")["retrans"] = retransmits["count"]
        elif (drops := _VERBOSE_DROPS_LINE.match(line)) is not None:
            self._get_or_create_endpoint_summary("r").update(drop=drops["lost"], pkt=drops["total"])
        elif (rtt := _VERBOSE_RTT_LINE.match(line)) is not None:
            self._get_or_create_endpoint_summary("t")["rtt_ms"] = rtt["ms"]
        elif (cpu := _VERBOSE_CPU_LINE.match(line)) is not None:
            self._get_or_create_endpoint_summary(cpu["end"])["tx_cpu" if cpu["end"] == "t" else "rx_cpu"] = (
                cpu["cpu"]
            )
        self.has_verbose_end = _LAST_VERBOSE_LINE.match(line) is not None and {"t", "r"} <= set(
            self.endpoint_summaries
        )

    def _get_or_create_endpoint_summary(self, end: str) -> dict[str, str]:
        return self.endpoint_summaries.setdefault(end, {})

    def build_runs(self) -> list[Run]:
        """Return the transfer as a run; none for a server's command line."""
        is_server = bool({"S", "1"} & set(self.options))
        if is_server or (self.command is not None and not self.command.arguments):
            return []
        values = self._select_final_values()
        is_udp = self._is_udp(values)
        seconds = values.get("real_seconds")
        run = Run(
            tool=self.tool,
            version=self.version,
            first_line=self.first_line,
            last_line=self.last_line,
            workload=UDP_STREAM if is_udp else TCP_STREAM,
            factors=self._build_factors(is_udp=is_udp),
            metrics=_compute_metrics(values, is_udp=is_udp) if values else {},
            intervals=self._build_intervals(),
            measured_duration_s=parse_rounded(seconds).value if seconds else None,
            command=self.command_text,
            other_results={
                name: values[name] for name in ("megabytes", "cwnd_KB", "msavgOWD") if name in values
            },
            failure=self.failure_reason(is_complete=bool(values)),
            remarks=tuple(self._list_remarks(values, is_udp=is_udp)),
        )
        return [run]

    def _select_final_values(self) -> dict[str, str]:
        """Return the values of the whole transfer. With `-v` the receiver's amounts and rate count."""
        if self.summary or not self.has_verbose_end:
            return self.summary
        return {**self.endpoint_summaries.get("t", {}), **self.endpoint_summaries["r"]}

    def _is_udp(self, values: Mapping[str, str]) -> bool:
        is_set = self.settings is not None and self.settings["mode"] == "udp"
        has_losses = (
            "pkt" in values
            or "loss" in values
            or (len(self.rows) > 0 and (self._interval_counters()[:, -1] > 0).any())
        )
        return "u" in self.options or is_set or bool(has_losses)

    def _build_factors(self, *, is_udp: bool) -> dict[str, Level]:
        settings, options = self.settings, self.options
        factors: dict[str, Level] = {}
        if self.command is not None or settings:  # A summary alone has neither streams nor direction.
            factors["streams"] = int(options.get("N", settings["streams"] if settings else "1"))
            factors["direction"] = self._detect_direction()
        length = _parse_amount(
            options.get("l", settings["length"] if settings else ""), _SIZE_MULTIPLIER_BY_SUFFIX
        )
        if length:
            factors["datagram_size" if is_udp else "message_size"] = int(length)
        rate = self._parse_rate_limit()
        if rate and is_udp:
            factors["bit_rate"] = int(rate)
        window = _parse_amount(options.get("w", ""), {**_SIZE_MULTIPLIER_BY_SUFFIX, "": 2**10})
        if window:
            factors["socket_buffer"] = int(window)
        return factors

    def _detect_direction(self) -> str:
        return REVERSE if "r" in self.options else FORWARD

    def _parse_rate_limit(self) -> float | None:
        """Return the rate that `-R` sets, in bit/s."""
        return _parse_amount(self.options.get("R", "").lstrip("iu"), _RATE_MULTIPLIER_BY_SUFFIX)

    def _build_intervals(self) -> PackedIntervals:
        if not len(self.rows):
            return PackedIntervals()
        amounts = parse_rounded_column(self.rows["mb"], _BYTES_PER_NUTTCP_MEGABYTE)
        rates = parse_rounded_column(self.rows["mbps"], 1e6 / 8)
        lengths_s = _parse_seconds(self.rows["seconds"])
        has_rate = rates.lows > 0
        quotients = divide_columns(amounts, rates.replace(~has_rate, np.nan))
        lengths_s = choose_more_precise_value_per_row(lengths_s, quotients)
        ends_s = np.cumsum(lengths_s.values)
        starts_s = np.concatenate(([0.0], ends_s))[:-1]
        counters = self._interval_counters()
        columns = {"bytes": amounts} | {
            name: ValueColumn.exact(counters[:, at]) for at, name in enumerate(_COUNTER_BY_INTERVAL_VALUE)
        }
        return PackedIntervals.of_columns(starts_s, ends_s, columns, self._detect_direction())

    def _interval_counters(self) -> Floats:
        return _DETAIL_COUNTERS.parse(self.rows["details"])

    def _list_remarks(self, values: Mapping[str, str], *, is_udp: bool) -> Iterable[str]:
        if values and self.error_message:
            yield f"nuttcp reported: {self.error_message}"
        if not is_udp and self._parse_rate_limit():
            limit = self.options["R"]
            yield f"The option -R {limit} limited the rate, so the goodput is not the network's limit."
        if "rtt_ms" in values:
            yield f"nuttcp measured a round trip of {values['rtt_ms']} ms while connecting, before the load."


def _parse_rate_line(line: re.Match[str]) -> dict[str, str]:
    """Return the values of a plain text line, by the names of `-fparse`."""
    values = {"megabytes": line["mb"], "real_seconds": line["seconds"], "rate_Mbps": line["mbps"]}
    return values | _parse_details(line.groupdict().get("details") or "")


def _parse_details(text: str) -> dict[str, str]:
    """Return the values behind the rate, plain or machine-readable, by the names of `-fparse`."""
    if "=" in text:
        return dict(pair.split("=", 1) for pair in text.split() if "=" in pair)
    return {
        name: found[1] for name, pattern in _RATE_DETAIL_PATTERNS.items() if (found := pattern.search(text))
    }


def _parse_counters_and_loss_flags(details: Sequence[str]) -> Floats:
    """Return for each text the counters of `_COUNTER_BY_INTERVAL_VALUE`, and 1 if it has losses.

    NaN stands for a counter that the text does not have.
    """
    rows = []
    for values in map(_parse_details, details):
        counters = [
            parse_exact_count(values[name]).value if name in values else np.nan
            for name in _COUNTER_BY_INTERVAL_VALUE.values()
        ]
        rows.append([*counters, float("pkt" in values or "loss" in values)])
    return np.array(rows)


_parse_seconds = cache_values(parse_rounded)
_DETAIL_COUNTERS = CachedNumbers(len(_COUNTER_BY_INTERVAL_VALUE) + 1, _parse_counters_and_loss_flags)


def _parse_name_value_pairs(line: re.Match[str]) -> dict[str, str]:
    return {**_parse_details(line["pairs"]), "megabytes": line["mb"]}


def _parse_amount(text: str, suffixes: Mapping[str, float]) -> float | None:
    amount = _AMOUNT_PATTERN.match(text)
    return float(amount["number"]) * suffixes[amount["suffix"].lower()] if amount else None


def _compute_metrics(values: Mapping[str, str], *, is_udp: bool) -> dict[str, RoundedValue]:
    duration = _find_duration(values)
    metrics = {"goodput_bps": parse_rounded(values["rate_Mbps"], 1e6)}
    for theirs, ours in (("tx_cpu", "sender_cpu_percent"), ("rx_cpu", "receiver_cpu_percent")):
        if theirs in values:
            metrics[ours] = parse_rounded(values[theirs])
    if is_udp and "drop" in values and "pkt" in values:
        lost, sent = int(values["drop"]), int(values["pkt"])
        metrics["datagrams_received_per_s"] = divide_values(RoundedValue.exact(sent - lost), duration)
        metrics["datagrams_sent_per_s"] = divide_values(RoundedValue.exact(sent), duration)
        if sent:
            metrics["loss_percent"] = RoundedValue.exact(100 * lost / sent)
    elif is_udp and "loss" in values:
        metrics["loss_percent"] = parse_rounded(values["loss"])
    if "retrans" in values and not is_udp:
        metrics["retransmits_per_s"] = divide_values(parse_exact_count(values["retrans"]), duration)
    if "msavgjitter" in values:
        metrics["jitter_us"] = parse_rounded(values["msavgjitter"], 1e3)
    return metrics


def _find_duration(values: Mapping[str, str]) -> RoundedValue:
    """Return the duration of a transfer in seconds.

    The printed duration has two decimals. The quotient of amount and rate is often more precise.
    """
    printed = parse_rounded(values["real_seconds"])
    bytes_per_s = parse_rounded(values["rate_Mbps"], 1e6 / 8)
    if bytes_per_s.low <= 0:
        return printed
    return choose_more_precise(
        printed, divide_values(parse_rounded(values["megabytes"], _BYTES_PER_NUTTCP_MEGABYTE), bytes_per_s)
    )


READERS = (make_report_reader(NuttcpReport),)
