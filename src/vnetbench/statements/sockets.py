"""Statements on socket buffers, connections, VMs and segments: what netperf showed on ESX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from vnetbench.estimate.interim_analyses import interim_analyses
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.model import Estimate
from vnetbench.statements.claims import (
    HIGHER,
    MARGIN,
    at_least,
    contrasts,
    judged,
    measured,
    part,
    same,
)
from vnetbench.statements.selection import Condition, TreatmentSelection, MeasuredTreatment, is_level, is_number, numbers
from vnetbench.statements.statement import CANNOT_TELL, SHOWN, StatementEvidence, StatementPart
from vnetbench.statements.streams import STANDARD
from vnetbench.study.model import Level

_GOODPUT, _PACKETS, _SEGMENT = "goodput_bps", "packets_per_s", "mean_segment_bytes"
_WIRE = 0.85
"""From this share of a link's rate on goodput is taken for the wire's; headers take 5 to 6 % at MTU 1500."""
_10GBE_BPS, _REPORTED_BPS, _REPORTED_PACKETS = 10e9, 9e9, 800_000
_REPORTED_SEGMENT_BYTES = 25_000
_VCPU_MARGIN = 0.1
_MOST_CONNECTIONS, _MOST_VMS = 20, 8
_10GBE = is_level("link_rate", _10GBE_BPS, words="a link of 10 Gbit/s")
_AUTO_OR_64 = is_level("socket_buffer", 64_000, 65_536, "auto", words="socket buffers of 64 kB or auto")
_LARGE = Condition(
    "socket_buffer",
    lambda level: level == "auto" or (not isinstance(level, str) and level >= 65_536),
    "large socket buffers",
)
_OF_8_KB = is_level("socket_buffer", 8000, 8192, words="socket buffers of 8 kB")
_SMALL = is_number("socket_buffer", 1, 32_768, "small socket buffers (32 KiB at most)")
_MODERATE = is_number("message_size", 1024, 16_384, "moderate messages (1 to 16 KiB)")
_LONG_MESSAGES = is_number("message_size", 65_536, 1e9, "messages of 64 KiB or more")


def both_ways_at_wire(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S07: sending and receiving both fill a link of 10 Gbit/s."""
    of_five = is_level("streams", 5, words="5 streams")
    at = found.having(_GOODPUT).where(_10GBE, of_five, _AUTO_OR_64)
    return tuple(_at_wire(at, *each) for each in (("sending", "forward"), ("receiving", "reverse")))


def packets_at_nine(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S08: so many packets for each 9 Gbit/s reach the receiver, that is, none larger than the wire's."""
    at = found.having(_GOODPUT, _PACKETS).where(STANDARD)
    evidence = []
    for each in at.tested:
        scaled = _packets_at_nine(found, each)
        if scaled is None:
            continue
        says = judged(scaled, at_least(_REPORTED_PACKETS))
        note = "what the receiver's adapter takes in for each 9 Gbit/s of goodput"
        evidence.append(StatementEvidence(each.levels, _PACKETS, scaled, says, note=note))
    lacks = at.lacks or "goodput above zero"
    return (part("9 Gbit/s come in more than 800 thousand packets", evidence, lacks),)


def latency_bound(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S09: with buffers of 8 kB more vCPUs change nothing."""
    at = found.having(_GOODPUT).where(_OF_8_KB)
    pairs = [(few, many) for group in at.by_level("vcpus") for few, many in _steps(group)]
    evidence = contrasts(at, pairs, _GOODPUT, same(_VCPU_MARGIN))
    lacks = at.lacks or "two numbers of vCPUs, all else alike"
    return (part("more vCPUs make no difference of 10 %", evidence, lacks),)


def goodput_of_8_kb(found: TreatmentSelection) -> Iterator[StatementEvidence]:
    """What stands beside the number of S09."""
    yield from (measured(each, _GOODPUT) for each in found.having(_GOODPUT).where(_OF_8_KB).tested)


def connections_scale(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S10: each further connection adds goodput, up to 20."""
    at = found.having(_GOODPUT).where(_SMALL, _MODERATE)
    groups = [_up_to(group, _MOST_CONNECTIONS) for group in at.by_level("streams")]
    steps = contrasts(at, [step for group in groups for step in _steps(group)], _GOODPUT, HIGHER)
    lacks = at.lacks or "several numbers of streams, all else alike"
    return (
        part("every step to more streams is faster", steps, lacks),
        _reached([max(group) for group in groups], _MOST_CONNECTIONS, "streams", lacks),
    )


def vms_fill_the_wire(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S11: the sum of all VMs is the link's rate, and more VMs don't lower it."""
    at = found.having(_GOODPUT).where(_LARGE)
    factor = "guests" if at.over("guests") else "pairs"
    groups = [_up_to(group, _MOST_VMS) for group in at.by_level(factor)]
    pairs = [(group[1], group[n]) for group in groups if 1 in group for n in group if n > 1]
    lacks = at.lacks or "1 to 8 pairs of VMs (pairs or guests), all else alike"
    linked = at.where(
        Condition("link_rate", lambda level: not isinstance(level, str), "a link of a known rate")
    )
    widest = [max(_up_to(group, _MOST_VMS).items())[1] for group in linked.by_level(factor)]
    return (
        part(
            "more pairs of VMs than one move no less together",
            contrasts(at, pairs, _GOODPUT, at_least(1 - MARGIN)),
            lacks,
        ),
        _reached([max(group) for group in groups], _MOST_VMS, factor, lacks),
        part(
            "with the most pairs the link is full",
            [_share_of_link(linked, each) for each in widest],
            linked.lacks or lacks,
        ),
    )


def segments_are_large(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S12: with auto-tuned buffers segments of more than 25 kB are handed to the adapter."""
    at = found.having(_SEGMENT).where(is_level("socket_buffer", "auto", words="auto-tuned socket buffers"))
    at = at.where(_LONG_MESSAGES)
    with_tso = [each for each in at.tested if each.levels.get("tso") != "off"]
    evidence = [
        measured(each, _SEGMENT, judged(each.treatment.metrics[_SEGMENT], at_least(_REPORTED_SEGMENT_BYTES)))
        for each in with_tso
    ]
    return (part("the mean segment is larger than 25 kB", evidence, at.lacks or "treatments with TSO on"),)


def _at_wire(at: TreatmentSelection, doing: str, direction: str) -> StatementPart:
    here = at.where(is_level("direction", direction, words=direction))
    return part(f"{doing} fills the link", [_share_of_link(here, each) for each in here.tested], here.lacks)


def _share_of_link(at: TreatmentSelection, each: MeasuredTreatment) -> StatementEvidence:
    rate = float(each.levels["link_rate"]) * _links(at, each)
    figure = each.treatment.metrics[_GOODPUT]
    note = f"{figure.value / rate:.0%} of the link's rate; {_WIRE:.0%} are taken for full"
    return measured(each, _GOODPUT, judged(figure, at_least(_WIRE), rate), note)


def _links(at: TreatmentSelection, each: MeasuredTreatment) -> int:
    """How many links of `link_rate` carry the load: one uplink for all, else one for each pair of VMs."""
    shape = at.summary.testbed.get("shape")
    if at.summary.is_imported or (isinstance(shape, Mapping) and shape.get("uplink")):
        return 1
    return int(each.levels.get("pairs", each.levels.get("guests", 1)))


def _packets_at_nine(found: TreatmentSelection, each: MeasuredTreatment) -> Estimate | None:
    """None of a treatment whose goodput is zero throughout."""
    precision = found.summary.precision
    values = [
        point.values[_PACKETS] * _REPORTED_BPS / point.values[_GOODPUT]
        for point in each.treatment.points
        if point.values.get(_GOODPUT) and _PACKETS in point.values
    ]
    return estimate_median(values, precision.confidence, interim_analyses(precision)) if values else None


def _up_to(group: dict[Level, MeasuredTreatment], most: float) -> dict[float, MeasuredTreatment]:
    """The numbers among the levels that are no more than this, or the least of those beyond it too."""
    known = dict(numbers(group))
    beyond = [n for n in known if n > most]
    return {n: each for n, each in known.items() if n <= most or (n == min(beyond) and most not in known)}


def _steps(group: dict[Level, MeasuredTreatment] | dict[float, MeasuredTreatment]) -> Iterator[tuple[MeasuredTreatment, MeasuredTreatment]]:
    """Each level that is a number with the next higher one."""
    ordered = sorted((n, each) for n, each in group.items() if not isinstance(n, str))
    yield from ((few, many) for (_, few), (_, many) in itertools.pairwise(ordered))


def _reached(found: list[float], most: int, factor: str, lacks: str) -> StatementPart:
    what = f"as many as {most} are tried"
    if any(each >= most for each in found):
        return StatementPart(what, SHOWN)
    return StatementPart(what, CANNOT_TELL, (), f"a level of {factor} of {most}" if found else lacks)
