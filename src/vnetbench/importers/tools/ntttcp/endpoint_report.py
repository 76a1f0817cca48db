"""What any NTttcp tells of one end of a run, put into our words: which of our metrics each figure is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vnetbench.importers.runs import Figure, Interval, Run
from vnetbench.importers.tools.ntttcp.options import RECEIVER, SENDER, Asked, factors_of
from vnetbench.importers.units import counted, rounded
from vnetbench.study.workloads import DATAGRAMS, STREAM

WINDOWS, LINUX = "NTttcp", "NTTTCP for Linux"
"""The tools' names, as they tell them."""

_OF_AN_END = {
    "busy_percent": "{end}_busy_percent",
    "cpu_percent": "{end}_cpu_percent",
    "cycles_per_byte": "{end}_cycles_per_byte",
    "interrupts_per_s": "{end}_interrupts_per_s",
}
"""Figures of the machine (or process) of one end: nobody's where the log does not tell which end it is."""
_OF_SENDERS = {"retransmits_per_s": "sender_retransmits_per_s", "rtt_us": "rtt_us"}
_OF_RECEIVERS = {"packets_per_s": "packets_per_s"}
_BELOW_ZERO = "its CPU figure is not above 0 %, as NTttcp says of runs that are too short: it is left out"


@dataclass(frozen=True)
class Told:
    """One end's log of one run, before it is known what it means for us."""

    tool: str
    first_line: int
    last_line: int
    asked: Asked = field(default_factory=Asked)
    version: str = ""
    throughput_bps: Figure | None = None
    """Bytes that this end sent, or took, over the time that it ran."""
    datagram_bytes: int | None = None
    """Where each call moved exactly one, of this size."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """By the names above."""
    also: Mapping[str, str] = field(default_factory=dict)
    duration_s: float | None = None
    omitted_s: float = 0.0
    intervals: tuple[Interval, ...] = ()
    command: str = ""
    fault: str = ""
    remarks: tuple[str, ...] = ()


def run_of(told: Told) -> Run:
    """The run that an end's log tells of; ValueError where it was damaged."""
    end, workload = told.asked.end, told.asked.workload or STREAM
    if told.duration_s is not None and told.duration_s < 0:
        raise ValueError(f"a run of {told.duration_s} s")
    factors, refused = factors_of(told.asked.levels, workload)
    is_idle = "busy_percent" in told.figures and told.figures["busy_percent"].high <= 0
    figures, also = _of_end(_without_cpu(told.figures) if is_idle else told.figures, end)
    moved = _throughput(told, end, workload)
    return Run(
        tool=told.tool,
        version=told.version,
        first_line=told.first_line,
        last_line=told.last_line,
        workload=workload,
        factors=factors,
        figures=moved | figures,
        intervals=told.intervals,
        duration_s=told.duration_s,
        omitted_s=told.omitted_s,
        told_by=end,
        command=told.command,
        also={**told.also, **also, **_offered(told, end, workload)},
        fault=told.fault or told.asked.refused,
        remarks=(*told.remarks, *_remarks(told, workload), *((_BELOW_ZERO,) if is_idle else ()), *refused),
    )


def per_second(count: str, duration: str) -> Figure:
    """The rate of a count that nothing rounded over a printed time in seconds; ValueError for no rate."""
    times, of = rounded(duration), counted(count).value
    if times.low <= 0:
        raise ValueError(f"no time to count in: {duration!r}")
    return Figure(of / times.value, of / times.high, of / times.low)


def difference(whole: float, *parts: Figure) -> Figure:
    """What several printed figures leave of an exact one."""
    return Figure(
        whole - sum(x.value for x in parts),
        whole - sum(x.high for x in parts),
        whole - sum(x.low for x in parts),
    )


def _of_end(told: Mapping[str, Figure], end: str) -> tuple[dict[str, Figure], dict[str, str]]:
    """Our metrics of an end's figures, and those that are no metric of ours, as text."""
    names = dict(_OF_AN_END) if end else {}
    names |= _OF_SENDERS if end == SENDER else _OF_RECEIVERS if end == RECEIVER else {}
    figures = {names[name].format(end=end): figure for name, figure in told.items() if name in names}
    return figures, {} if end else {name: f"{figure.value:g}" for name, figure in told.items()}


def _without_cpu(told: Mapping[str, Figure]) -> dict[str, Figure]:
    return {name: figure for name, figure in told.items() if name not in ("busy_percent", "cycles_per_byte")}


def _throughput(told: Told, end: str, workload: str) -> dict[str, Figure]:
    """What was moved: of datagrams a sender only tells what it offered, which is no goodput."""
    moved = told.throughput_bps
    if moved is None:
        return {}
    found = {} if workload == DATAGRAMS and end == SENDER else {"goodput_bps": moved}
    if workload == DATAGRAMS and told.datagram_bytes and end:
        bits = 8.0 * told.datagram_bytes
        name = "datagrams_sent_per_s" if end == SENDER else "datagrams_received_per_s"
        found[name] = Figure(moved.value / bits, moved.low / bits, moved.high / bits)
    return found


def _offered(told: Told, end: str, workload: str) -> dict[str, str]:
    if told.throughput_bps is None or workload != DATAGRAMS or end != SENDER:
        return {}
    return {"offered bit/s": f"{told.throughput_bps.value:.0f}"}


def _remarks(told: Told, workload: str) -> tuple[str, ...]:
    asked, found = told.asked, list[str]()
    if told.fault:
        return ()
    if not asked.end:
        found.append("the log does not tell which end it is: what is of one end's machine is kept as told")
    if not asked.workload:
        found.append("the log does not tell TCP from UDP: read as TCP, the tool's default")
    if asked.end == SENDER and workload == STREAM and told.throughput_bps:
        found.append("the goodput is what the sender handed over: the receiver's is not in this log")
    return tuple(found)
