"""Statements about socket buffers, connections, VMs and segments, from netperf on ESX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.model import Estimate
from vnetbench.statements.claims import (
    CLAIM_HIGHER,
    MIN_RELEVANT_RATIO_DIFFERENCE,
    build_statement_part,
    claim_at_least,
    claim_within_margin,
    evaluate_claim,
    ratio_evidence,
    value_evidence,
)
from vnetbench.statements.selection import (
    LevelCondition,
    MeasuredTreatment,
    TreatmentSelection,
    level_is_between,
    level_is_one_of,
    numeric_levels_with_treatments,
)
from vnetbench.statements.statement import INCONCLUSIVE, SUPPORTED, StatementEvidence, StatementPart
from vnetbench.statements.streams import HAS_STANDARD_MTU
from vnetbench.study.model import Level

_GOODPUT, _PACKETS, _SEGMENT_BYTES = "goodput_bps", "packets_per_s", "mean_segment_bytes"
_MIN_SHARE_OF_FULL_LINK = 0.85
"""Share of a link's rate from which goodput fills the link. Headers take 5 to 6 % at MTU 1500."""
_10GBE_BPS, _REPORTED_BPS, _REPORTED_PACKETS = 10e9, 9e9, 800_000
_PUBLISHED_SEGMENT_BYTES = 25_000
_VCPU_EQUALITY_MARGIN = 0.1
_MAX_CONNECTIONS, _MAX_VMS = 20, 8
_HAS_10GBE_LINK = level_is_one_of("link_rate", _10GBE_BPS, phrase="a link of 10 Gbit/s")
_HAS_AUTO_OR_64_KB_BUFFERS = level_is_one_of(
    "socket_buffer", 64_000, 65_536, "auto", phrase="socket buffers of 64 kB or auto"
)
_HAS_LARGE_BUFFERS = LevelCondition(
    "socket_buffer",
    lambda level: level == "auto" or (not isinstance(level, str) and level >= 65_536),
    "large socket buffers",
)
_HAS_8_KB_BUFFERS = level_is_one_of("socket_buffer", 8000, 8192, phrase="socket buffers of 8 kB")
_HAS_SMALL_BUFFERS = level_is_between("socket_buffer", 1, 32_768, "small socket buffers (32 KiB at most)")
_HAS_MODERATE_MESSAGES = level_is_between("message_size", 1024, 16_384, "moderate messages (1 to 16 KiB)")
_HAS_LONG_MESSAGES = level_is_between("message_size", 65_536, 1e9, "messages of 64 KiB or more")


def check_each_direction_fills_link(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S07: sending and receiving both fill a link of 10 Gbit/s."""
    five_streams = level_is_one_of("streams", 5, phrase="5 streams")
    selected = selection.keep_treatments_with_metrics(_GOODPUT).keep_treatments_meeting(
        _HAS_10GBE_LINK, five_streams, _HAS_AUTO_OR_64_KB_BUFFERS
    )
    return tuple(
        _full_link_part(selected, *each) for each in (("sending", "forward"), ("receiving", "reverse"))
    )


def check_packet_rate_at_9gbps(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S08: the packet rate at 9 Gbit/s, which requires packets of the wire's size at the receiver."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT, _PACKETS).keep_treatments_meeting(
        HAS_STANDARD_MTU
    )
    evidence = []
    for each in selected.treatments:
        scaled = _packet_rate_at_9_gbps(selection, each)
        if scaled is None:
            continue
        state = evaluate_claim(scaled, claim_at_least(_REPORTED_PACKETS))
        note = "packet rate at the receiver's adapter, scaled to a goodput of 9 Gbit/s"
        evidence.append(StatementEvidence(each.levels, _PACKETS, scaled, state, note=note))
    missing = selected.missing or "treatments with a goodput above zero"
    return (
        build_statement_part("a goodput of 9 Gbit/s needs more than 800,000 packets/s", evidence, missing),
    )


def check_vcpu_independence(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S09: with socket buffers of 8 kB, more vCPUs do not change the goodput."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT).keep_treatments_meeting(_HAS_8_KB_BUFFERS)
    pairs = [
        (few, many)
        for group in selected.groups_by_level_of_factor("vcpus")
        for few, many in _neighbour_level_treatments(group)
    ]
    evidence = ratio_evidence(selected, pairs, _GOODPUT, claim_within_margin(_VCPU_EQUALITY_MARGIN))
    missing = selected.missing or "treatments with two different vCPU counts, with all other levels equal"
    return (build_statement_part("more vCPUs change goodput by less than 10 %", evidence, missing),)


def evidence_of_goodput_with_8_kb_buffers(selection: TreatmentSelection) -> Iterator[StatementEvidence]:
    """Yield the values to show next to the reported value of S09."""
    yield from (
        value_evidence(each, _GOODPUT)
        for each in selection.keep_treatments_with_metrics(_GOODPUT)
        .keep_treatments_meeting(_HAS_8_KB_BUFFERS)
        .treatments
    )


def check_connections_add_goodput(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S10: each additional connection adds goodput, up to 20."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT).keep_treatments_meeting(
        _HAS_SMALL_BUFFERS, _HAS_MODERATE_MESSAGES
    )
    groups = [
        _treatments_until_level_reached(group, _MAX_CONNECTIONS)
        for group in selected.groups_by_level_of_factor("streams")
    ]
    steps = ratio_evidence(
        selected,
        [step for group in groups for step in _neighbour_level_treatments(group)],
        _GOODPUT,
        CLAIM_HIGHER,
    )
    missing = selected.missing or "treatments with several stream counts, with all other levels equal"
    return (
        build_statement_part("each step to more streams raises goodput", steps, missing),
        _tested_up_to_level_part([max(group) for group in groups], _MAX_CONNECTIONS, "streams", missing),
    )


def check_vms_together_fill_link(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S11: all VMs together fill the link, and more VMs do not lower their sum."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT).keep_treatments_meeting(_HAS_LARGE_BUFFERS)
    factor = "guests" if selected.groups_equal_in_other_factors("guests") else "pairs"
    groups = [
        _treatments_until_level_reached(group, _MAX_VMS)
        for group in selected.groups_by_level_of_factor(factor)
    ]
    pairs = [(group[1], group[n]) for group in groups if 1 in group for n in group if n > 1]
    missing = (
        selected.missing
        or "treatments with 1 to 8 pairs of VMs (factor pairs or guests), with all other levels equal"
    )
    linked = selected.keep_treatments_meeting(
        LevelCondition("link_rate", lambda level: not isinstance(level, str), "a known link rate")
    )
    widest = [
        max(_treatments_until_level_reached(group, _MAX_VMS).items())[1]
        for group in linked.groups_by_level_of_factor(factor)
    ]
    return (
        build_statement_part(
            "several pairs of VMs together carry no less than one pair",
            ratio_evidence(selected, pairs, _GOODPUT, claim_at_least(1 - MIN_RELEVANT_RATIO_DIFFERENCE)),
            missing,
        ),
        _tested_up_to_level_part([max(group) for group in groups], _MAX_VMS, factor, missing),
        build_statement_part(
            "the largest number of pairs fills the link",
            [_link_share_evidence(linked, each) for each in widest],
            linked.missing or missing,
        ),
    )


def check_segments_exceed_25_kb(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S12: with auto-tuned buffers, the adapter gets segments of more than 25 kB."""
    selected = selection.keep_treatments_with_metrics(_SEGMENT_BYTES).keep_treatments_meeting(
        level_is_one_of("socket_buffer", "auto", phrase="auto-tuned socket buffers")
    )
    selected = selected.keep_treatments_meeting(_HAS_LONG_MESSAGES)
    with_tso = [each for each in selected.treatments if each.levels.get("tso") != "off"]
    evidence = [
        value_evidence(
            each,
            _SEGMENT_BYTES,
            evaluate_claim(each.treatment.metrics[_SEGMENT_BYTES], claim_at_least(_PUBLISHED_SEGMENT_BYTES)),
        )
        for each in with_tso
    ]
    return (
        build_statement_part(
            "the mean segment size exceeds 25 kB", evidence, selected.missing or "treatments with TSO on"
        ),
    )


def _full_link_part(selected: TreatmentSelection, activity: str, direction: str) -> StatementPart:
    in_direction = selected.keep_treatments_meeting(level_is_one_of("direction", direction, phrase=direction))
    return build_statement_part(
        f"{activity} fills the link",
        [_link_share_evidence(in_direction, each) for each in in_direction.treatments],
        in_direction.missing,
    )


def _link_share_evidence(selected: TreatmentSelection, measured: MeasuredTreatment) -> StatementEvidence:
    rate = float(measured.levels["link_rate"]) * _loaded_link_count(selected, measured)
    goodput = measured.treatment.metrics[_GOODPUT]
    note = (
        f"{goodput.value / rate:.0%} of the link's rate, and a link counts as full from "
        f"{_MIN_SHARE_OF_FULL_LINK:.0%}"
    )
    return value_evidence(
        measured, _GOODPUT, evaluate_claim(goodput, claim_at_least(_MIN_SHARE_OF_FULL_LINK), rate), note
    )


def _loaded_link_count(selected: TreatmentSelection, measured: MeasuredTreatment) -> int:
    """Return the number of links that carry the load: a common uplink, or one link per pair of VMs."""
    shape = selected.summary.testbed.get("shape")
    if selected.summary.is_imported or (isinstance(shape, Mapping) and shape.get("uplink")):
        return 1
    return int(measured.levels.get("pairs", measured.levels.get("guests", 1)))


def _packet_rate_at_9_gbps(selection: TreatmentSelection, measured: MeasuredTreatment) -> Estimate | None:
    """Estimate the packets per second, scaled to 9 Gbit/s of goodput; None if all trials have no goodput."""
    precision = selection.summary.required_precision
    values = [
        point.values[_PACKETS] * _REPORTED_BPS / point.values[_GOODPUT]
        for point in measured.treatment.points
        if point.values.get(_GOODPUT) and _PACKETS in point.values
    ]
    return (
        estimate_median(values, precision.confidence, interim_analysis_trial_counts(precision))
        if values
        else None
    )


def _treatments_until_level_reached(
    group: dict[Level, MeasuredTreatment], max_level: float
) -> dict[float, MeasuredTreatment]:
    """Return the numeric levels up to a maximum, or up to the next larger level if it is missing."""
    known = dict(numeric_levels_with_treatments(group))
    beyond = [n for n in known if n > max_level]
    return {
        n: each
        for n, each in known.items()
        if n <= max_level or (n == min(beyond) and max_level not in known)
    }


def _neighbour_level_treatments(
    group: dict[Level, MeasuredTreatment] | dict[float, MeasuredTreatment],
) -> Iterator[tuple[MeasuredTreatment, MeasuredTreatment]]:
    """Yield each numeric level with the next higher one."""
    ordered = sorted((n, each) for n, each in group.items() if not isinstance(n, str))
    yield from ((few, many) for (_, few), (_, many) in itertools.pairwise(ordered))


def _tested_up_to_level_part(
    max_level_of_each_group: list[float], wanted_level: int, factor: str, missing: str
) -> StatementPart:
    """Return a part that is supported if a group of treatments has the wanted level."""
    claim = f"the campaign has a treatment with {factor} = {wanted_level} or more"
    if any(maximum >= wanted_level for maximum in max_level_of_each_group):
        return StatementPart(claim, SUPPORTED)
    return StatementPart(
        claim,
        INCONCLUSIVE,
        (),
        f"a treatment with {factor} = {wanted_level}" if max_level_of_each_group else missing,
    )
