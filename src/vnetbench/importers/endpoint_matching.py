"""Runs that two logs tell, each from its end: they are one trial, not two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.importers.run_store import Head
from vnetbench.importers.runs import Run
from vnetbench.study.model import Level

SENDER, RECEIVER = "sender", "receiver"

_ALIKE = 0.1
"""By so much of themselves the durations and goodputs of one run may differ, from end to end."""
_ABOUT = 0.3
"""By so much durations alone, where the connection is the same: of a short run its end weighs more."""


def pairs_of(heads: Sequence[Head]) -> dict[int, int]:
    """The number of each run told by its receiver that another log tells by its sender, to that one's.

    Where logs tell connections these say which runs are the same. Else two logs tell the same runs where one
    has as many by the sender as the other by the receiver, of the same tool, and each with the one in its
    place agrees in what both tell: factors, duration and goodput.
    """
    return {
        **_of_one_connection([head for head in heads if head.connection]),
        **_of_alike_logs([head for head in heads if not head.connection]),
    }


def _of_one_connection(heads: Sequence[Head]) -> dict[int, int]:
    """Ports come again in time, so the ends must differ, and their factors and durations agree.

    An end that was told of the other counts as the receiver of one that sends, else as the sender.
    """
    alike: dict[tuple[str, str], list[Head]] = defaultdict(list)
    for head in heads:
        alike[head.tool, head.connection].append(head)
    found: dict[int, int] = {}
    for those in alike.values():
        while one := next((head for head in those if head.told_by), None):
            those.remove(one)
            others = (each for each in those if each.told_by != one.told_by)
            other = next((each for each in others if _may_be_same(one, each)), None)
            if other is not None:
                those.remove(other)
                received, sent = (one, other) if one.told_by == RECEIVER else (other, one)
                found[received.id] = sent.id
    return found


def _of_alike_logs(heads: Sequence[Head]) -> dict[int, int]:
    logs: dict[tuple[str, str, str], list[Head]] = defaultdict(list)
    for head in heads:
        logs[head.log, head.tool, head.told_by].append(head)
    senders = {key: runs for key, runs in logs.items() if key[2] == SENDER}
    found: dict[int, int] = {}
    for (log, tool, told_by), received in logs.items():
        if told_by != RECEIVER:
            continue
        for key, sent in senders.items():
            if key[:2] != (log, tool) and key[1] == tool and _are_same(sent, received):
                found |= {one.id: other.id for one, other in zip(received, sent, strict=True)}
                del senders[key]
                break
    return found


def told_once(received: Run, sent: Run, log_of_sender: str) -> Run:
    """One run of what both ends tell: what arrived as the receiver tells it, the rest from either."""
    where = f"{log_of_sender} line {sent.first_line}"
    return replace(
        received,
        factors={**sent.factors, **received.factors},
        figures={**sent.figures, **received.figures},
        also={**sent.also, **received.also},
        command=received.command or sent.command,
        told_by="",
        remarks=(  # What the sender's log remarks is that it lacks what stands here.
            *received.remarks,
            f"the log of its other end tells of it too ({where}): figures that are not here are from there",
        ),
    )


def _are_same(sent: Sequence[Head], received: Sequence[Head]) -> bool:
    return len(sent) == len(received) and all(map(_is_same, sent, received))


def _may_be_same(one: Head, other: Head) -> bool:
    durations = one.duration_s or 0.0, other.duration_s or 0.0
    return _agree(one.factors, other.factors) and _are_alike(*durations, _ABOUT)


def _is_same(one: Head, other: Head) -> bool:
    pairs = ((one.duration_s, other.duration_s), (one.goodput_bps, other.goodput_bps))
    told = [(a, b) for a, b in pairs if a is not None and b is not None]
    return bool(told) and _agree(one.factors, other.factors) and all(_are_alike(a, b) for a, b in told)


def _agree(one: Mapping[str, Level], other: Mapping[str, Level]) -> bool:
    return all(other.get(name, level) == level for name, level in one.items())


def _are_alike(one: float, other: float, part: float = _ALIKE) -> bool:
    return abs(one - other) <= part * max(abs(one), abs(other))
