"""iperf3's JSON: `-J`, one document a run, and the same parts as events of `--json-stream`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from math import isfinite
from typing import Any

from vnetbench.importers.command import Command
from vnetbench.importers.iperf3.ends import (
    CLIENT,
    RECEIVER,
    SENDER,
    SERVER,
    WAYS,
    Ends,
    Told,
    cpu_figures,
    end_of,
    known,
    of_one_line,
    reckon,
)
from vnetbench.importers.iperf3.options import asked_by, label_of, level_of
from vnetbench.importers.iperf3.text import TOOL, Reading
from vnetbench.importers.json_text import Extent
from vnetbench.importers.lines import Lines
from vnetbench.importers.packed import Kind, PackedIntervals, packed
from vnetbench.importers.runs import CUT_OFF, FORWARD, REVERSE, Figure, Run
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, STREAM

_SUFFIX = {FORWARD: "", REVERSE: "_bidir_reverse"}
"""Of the names of the sums of each way."""
_ALSO = ("cookie", "sndbuf_actual", "rcvbuf_actual", "tcp_mss_default", "system_info")
_Json = Mapping[str, Any]


def claims(document: Any) -> bool:
    """Whether it is one of iperf3's."""
    if not isinstance(document, dict) or not isinstance(document.get("start"), dict):
        return False
    parts = {"intervals": list, "end": dict, "error": str}
    return any(isinstance(document.get(name), kind) for name, kind in parts.items())


def read(document: _Json, first_line: int, last_line: int, command: Command | None = None) -> list[Run]:
    """The run that a document tells of."""
    telling = Telling(_map(document["start"]))
    for interval in _maps(document.get("intervals")):
        telling.take_interval(interval)
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
    return read(document, first, lines.number, command)


class Telling:
    """A run while its parts come."""

    def __init__(self, start: _Json) -> None:
        self.start = start
        self.intervals = PackedIntervals()
        self.rest: _Json = {}
        """What stands beside `start` and `intervals` in the document."""
        self._test = _map(start.get("test_start"))
        self._is_both_ways = bool(_number(self._test.get("bidir")))
        self._omitted_s = 0.0

    def take_interval(self, interval: _Json) -> None:
        """Sums are added up from the streams, as iperf3 does: up to 3.9 both ways' sums have one name."""
        streams = _maps(interval.get("streams"))
        self._is_both_ways |= len({bool(each.get("sender")) for each in streams if "sender" in each}) > 1
        by_way: dict[str, list[_Json]] = {}
        for each in streams:
            by_way.setdefault(self._way_of(each), []).append(each)
        for way, alike in by_way.items():
            self._take_way(way, alike)

    def run(self, first_line: int, last_line: int, command: Command | None) -> Run:
        """What was read, once all has come."""
        end, error = _map(self.rest.get("end")), self.rest.get("error")
        self._is_both_ways |= f"sum_sent{_SUFFIX[REVERSE]}" in end
        asked = asked_by(command) if command else None
        asked = asked if asked and asked.workload == self._workload else None
        fault = str(error) if error else "" if "cpu_utilization_percent" in end else CUT_OFF
        ends = known(self._ends(end), self._role, is_whole=not fault)
        reckoned = reckon(self._workload, ends)
        server = self._of_server()
        return Run(
            tool=TOOL,
            version=_text(self.start.get("version")).removeprefix("iperf "),
            first_line=first_line,
            last_line=last_line,
            workload=self._workload,
            factors={**(asked.factors if asked else {}), **self._factors(end)},
            figures={**reckoned.figures, **self._round_trip(end), **self._cpu(end, fault)},
            intervals=self.intervals if server is None else server,
            duration_s=reckoned.duration_s,
            omitted_s=self._omitted_s,
            started_at=_time(_map(self.start.get("timestamp")).get("timesecs")),
            told_by=reckoned.told_by,
            command=command.text if command else "",
            also={**(asked.also if asked else {}), **self._also(end)},
            fault=fault or ("" if reckoned.figures else CUT_OFF),
            remarks=(
                *reckoned.remarks,
                *(("its intervals are those that the server sent back",) if server is not None else ()),
            ),
        )

    # ---- intervals

    def _take_way(self, way: str, streams: Sequence[_Json]) -> None:
        start_s, end_s = _number(streams[0].get("start")), _number(streams[0].get("end"))
        if start_s is None or end_s is None or not 0 <= start_s <= end_s:
            return
        is_omitted = streams[0].get("omitted") is True
        shift = 0.0 if is_omitted else self._omitted_s
        if is_omitted:
            self._omitted_s = max(self._omitted_s, end_s)
        told = [_values(each) for each in streams]
        rows: list[tuple[int | None, Mapping[str, float]]] = [
            (None, told[0] if len(told) == 1 else _sum(told))
        ]
        if len(told) > 1:
            rows += [
                (int(_number(each.get("socket")) or 0), one) for each, one in zip(streams, told, strict=True)
            ]
        for stream, values in rows:
            number = self.intervals.number_of(Kind(tuple(values), stream, way, is_omitted))
            numbers = chain.from_iterable(packed(Figure.exact(value)) for value in values.values())
            self.intervals.append(number, start_s + shift, end_s + shift, numbers)

    def _way_of(self, stream: _Json) -> str:
        if not self._is_both_ways:
            return REVERSE if _number(self._test.get("reverse")) else FORWARD
        sends = bool(stream.get("sender"))
        return FORWARD if sends == (self._role == CLIENT) else REVERSE

    def _of_server(self) -> PackedIntervals | None:
        """What the server sent back with --get-server-output, where it is the one that receives."""
        document, text = self.rest.get("server_output_json"), self.rest.get("server_output_text")
        intervals: PackedIntervals | None = None
        if self._direction != "forward":
            return None
        if isinstance(document, dict):
            telling = Telling(_map(document.get("start")))
            for interval in _maps(document.get("intervals")):
                telling.take_interval(interval)
            intervals = telling.intervals
        elif isinstance(text, str):
            reading = Reading(Lines(text.splitlines()), lambda _: False)
            reading.walk()
            reading.rows.settle((FORWARD,))
            intervals = reading.rows.intervals
        return intervals if intervals else None

    # ---- the whole run

    @property
    def _role(self) -> str:
        return SERVER if "accepted_connection" in self.start else CLIENT

    @property
    def _workload(self) -> str:
        return DATAGRAMS if self._test.get("protocol") == "UDP" else STREAM

    @property
    def _direction(self) -> str:
        if self._is_both_ways:
            return "both"
        return "reverse" if _number(self._test.get("reverse")) else "forward"

    def _ends(self, end: _Json) -> Ends:
        streams = _maps(end.get("streams"))
        found: dict[tuple[str, str], Told] = {}
        for way in WAYS[self._direction]:
            if self._workload == STREAM:
                found |= self._of_bytes(way, streams)
            elif (sums := self._of_sums(way, end)) is not None:
                found |= sums
            else:
                found |= self._of_old_form(way, streams)
        return found

    def _of_bytes(self, way: str, streams: Sequence[_Json]) -> Iterator[tuple[tuple[str, str], Told]]:
        for which in (SENDER, RECEIVER):
            told = [part for each in streams if (part := _map(each.get(which))) and self._way_of(part) == way]
            rates, seconds = _numbers(told, "bits_per_second"), _numbers(told, "end")
            if told and rates and seconds:
                resent = _numbers(told, "retransmits")
                count = int(sum(resent)) if resent and min(resent) >= 0 and which == SENDER else None
                yield (way, which), Told(Figure.exact(max(seconds)), Figure.exact(sum(rates)), count)

    def _of_sums(self, way: str, end: _Json) -> dict[tuple[str, str], Told] | None:
        """Of UDP from 3.10 on; None where the document has none."""
        found = {}
        for name, which in (("sum_sent", SENDER), ("sum_received", RECEIVER)):
            told = _map(end.get(f"{name}{_SUFFIX[way]}"))
            seconds, rate, packets, lost, jitter = (
                _number(told.get(key))
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

    def _of_old_form(self, way: str, streams: Sequence[_Json]) -> Iterator[tuple[tuple[str, str], Told]]:
        told = [part for each in streams if (part := _map(each.get("udp"))) and self._way_of(part) == way]
        keys = ("end", "bits_per_second", "packets", "lost_packets", "jitter_ms")
        seconds, rates, packets, lost, jitters = (_numbers(told, key) for key in keys)
        if not (seconds and rates and packets and lost and jitters):
            return
        one_line = Told(
            Figure.exact(max(seconds)),
            Figure.exact(sum(rates)),
            datagrams=int(sum(packets)),
            lost=int(sum(lost)),
            jitter_us=Figure.exact(1e3 * sum(jitters) / len(jitters)),
        )
        size = _number(self._test.get("blksize"))
        yield from of_one_line(one_line, way, end_of(self._role, way), 8 * size if size else None)

    def _factors(self, end: _Json) -> dict[str, Level]:
        start, test = self.start, self._test
        size = _number(test.get("blksize"))
        hosts = [_text(each.get("local_host")) for each in _maps(start.get("connected"))]
        raw: dict[str, object] = {
            "streams": _whole(test.get("num_streams")),
            "direction": self._direction if test else None,
            "ip_version": (6 if ":" in hosts[0] else 4) if hosts else None,
            "message_size": size and f"{int(size)} B",
            "datagram_size": size and f"{int(size)} B",
            "congestion_control": end.get("sender_tcp_congestion"),
            "socket_buffer": _or_word(_number(start.get("sock_bufsize")), "B", "auto"),
            "bit_rate": _or_word(_number(start.get("target_bitrate")), "bit/s", "none"),
            "pacing_rate": self._pacing(),
            "udp_gso": _switch(test.get("gso")),
            "udp_gro": _switch(test.get("gro")),
            label_of("set-mss"): _text(start.get("tcp_mss")) or None,
            label_of("sctp"): "on" if test.get("protocol") == "SCTP" else None,
        }
        told = {name: each for name, each in raw.items() if each is not None}
        levels = {name: level_of(name, self._workload, each) for name, each in told.items()}
        return {name: level for name, level in levels.items() if level is not None}

    def _pacing(self) -> str | None:
        rates = [_number(self.start.get(name)) for name in ("fq_rate", "target_bitrate")]
        told = [rate for rate in rates if rate is not None]
        return _or_word(max(told), "bit/s", "none") if told else None

    def _round_trip(self, end: _Json) -> dict[str, Figure]:
        times = _numbers([_map(each.get(SENDER)) for each in _maps(end.get("streams"))], "mean_rtt")
        means = [time for time in times if time > 0]
        return {"rtt_us": Figure.exact(sum(means) / len(means))} if means else {}

    def _cpu(self, end: _Json, fault: str) -> dict[str, Figure]:
        told = _map(end.get("cpu_utilization_percent"))
        local, remote = (_number(told.get(name)) for name in ("host_total", "remote_total"))
        if local is None:
            return {}
        is_told = remote is not None and self._role == CLIENT and not fault
        there = Figure.exact(remote) if remote is not None and is_told else None
        return cpu_figures(self._role, self._direction, Figure.exact(local), there)

    def _also(self, end: _Json) -> dict[str, str]:
        told = {name: self.start.get(name) for name in _ALSO}
        told |= {"title": self.rest.get("title"), "extra_data": self.rest.get("extra_data")}
        told |= {"receiver_tcp_congestion": end.get("receiver_tcp_congestion")}
        told |= {"tos": _number(self._test.get("tos")) or None}
        return {name: _text(value) for name, value in told.items() if value is not None}


_NAMES = {
    "bytes": ("bytes", 1.0),
    "retransmits": ("retransmits", 1.0),
    "packets": ("datagrams", 1.0),
    "lost_packets": ("lost", 1.0),
    "jitter_ms": ("jitter_us", 1e3),
    "snd_cwnd": ("cwnd_bytes", 1.0),
    "rtt": ("rtt_us", 1.0),
}
"""Values of an interval of a stream, with what they become."""
_ADD_UP = ("bytes", "retransmits", "datagrams", "lost")


def _values(stream: _Json) -> dict[str, float]:
    found = {
        ours: factor * number
        for theirs, (ours, factor) in _NAMES.items()
        if (number := _number(stream.get(theirs))) is not None
    }
    if "datagrams" in found and "lost" not in found:
        del found["bytes"]  # The sender's bytes are not what arrived.
    return found


def _sum(streams: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found = {n: sum(each[n] for each in streams) for n in _ADD_UP if all(n in each for each in streams)}
    if all("jitter_us" in each for each in streams):
        found["jitter_us"] = sum(each["jitter_us"] for each in streams) / len(streams)
    return found


def _map(value: Any) -> _Json:
    return value if isinstance(value, dict) else {}


def _maps(value: Any) -> list[_Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    """Finite; a number that was not is null by now."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 and isfinite(value) else None


def _numbers(maps: Iterable[_Json], name: str) -> list[float]:
    """Of all of them, or none."""
    found = [_number(each.get(name)) for each in maps]
    told = [each for each in found if each is not None]
    return told if len(told) == len(found) else []


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if _number(value) is not None else ""


def _or_word(number: float | None, unit: str, word: str) -> str | None:
    return None if number is None else f"{int(number)} {unit}" if number else word


def _switch(value: Any) -> str | None:
    number = _number(value)
    return None if number is None else "on" if number else "off"


def _time(seconds: Any) -> datetime | None:
    number = _number(seconds)
    try:
        return None if number is None else datetime.fromtimestamp(number, UTC)
    except (ValueError, OSError, OverflowError):
        return None
