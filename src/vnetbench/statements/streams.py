"""Statements about TCP streams between two VMs: their number, direction and adapter settings."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.modes import MIN_TRIALS_FOR_MODES
from vnetbench.statements.claims import (
    CLAIM_DIFFERENT,
    CLAIM_LOWER,
    build_statement_part,
    claim_within_margin,
    ratio_evidence,
    value_evidence,
)
from vnetbench.statements.selection import (
    MeasuredTreatment,
    TreatmentSelection,
    level_is_between,
    level_is_one_of,
    numeric_levels_with_treatments,
)
from vnetbench.statements.statement import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    StatementEvidence,
    StatementPart,
    supported_if_any,
)
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

_GOODPUT_METRIC = "goodput_bps"
_PUBLISHED_PEAK_STREAM_COUNT = 8
_EQUAL_GOODPUT_MARGIN = 0.1
"""Largest difference of goodput at which it levels off."""
HAS_STANDARD_MTU = level_is_one_of("mtu", 1500, phrase="MTU 1500")
HAS_JUMBO_MTU = level_is_one_of("mtu", 9000, phrase="MTU 9000")
_MISSING_TRIALS_FOR_MODES = (
    f"at least {MIN_TRIALS_FOR_MODES} trials of each treatment, which are needed to detect modes"
)
_HAS_9_OR_MORE_STREAMS = level_is_between("streams", 9, 1e9, "9 streams or more")


def check_peak_at_8_streams(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S01: goodput is highest with 8 streams, then falls and levels off."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT_METRIC).keep_treatments_meeting(
        HAS_STANDARD_MTU
    )
    groups = [
        dict(numeric_levels_with_treatments(group)) for group in selected.groups_by_level_of_factor("streams")
    ]
    groups = [group for group in groups if _PUBLISHED_PEAK_STREAM_COUNT in group]
    below = [
        (g[_PUBLISHED_PEAK_STREAM_COUNT], g[n]) for g in groups for n in g if n < _PUBLISHED_PEAK_STREAM_COUNT
    ]
    above = [
        (g[_PUBLISHED_PEAK_STREAM_COUNT], g[n]) for g in groups for n in g if n > _PUBLISHED_PEAK_STREAM_COUNT
    ]
    last = [(g[n], g[m]) for g in groups for n, m in [sorted(g)[-2:]] if n > _PUBLISHED_PEAK_STREAM_COUNT]
    missing = (
        selected.missing
        or f"treatments with {_PUBLISHED_PEAK_STREAM_COUNT} and another number of streams, "
        "with all other levels equal"
    )
    return (
        build_statement_part(
            f"goodput is lower with fewer than {_PUBLISHED_PEAK_STREAM_COUNT} streams",
            ratio_evidence(selected, below, _GOODPUT_METRIC, CLAIM_LOWER),
            missing if not groups else f"a treatment with fewer than {_PUBLISHED_PEAK_STREAM_COUNT} streams",
        ),
        build_statement_part(
            f"goodput is lower with more than {_PUBLISHED_PEAK_STREAM_COUNT} streams",
            ratio_evidence(selected, above, _GOODPUT_METRIC, CLAIM_LOWER),
            missing if not groups else f"a treatment with more than {_PUBLISHED_PEAK_STREAM_COUNT} streams",
        ),
        build_statement_part(
            "goodput levels off with the most streams",
            ratio_evidence(selected, last, _GOODPUT_METRIC, claim_within_margin(_EQUAL_GOODPUT_MARGIN)),
            missing
            if not groups
            else f"treatments with two different stream counts above {_PUBLISHED_PEAK_STREAM_COUNT}",
        ),
    )


def evidence_of_goodput_at_8_streams(selection: TreatmentSelection) -> Iterator[StatementEvidence]:
    """Yield the values to show next to the reported value of S01."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT_METRIC).keep_treatments_meeting(
        HAS_STANDARD_MTU,
        level_is_one_of(
            "streams", _PUBLISHED_PEAK_STREAM_COUNT, phrase=f"{_PUBLISHED_PEAK_STREAM_COUNT} streams"
        ),
    )
    yield from (value_evidence(each, _GOODPUT_METRIC) for each in selected.treatments)


def check_reverse_jumbo_two_modes(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S02: trials in reverse with jumbo frames and many streams have two modes."""
    reverse = level_is_one_of("direction", "reverse", phrase="reverse")
    selected = selection.keep_treatments_with_metrics(_GOODPUT_METRIC).keep_treatments_meeting(
        HAS_JUMBO_MTU, reverse, _HAS_9_OR_MORE_STREAMS
    )
    return (
        build_statement_part(
            "the trials fall into two modes",
            _mode_evidence(selected, claimed="two"),
            selected.missing,
            supported_if_any,
            _MISSING_TRIALS_FOR_MODES,
        ),
    )


def check_even_cpu_single_mode(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S03: trials of VMs on even CPUs have one mode. No lab has adaptive ring sizing."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT_METRIC).keep_treatments_meeting(HAS_JUMBO_MTU)
    pinned = [each for each in selected.treatments if _is_on_even_cpus(each)]
    return (
        build_statement_part(
            "the trials of VMs on even CPUs have one mode",
            _mode_evidence(TreatmentSelection(selection.summary, tuple(pinned)), claimed="one"),
            selected.missing or "treatments with VMs on even CPUs (vcpu_pin or cpus, such as 0/2)",
            missing_precision=_MISSING_TRIALS_FOR_MODES,
        ),
    )


def check_directions_differ(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S05: goodput differs between forward and reverse."""
    selected = selection.keep_treatments_with_metrics(_GOODPUT_METRIC).keep_treatments_meeting(
        HAS_STANDARD_MTU
    )
    pairs = [
        (group["forward"], group["reverse"])
        for group in selected.groups_by_level_of_factor("direction")
        if {"forward", "reverse"} <= group.keys()
    ]
    evidence = ratio_evidence(selected, pairs, _GOODPUT_METRIC, CLAIM_DIFFERENT)
    missing = (
        selected.missing or "treatments with the directions forward and reverse, with all other levels equal"
    )
    return (
        build_statement_part(
            "goodput differs between forward and reverse", evidence, missing, supported_if_any
        ),
    )


def check_rss_lowers_throughput(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S06: receive-side scaling (RSS) lowers throughput without a physical adapter in the path.

    Guests have RSS with more than one queue. Namespaces have receive packet steering (RPS) instead.
    """
    claim = "goodput is lower with RSS"
    if not _has_no_physical_adapter(selection):
        return (
            build_statement_part(
                claim, (), "results from a path without a physical adapter (the labs netns and qemu)"
            ),
        )
    selected = selection.keep_treatments_with_metrics(_GOODPUT_METRIC)
    queues = [
        (group[1], each)
        for group in selected.groups_by_level_of_factor("queues")
        if 1 in group
        for n, each in numeric_levels_with_treatments(group)
        if n > 1
    ]
    steered = [
        (group["off"], group["spread"])
        for group in selected.groups_by_level_of_factor("irq_cpus")
        if {"off", "spread"} <= group.keys()
    ]
    evidence = (
        *ratio_evidence(selected, queues, _GOODPUT_METRIC, CLAIM_LOWER),
        *ratio_evidence(
            selected, steered, _GOODPUT_METRIC, CLAIM_LOWER, "receive packet steering (RPS) instead of RSS"
        ),
    )
    return (
        build_statement_part(
            claim,
            evidence,
            selected.missing
            or "treatments with one and several queues, or irq_cpus off and spread, "
            "and all other levels equal",
        ),
    )


def _has_no_physical_adapter(selection: TreatmentSelection) -> bool:
    """Return whether the campaign's network has no physical adapter."""
    physical = ("vf", "macvtap")
    adapters = {each.levels.get("adapter") for each in selection.treatments}
    return selection.summary.testbed_backend in (NETNS, QEMU) and not adapters & set(physical)


def _mode_evidence(selected: TreatmentSelection, claimed: str) -> list[StatementEvidence]:
    """Return each treatment's state for the claimed number of modes, `one` or `two`."""
    return [
        value_evidence(
            each, _GOODPUT_METRIC, _modality_state(each.treatment.metrics[_GOODPUT_METRIC], claimed)
        )
        for each in selected.treatments
    ]


def _modality_state(estimate: Estimate, claimed: str) -> str:
    if estimate.modality not in ("one", "two"):
        return INCONCLUSIVE
    return SUPPORTED if estimate.modality == claimed else REFUTED


def _is_on_even_cpus(measured: MeasuredTreatment) -> bool:
    return any(
        _has_only_even_cpus(measured.levels[factor])
        for factor in ("vcpu_pin", "cpus")
        if factor in measured.levels
    )


def _has_only_even_cpus(level: Level) -> bool:
    try:
        cpus = [cpu for part in str(level).split("/") for cpu in parse_cpu_list(part)]
    except WrongValue:
        return False  # a word such as `any`
    return all(cpu % 2 == 0 for cpu in cpus)
