"""What is held against a run of frames: faults of the ports, the device and the link, each told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from vnetbench.campaign.frame_counts import FrameCounts
from vnetbench.campaign.load_checks import streams_of
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.quantity import format_share
from vnetbench.results.records import HOST, SideRecord
from vnetbench.study.model import Level

LOOP_SHARE = 0.05
"""Of the frames sent: where more than these, and than a few, come back to their sender, there is a loop."""
FOREIGN_SHARE, FEWEST_FOREIGN = 0.001, 100
"""Of the frames received, and in number: fewer are what any link has (ARP, neighbour discovery)."""
KEPT_SHARE = 0.98
"""Of what was due: where the generator sent less, what is missing is its own and not the device's."""
REACHED_SHARE = 0.5
"""Of the frames sent: an interface that has counted more than these has had them."""


def judge_frames(counts: FrameCounts) -> None:
    """Raises TreatmentRefused for a port or a device that makes all counts void, TrialFailed for ours."""
    if not counts.all_sent and counts.refused:
        raise TreatmentRefused(
            f"not one frame could be sent: the ports refused all {counts.refused}",
            fix="see that they are up and have a carrier (ip -br link), and what their drivers count as "
            "errors (ip -s link)",
        )
    if not counts.all_sent:
        raise TrialFailed("not one frame was sent: the generators were kept from running")
    for name, foreign in counts.foreign.items():
        if foreign.own > max(FEWEST_FOREIGN, LOOP_SHARE * counts.all_sent):
            raise TreatmentRefused(
                f"a loop: {foreign.own} of the frames that {name} sent came back to it",
                where=name,
                fix="take the second way between the ports away, or whatever reflects frames (hairpin mode)",
            )
    for way, received in counts.received.items():
        if received > counts.sent[way]:
            raise TrialFailed(
                f"the instrument miscounted: {counts.sent[way]} frames were sent {way} and {received} arrived"
            )


def frame_remarks(counts: FrameCounts) -> Iterator[str]:
    """What a reader must know of what came beside the frames."""
    if counts.duplicates:
        share = format_share(counts.duplicates / max(1, counts.all_received))
        yield f"the device made copies: {counts.duplicates} duplicates came ({share} of the frames)"
    for name, dropped in counts.sink_dropped.items():
        yield (
            f"{name}: the bench's own receive ring had no room for {dropped} frames, which are counted as "
            "arrived: with fewer frames/s, or as root (for XDP), it has"
        )
    few = max(FEWEST_FOREIGN, FOREIGN_SHARE * counts.all_received)
    for name, foreign in counts.foreign.items():
        if foreign.own:
            yield f"{name}: {foreign.own} of its own frames came back"
        if foreign.other_trial > few:
            yield (
                f"{name}: {foreign.other_trial} frames of another pair or an earlier step came: the device "
                "floods what it has not learned, or holds frames for long"
            )
        if foreign.others > few:
            such = f" (such as {foreign.example})" if foreign.example else ""
            yield (
                f"{name}: {foreign.others} foreign frames came{such}: another sender is on the link, and its "
                "load is the device's too"
            )


def fell_behind(sent: int, due: int, ways: int) -> bool:
    """Whether the generators sent less than was due; each may have a frame cut off at the end."""
    return sent < KEPT_SHARE * (due - ways)


def load_remarks(counts: FrameCounts, factors: Mapping[str, Level], duration_s: float) -> Iterator[str]:
    """Whether the load of a run was the one that was asked for, where that was a rate."""
    load = factors.get("frame_load")
    if not isinstance(load, int | float):
        return
    due = round(load * duration_s) * counts.ways
    if fell_behind(counts.all_sent, due, counts.ways):
        yield (
            f"the generator sent only {format_share(counts.all_sent / due)} of what was asked: it was the "
            "limit, take more generators"
        )


def nothing_passes(sent: int, sides: Sequence[SideRecord]) -> str:
    """What is said of a device that all these frames were lost in."""
    return f"nothing passes: none of {sent} frames arrived{where_they_stop(sides)}"


def where_they_stop(sides: Sequence[SideRecord]) -> str:
    """Where frames stop that do not arrive, by what the watched interfaces counted; empty where none did."""
    taken, given = Counter[str](), Counter[str]()
    for side in sides:
        for sample in side.samples:
            for name, counted in (sample.watched.interfaces if sample.watched else {}).items():
                label = name if side.endpoint == HOST else f"{side.endpoint}'s {name}"
                taken[label] += counted.get("rx_packets", 0)
                given[label] += counted.get("tx_packets", 0)
    sent = sum(int(stream.get("frames_sent", 0)) for side in sides for stream in streams_of(side.totals))
    if not taken or not sent:
        return ""
    entered = [name for name, count in taken.items() if count > REACHED_SHARE * sent]
    left = [name for name, count in given.items() if count > REACHED_SHARE * sent]
    if left:
        return f"; they left at {', '.join(left)}"
    if entered:
        return f"; they came in at {', '.join(entered)} and left nowhere"
    return f"; they did not come to {', '.join(taken)}"
