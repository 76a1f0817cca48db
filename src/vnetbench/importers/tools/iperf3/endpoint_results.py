"""What the two ends of an iperf3 run tell of it, and our figures from that: the same for text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.importers.arithmetic import mean, over, times, total
from vnetbench.importers.runs import FORWARD, REVERSE, Figure
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS

SENDER, RECEIVER = "sender", "receiver"
CLIENT, SERVER = "client", "server"

WAYS: Mapping[Level, tuple[str, ...]] = {
    "forward": (FORWARD,),
    "reverse": (REVERSE,),
    "both": (FORWARD, REVERSE),
}
"""The ways that are at work, by the level of the factor `direction`."""
_ITS_METRIC = {FORWARD: "goodput_forward_bps", REVERSE: "goodput_reverse_bps"}


@dataclass(frozen=True)
class Told:
    """What one end tells of one way of a whole run, all its streams together."""

    seconds: Figure
    bits_per_s: Figure
    """Of payload: at the sender as handed to the kernel, at the receiver as taken from it."""
    retransmits: int | None = None
    datagrams: int | None = None
    """At the sender those that were sent; at the receiver those that arrived or that it knows were lost."""
    lost: int | None = None
    jitter_us: Figure | None = None


Ends = Mapping[tuple[str, str], Told]
"""By way (`FORWARD` or `REVERSE`) and end (`SENDER` or `RECEIVER`)."""


@dataclass(frozen=True)
class Reckoned:
    """A run's own figures."""

    figures: Mapping[str, Figure]
    duration_s: float | None
    told_by: str
    remarks: tuple[str, ...]


def end_of(role: str, way: str) -> str:
    """Which end of a way the client or the server is."""
    return SENDER if (role == CLIENT) == (way == FORWARD) else RECEIVER


def connection(role: str, local: str, remote: str) -> str:
    """What tells a run at both its ends: the client's address and port, then the server's."""
    return " ".join((local, remote) if role == CLIENT else (remote, local))


def known(ends: Ends, role: str, *, is_whole: bool) -> Ends:
    """What of it is true: a server, and a client whose run broke, print zeros for the other end.

    The server prints before the results are exchanged (iperf_server_api.c), a client that is interrupted
    never exchanges them.
    """
    if role == SERVER or (role == CLIENT and not is_whole):
        return {(way, end): told for (way, end), told in ends.items() if end == end_of(role, way)}
    return ends


def cpu_figures(
    role: str, direction: Level, shares: tuple[Figure, Figure | None], *, is_whole: bool
) -> dict[str, Figure]:
    """The metrics of CPU time: `shares` of this end and of the other, which only a client is told of.

    A server prints for the other end what it was told in the test before.
    """
    local, remote = shares[0], shares[1] if is_whole else None
    ends = {CLIENT: (local, remote), SERVER: (None, local)}.get(role, (None, None))
    names = ["first_vm", "second_vm"] if direction == "both" else [SENDER, RECEIVER]
    if direction == "reverse":
        names.reverse()
    found = zip(names, ends, strict=True)
    return {f"{name}_cpu_percent": figure for name, figure in found if figure is not None}


def reckon(workload: str, ends: Ends) -> Reckoned:
    """The figures of a run from what of its ends is known."""
    ways = [way for way in (FORWARD, REVERSE) if any(told_way == way for told_way, _ in ends)]
    figures = dict(_of_datagrams(ends, ways) if workload == DATAGRAMS else _of_bytes(ends, ways))
    figures |= _goodput(workload, ends, ways)
    told = {end for _, end in ends}
    is_one_end = len(told) == 1 and len(ways) == 1
    deciding = [_deciding(ends, way) for way in ways]
    return Reckoned(
        figures,
        max((each.seconds.value for each in deciding), default=None),
        told.pop() if is_one_end else "",
        tuple(_remarks(workload, ends, ways)),
    )


def of_one_line(
    line: Told, way: str, local: str, bits: float | None, arrived_bits_per_s: Figure | None = None
) -> Iterator[tuple[tuple[str, str], Told]]:
    """Both ends from what UDP tells up to 3.1 in one: the sender's bytes, the receiver's datagrams.

    `local`: the end whose log it is; `bits`: of payload in a datagram, where that is known;
    `arrived_bits_per_s`: what the intervals of a receiver say. Else the sender's rate, less what was lost.
    """
    told, lost = line.datagrams or 0, line.lost or 0
    yield (way, SENDER), Told(line.seconds, line.bits_per_s, datagrams=told if local == SENDER else None)
    rate = share(bits * (told - lost), line.seconds) if bits is not None else arrived_bits_per_s
    if rate is None:
        rate = times(line.bits_per_s, (told - lost) / told if told > 0 else 0.0)
    yield (way, RECEIVER), Told(line.seconds, rate, None, told, lost, line.jitter_us)


def share(count: float, seconds: Figure) -> Figure | None:
    """So many a second; None where no time passed."""
    if seconds.low <= 0:
        return None
    return over(Figure.exact(count), seconds)


def _deciding(ends: Ends, way: str) -> Told:
    return ends.get((way, RECEIVER)) or ends[way, SENDER]


def _goodput(workload: str, ends: Ends, ways: list[str]) -> Iterator[tuple[str, Figure]]:
    found = {}
    for way in ways:
        if (way, RECEIVER) in ends or workload != DATAGRAMS:
            found[way] = _deciding(ends, way).bits_per_s
    if not ways or len(found) < len(ways):
        return
    yield "goodput_bps", total(list(found.values()))
    if len(ways) > 1:
        yield from ((_ITS_METRIC[way], figure) for way, figure in found.items())


def _of_bytes(ends: Ends, ways: list[str]) -> Iterator[tuple[str, Figure]]:
    rates = [
        rate
        for way in ways
        if (told := ends.get((way, SENDER))) and told.retransmits is not None
        if (rate := share(told.retransmits, told.seconds))
    ]
    if rates and len(rates) == len(ways):
        yield "retransmits_per_s", total(rates)


def _of_datagrams(ends: Ends, ways: list[str]) -> Iterator[tuple[str, Figure]]:
    senders = [ends[way, SENDER] for way in ways if (way, SENDER) in ends]
    sent = [
        rate
        for told in senders
        if told.datagrams is not None and (rate := share(told.datagrams, told.seconds))
    ]
    if sent and len(sent) == len(ways):
        yield "datagrams_sent_per_s", total(sent)
    receivers = [ends[way, RECEIVER] for way in ways if (way, RECEIVER) in ends]
    if len(receivers) < len(ways):
        return
    jitters = [told.jitter_us for told in receivers if told.jitter_us]
    if jitters:
        yield "jitter_us", mean(jitters)
    counts = [(told.datagrams, told.lost, told.seconds) for told in receivers]
    total_datagrams = sum(datagrams or 0 for datagrams, _, _ in counts)
    arrived = [
        rate
        for datagrams, lost, seconds in counts
        if datagrams is not None and lost is not None and (rate := share(datagrams - lost, seconds))
    ]
    if len(arrived) < len(ways) or not arrived:
        return
    yield "datagrams_received_per_s", total(arrived)
    lost = sum(lost or 0 for _, lost, _ in counts)
    if total_datagrams > 0:
        yield "loss_percent", Figure.exact(100 * max(0, lost) / total_datagrams)


def _remarks(workload: str, ends: Ends, ways: list[str]) -> Iterator[str]:
    for way in ways:
        if (way, RECEIVER) in ends:
            continue
        of_which = f" of the {way} way" if len(ways) > 1 else ""
        if workload == DATAGRAMS:
            yield f"the receiver's figures{of_which} are missing: what arrived is not known"
        else:
            yield f"the receiver's figure{of_which} is missing, this is the sender's"
