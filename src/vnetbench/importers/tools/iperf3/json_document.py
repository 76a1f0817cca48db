"""iperf3's JSON: `-J`, one document a run, and the same parts as events of `--json-stream`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from vnetbench.importers.command_line import Command
from vnetbench.importers.json_documents import Extent
from vnetbench.importers.log_lines import Lines
from vnetbench.importers.packed_intervals import PackedIntervals
from vnetbench.importers.runs import CUT_OFF, FORWARD, REVERSE, Figure, Run
from vnetbench.importers.tools.iperf3.endpoint_results import (
    RECEIVER,
    SENDER,
    WAYS,
    Ends,
    Told,
    connection,
    cpu_figures,
    end_of,
    known,
    of_one_line,
    reckon,
)
from vnetbench.importers.tools.iperf3.json_parts import (
    Course,
    Json,
    intervals_of,
    map_of,
    maps_of,
    number_of,
    numbers_of,
    text_of,
    whole_of,
)
from vnetbench.importers.tools.iperf3.line_patterns import VERSION
from vnetbench.importers.tools.iperf3.options import asked_of, label_of, level_of
from vnetbench.importers.tools.iperf3.text_report import SENT_BACK, TOOL, intervals_in
from vnetbench.study.model import Level
from vnetbench.study.workloads import STREAM

_SUFFIX = {FORWARD: "", REVERSE: "_bidir_reverse"}
"""Of the names of the sums of each way."""
_ALSO = ("cookie", "sndbuf_actual", "rcvbuf_actual", "tcp_mss_default", "system_info")


def claims(document: Any) -> bool:
    """Whether it is one of iperf3's."""
    if not isinstance(document, dict) or not isinstance(document.get("start"), dict):
        return False
    parts = {"intervals": list, "end": dict, "error": str}
    return any(isinstance(document.get(name), kind) for name, kind in parts.items())


def read(document: Json, first_line: int, last_line: int, command: Command | None = None) -> list[Run]:
    """The run that a document tells of."""
    telling = Telling(map_of(document["start"]))
    for interval in maps_of(document.get("intervals")):
        telling.course.take(interval)
    telling.rest = document
    return [telling.run(first_line, last_line, command)]


def after_command(lines: Lines, begins: Callable[[Lines], bool], command: Command) -> list[Run]:
    """The run of the document that begins with the next line, of which the command line is known.

    Raises ValueError where it is none.
    """
    first, extent = lines.number + 1, Extent()
    rest = extent.feed(lines.take())
    while rest is None and lines.peek() is not None and not begins(lines):
        rest = extent.feed(lines.take())
    document = extent.document() if rest is not None else extent.beginning()
    if not claims(document):
        raise ValueError("no document of iperf3 after its command line")
    if rest is not None and rest.strip():
        lines.put_back(rest)
    runs = read(document, first, lines.number, command)
    return runs if rest is not None else [replace(run, fault=CUT_OFF) for run in runs]


class Telling:
    """A run while its parts come."""

    def __init__(self, start: Json) -> None:
        self.start = start
        self.course = Course(start)
        self.rest: Json = {}
        """What stands beside `start` and `intervals` in the document."""
        self.remarks: list[str] = []

    def run(self, first_line: int, last_line: int, command: Command | None) -> Run:
        """What was read, once all has come."""
        end, error = map_of(self.rest.get("end")), self.rest.get("error")
        self.course.is_both_ways |= f"sum_sent{_SUFFIX[REVERSE]}" in end
        asked = asked_of(command, self.course.workload)
        fault = str(error) if error else "" if "cpu_utilization_percent" in end else CUT_OFF
        ends = known(self._ends(end), self.course.role, is_whole=not fault)
        reckoned = reckon(self.course.workload, ends)
        server = self._of_server()
        return Run(
            tool=TOOL,
            version=VERSION.sub(r"\g<version>", text_of(self.start.get("version"))),
            first_line=first_line,
            last_line=last_line,
            workload=self.course.workload,
            factors={**asked.factors, **self._factors(end)},
            figures={**reckoned.figures, **self._round_trip(end), **self._cpu(end, fault)},
            intervals=self.course.intervals if server is None else server,
            duration_s=reckoned.duration_s,
            omitted_s=self.course.omitted_s,
            started_at=_time(map_of(self.start.get("timestamp")).get("timesecs")),
            told_by=reckoned.told_by,
            connection=self._connection(),
            command=command.text if command else "",
            also={**asked.also, **self._also(end)},
            fault=fault or ("" if reckoned.figures else CUT_OFF),
            remarks=(*reckoned.remarks, *self.remarks, *((SENT_BACK,) if server is not None else ())),
        )

    def _of_server(self) -> PackedIntervals | None:
        """What the server sent back with --get-server-output, where it is the one that receives."""
        document, text = self.rest.get("server_output_json"), self.rest.get("server_output_text")
        intervals: PackedIntervals | None = None
        if self.course.direction == "forward" and isinstance(document, dict):
            intervals = intervals_of(document)
        elif self.course.direction == "forward" and isinstance(text, str):
            intervals = intervals_in(Lines(text.splitlines()), lambda _: False)
        return intervals if intervals else None

    def _ends(self, end: Json) -> Ends:
        streams = maps_of(end.get("streams"))
        found: dict[tuple[str, str], Told] = {}
        for way in WAYS[self.course.direction]:
            if self.course.workload == STREAM:
                found |= self._of_bytes(way, streams)
            elif (sums := self._of_sums(way, end)) is not None:
                found |= sums
            else:
                found |= self._of_old_form(way, streams)
        return found

    def _of_bytes(self, way: str, streams: Sequence[Json]) -> Iterator[tuple[tuple[str, str], Told]]:
        for which in (SENDER, RECEIVER):
            told = [
                part
                for each in streams
                if (part := map_of(each.get(which))) and self.course.way_of(part) == way
            ]
            rates, seconds = numbers_of(told, "bits_per_second"), numbers_of(told, "end")
            if told and rates and seconds:
                resent = numbers_of(told, "retransmits")
                count = int(sum(resent)) if resent and min(resent) >= 0 and which == SENDER else None
                yield (way, which), Told(Figure.exact(max(seconds)), Figure.exact(sum(rates)), count)

    def _of_sums(self, way: str, end: Json) -> dict[tuple[str, str], Told] | None:
        """Of UDP from 3.10 on; None where the document has none."""
        found = {}
        for name, which in (("sum_sent", SENDER), ("sum_received", RECEIVER)):
            told = map_of(end.get(f"{name}{_SUFFIX[way]}"))
            seconds, rate, packets, lost, jitter = (
                number_of(told.get(key))
                for key in ("end", "bits_per_second", "packets", "lost_packets", "jitter_ms")
            )
            if seconds is None or rate is None or packets is None:
                return None
            found[way, which] = Told(
                Figure.exact(seconds),
                Figure.exact(rate),
                datagrams=int(packets),
                lost=None if lost is None else int(lost),
                jitter_us=None if jitter is None else Figure.exact(1e3 * jitter),
            )
        return found

    def _of_old_form(self, way: str, streams: Sequence[Json]) -> Iterator[tuple[tuple[str, str], Told]]:
        told = [
            part for each in streams if (part := map_of(each.get("udp"))) and self.course.way_of(part) == way
        ]
        keys = ("end", "bits_per_second", "packets", "lost_packets", "jitter_ms")
        seconds, rates, packets, lost, jitters = (numbers_of(told, key) for key in keys)
        if not (seconds and rates and packets and lost and jitters):
            return
        one_line = Told(
            Figure.exact(max(seconds)),
            Figure.exact(sum(rates)),
            datagrams=int(sum(packets)),
            lost=int(sum(lost)),
            jitter_us=Figure.exact(1e3 * sum(jitters) / len(jitters)),
        )
        size = number_of(self.course.test.get("blksize"))
        yield from of_one_line(one_line, way, end_of(self.course.role, way), 8 * size if size else None)

    def _factors(self, end: Json) -> dict[str, Level]:
        start, test = self.start, self.course.test
        size = number_of(test.get("blksize"))
        hosts = [text_of(each.get("local_host")) for each in maps_of(start.get("connected"))]
        raw: dict[str, object] = {
            "streams": whole_of(test.get("num_streams")),
            "direction": self.course.direction if test else None,
            "ip_version": (6 if ":" in hosts[0] else 4) if hosts else None,
            "message_size": size and f"{int(size)} B",
            "datagram_size": size and f"{int(size)} B",
            "congestion_control": end.get("sender_tcp_congestion"),
            "socket_buffer": _or_word(number_of(start.get("sock_bufsize")), "B", "auto"),
            "bit_rate": _or_word(number_of(start.get("target_bitrate")), "bit/s", "none"),
            "pacing_rate": self._pacing(),
            "udp_gso": _switch(test.get("gso")),
            "udp_gro": _switch(test.get("gro")),
            label_of("set-mss"): text_of(start.get("tcp_mss")) or None,
            label_of("sctp"): "on" if test.get("protocol") == "SCTP" else None,
        }
        told = {name: each for name, each in raw.items() if each is not None}
        levels = {name: level_of(name, self.course.workload, each) for name, each in told.items()}
        return {name: level for name, level in levels.items() if level is not None}

    def _connection(self) -> str:
        for each in maps_of(self.start.get("connected"))[:1]:
            ends = [
                (text_of(each.get(f"{n}_host")), whole_of(each.get(f"{n}_port"))) for n in ("local", "remote")
            ]
            return connection(self.course.role, *(f"{host}:{port}" for host, port in ends))
        return ""

    def _pacing(self) -> str | None:
        rates = [number_of(self.start.get(name)) for name in ("fq_rate", "target_bitrate")]
        told = [rate for rate in rates if rate is not None]
        return _or_word(max(told), "bit/s", "none") if told else None

    def _round_trip(self, end: Json) -> dict[str, Figure]:
        times = numbers_of([map_of(each.get(SENDER)) for each in maps_of(end.get("streams"))], "mean_rtt")
        means = [time for time in times if time > 0]
        return {"rtt_us": Figure.exact(sum(means) / len(means))} if means else {}

    def _cpu(self, end: Json, fault: str) -> dict[str, Figure]:
        told = map_of(end.get("cpu_utilization_percent"))
        local, remote = (number_of(told.get(name)) for name in ("host_total", "remote_total"))
        if local is None:
            return {}
        shares = Figure.exact(local), None if remote is None else Figure.exact(remote)
        return cpu_figures(self.course.role, self.course.direction, shares, is_whole=not fault)

    def _also(self, end: Json) -> dict[str, str]:
        told = {name: self.start.get(name) for name in _ALSO}
        told |= {"title": self.rest.get("title"), "extra_data": self.rest.get("extra_data")}
        told |= {"receiver_tcp_congestion": end.get("receiver_tcp_congestion")}
        told |= {"tos": number_of(self.course.test.get("tos")) or None}
        return {name: text_of(value) for name, value in told.items() if value is not None}


def _or_word(number: float | None, unit: str, word: str) -> str | None:
    return None if number is None else f"{int(number)} {unit}" if number else word


def _switch(value: Any) -> str | None:
    number = number_of(value)
    return None if number is None else "on" if number else "off"


def _time(seconds: Any) -> datetime | None:
    number = number_of(seconds)
    try:
        return None if number is None else datetime.fromtimestamp(number, UTC)
    except (ValueError, OSError, OverflowError):
        return None
