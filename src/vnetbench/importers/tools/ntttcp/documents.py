"""The XML of NTttcp for Windows and of ntttcp for Linux, and the JSON of the latter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any
from xml.etree.ElementTree import Element

from vnetbench.importers.reader import DocumentReader
from vnetbench.importers.runs import Figure, Interval, Run
from vnetbench.importers.tools.ntttcp.endpoint_report import (
    LINUX,
    WINDOWS,
    Told,
    difference,
    per_second,
    run_of,
)
from vnetbench.importers.tools.ntttcp.options import RECEIVER, SENDER, Asked, sent_in_one_call
from vnetbench.importers.units import counted, rounded
from vnetbench.study.workloads import DATAGRAMS, STREAM

_ENDS = {"ntttcps": SENDER, "ntttcpr": RECEIVER}
_SAMPLES = "samples"
"""The element that `-sam` of NTttcp for Windows puts around one element for each sample."""
_LINUX_VERSION = "-linux"
"""ntttcp for Linux writes `5.33-linux` whatever its version (util.c, write_result_into_xml_file)."""

_JSON_NAMES = {
    "sendSocketBuff": "send_socket_buff",
    "useIpv6": "use_ipv6",
    "warmupTime": "warmup_time",
    "realTime": "realtime",
    "avgPacketsPerInterrupt": "avg_packets_per_interrupt",
    "interrupt": "interrupts",
    "interruptTotal": "total_interrupts",
    "packetsSent": "packets_sent",
    "packetsReceived": "packets_received",
    "totalBytes": "total_bytes",
    "tcpAverageRtt metric": "tcp_average_rtt",
    # The JSON's CPU is its process's share of one CPU, not the system's as in the XML of Windows.
    "cpu": "cpu_busy_all",
    "cycles": "cycles_per_byte",
}
_ALSO = (
    "total_bytes",
    "avg_packets_per_interrupt",
    "packets_sent",
    "packets_received",
    "packets_retransmitted",
)
_ALSO_ON_WINDOWS = (
    *_ALSO, "avg_frame_size", "total_buffers", "throughput buffers/s", "dpcs", "avg_packets_per_dpc",
    "errors", "num_processors", "avg_latency", "min_latency", "max_latency",
)  # fmt: skip
_ALSO_ON_LINUX = (
    *_ALSO, "total_interrupts", "interrupts", "cpu_cores", "cpu_speed", "user", "system", "idle", "iowait",
    "softirq", "os",
)  # fmt: skip
"""Without what it only writes to have the form of Windows: always 0 (write_result_into_xml_file)."""
_PER_SECOND = "throughput {metric}"


@dataclass(frozen=True)
class _Page:
    """A document of one end, whatever its form: each text by the name that the XML has for it."""

    end: str
    version: str
    computer: str
    asked: Mapping[str, str]
    """What stands under `parameters`."""
    told: Mapping[str, str]
    """The rest, with `throughput mbps` for `<throughput metric="mbps">`."""
    threads: int

    @property
    def is_of_linux(self) -> bool:
        return self.version.endswith(_LINUX_VERSION)


def _claims_xml(root: Element) -> bool:
    return root.tag in _ENDS or (root.tag == _SAMPLES and len(root) > 0 and root[0].tag in _ENDS)


def _read_xml(root: Element, first_line: int, last_line: int) -> list[Run]:
    if root.tag in _ENDS:
        return [run_of(_told(_page_of(root), first_line, last_line))]
    return [run_of(_of_samples([_page_of(each) for each in root], first_line, last_line))]


def _page_of(root: Element) -> _Page:
    parameters = root.find("parameters")
    return _Page(
        end=_ENDS[root.tag],
        version=root.get("version", ""),
        computer=root.get("computername", ""),
        asked={} if parameters is None else {each.tag: (each.text or "").strip() for each in parameters},
        told=dict(_texts(root)),
        threads=len(root.findall("thread")),
    )


def _texts(root: Element) -> Iterator[tuple[str, str]]:
    for each in root:
        if len(each) == 0:
            metric = each.get("metric", "")
            name = _PER_SECOND.format(metric=metric) if each.tag == "throughput" else each.tag
            yield ("cycles_per_byte" if name == "cycles" else name), (each.text or "").strip()


def _claims_json(document: Any) -> bool:
    return isinstance(document, dict) and any(isinstance(document.get(name), dict) for name in _ENDS)


def _read_json(document: Any, first_line: int, last_line: int) -> list[Run]:
    return [
        run_of(_told(_json_page(name, document[name]), first_line, last_line))
        for name in _ENDS
        if isinstance(document.get(name), dict)
    ]


def _json_page(name: str, body: Mapping[str, Any]) -> _Page:
    told = {_JSON_NAMES.get(key, key): _text_of(value) for key, value in body.items()}
    told |= {
        _PER_SECOND.format(metric=each.get("metric", "")): _text_of(each)
        for each in body.get("throughputs", [])
    }
    parameters = body.get("parameters", {})
    return _Page(
        end=_ENDS[name],
        version=str(body.get("version", "")),
        computer=str(body.get("computername", "")),
        asked={_JSON_NAMES.get(key, key): str(value) for key, value in parameters.items()},
        told={key: text for key, text in told.items() if text},
        threads=len(body.get("threads", [])),
    )


def _text_of(value: Any) -> str:
    """The text of `"40"`, of `{"metric": "s", "value": "2.001677"}` and of `"413 us"`; empty of a list."""
    if isinstance(value, Mapping):
        value = value.get("value", "")
    return str(value) if isinstance(value, str | int | float) else ""


def _told(page: _Page, first_line: int, last_line: int) -> Told:
    told, tool = page.told, LINUX if page.is_of_linux else WINDOWS
    duration = told.get("realtime", "")
    throughput = told.get("throughput mbps")
    asked = _asked(page)
    names = _ALSO_ON_LINUX if page.is_of_linux else _ALSO_ON_WINDOWS
    also = {name: told[name] for name in names if name in told}
    return Told(
        tool,
        first_line,
        last_line,
        asked,
        # What Linux writes there is the version of the form.
        "" if page.is_of_linux else page.version,
        throughput_bps=rounded(throughput, 1e6) if throughput else None,
        datagram_bytes=_datagram_bytes(page, asked),
        figures=dict(_figures(page)) if duration else {},
        also=also | {"computername": page.computer},
        duration_s=rounded(duration).value if duration else None,
        omitted_s=asked.warm_up_s or 0.0,
        fault="" if throughput else "no throughput is told",
    )


def _of_samples(pages: list[_Page], first_line: int, last_line: int) -> Told:
    """One run of several samples: each is an interval, and the run is told by all of them together."""
    each = [_told(page, first_line, last_line) for page in pages]
    lengths = [x.duration_s or 0.0 for x in each]
    rates = [x.throughput_bps or Figure.exact(0.0) for x in each]
    starts = list(accumulate(lengths, initial=0.0))
    whole_s = starts.pop()
    if whole_s <= 0:
        raise ValueError("its samples have no time")
    return replace(
        each[0],
        throughput_bps=_mean(rates, lengths),
        figures={
            name: _mean([x.figures[name] for x in each], lengths)
            for name in each[0].figures
            if all(name in x.figures for x in each)
        },
        also={"samples": str(len(each)), "computername": pages[0].computer},
        duration_s=whole_s,
        intervals=tuple(
            Interval(start, start + length, {"bytes": _times(rate, length / 8)})
            for start, length, rate in zip(starts, lengths, rates, strict=True)
        ),
    )


def _mean(figures: list[Figure], weights: list[float]) -> Figure:
    ends = [
        sum(weight * pick(figure) for figure, weight in zip(figures, weights, strict=True)) / sum(weights)
        for pick in _PARTS
    ]
    return Figure(*ends)


_PARTS: tuple[Callable[[Figure], float], ...] = (lambda x: x.value, lambda x: x.low, lambda x: x.high)


def _times(figure: Figure, factor: float) -> Figure:
    return Figure(*(pick(figure) * factor for pick in _PARTS))


def _asked(page: _Page) -> Asked:
    asked = page.asked
    if "udp" not in asked:
        return Asked(page.end)
    is_udp = asked["udp"] == "True"
    length = _buffer_bytes(page)
    levels: dict[str, object] = {"ip_version": 6 if asked.get("use_ipv6") == "True" else 4}
    if page.end == SENDER:
        levels |= sent_in_one_call(is_udp, length)
    streams = page.told.get("conns_tested") if page.is_of_linux else str(page.threads or "")
    if streams and streams.isdigit():
        levels["streams"] = int(streams)
    # Windows writes the time that it counts by, in milliseconds; Linux what it was asked for, in seconds.
    warm_up = rounded(asked.get("warmup_time", "0"), 1.0 if page.is_of_linux else 1e-3)
    return Asked(page.end, DATAGRAMS if is_udp else STREAM, levels, length, warm_up.value)


def _buffer_bytes(page: _Page) -> int | None:
    """What one call sends (or takes at most): on Linux it is what is named after the socket's buffer."""
    text = page.asked.get("send_socket_buff", "") if page.is_of_linux else page.told.get("bufferLen", "")
    return int(text) if text.isdigit() and len(text) < 16 else None


def _datagram_bytes(page: _Page, asked: Asked) -> int | None:
    """The size of a datagram, where every call moved as much as its buffer holds."""
    if page.is_of_linux:
        return asked.buffer_bytes if page.end == SENDER else None
    moved = rounded(page.told.get("avg_bytes_per_compl", "0")).value
    return asked.buffer_bytes if moved == asked.buffer_bytes else None


def _figures(page: _Page) -> Iterator[tuple[str, Figure]]:
    told, duration = page.told, page.told["realtime"]
    if "cycles_per_byte" in told:
        yield "cycles_per_byte", rounded(told["cycles_per_byte"])
    if "packets_retransmitted" in told and page.asked.get("udp") != "True":
        yield "retransmits_per_s", per_second(told["packets_retransmitted"], duration)
    yield from _figures_of_linux(told, duration) if page.is_of_linux else _figures_of_windows(told)


def _figures_of_windows(told: Mapping[str, str]) -> Iterator[tuple[str, Figure]]:
    if "cpu" in told:
        yield "busy_percent", rounded(told["cpu"])
    if "interrupts" in told:
        yield "interrupts_per_s", rounded(told["interrupts"])


def _figures_of_linux(told: Mapping[str, str], duration: str) -> Iterator[tuple[str, Figure]]:
    if {"idle", "iowait"} <= told.keys():
        yield "busy_percent", difference(100.0, rounded(told["idle"]), rounded(told["iowait"]))
    if "cpu_busy_all" in told:
        yield "cpu_percent", rounded(told["cpu_busy_all"])
    # It writes 0 where it was not asked to count them (--show-nic-packets).
    if told.get("packets_received", "0") != "0":
        yield "packets_per_s", per_second(told["packets_received"], duration)
    if "tcp_average_rtt" in told:
        yield "rtt_us", counted(told["tcp_average_rtt"].removesuffix(" us"))


READERS = (
    DocumentReader(WINDOWS, "xml", _claims_xml, _read_xml),
    DocumentReader(LINUX, "json", _claims_json, _read_json),
)
