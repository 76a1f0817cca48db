"""Statements about TCP streams between two VMs: their number, direction and adapter settings."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.modes import FEWEST_TRIALS_FOR_MODES
from vnetbench.statements.claims import (
    DIFFERENT,
    LOWER,
    build_part,
    ratio_evidence,
    value_evidence,
    within_margin,
)
from vnetbench.statements.selection import (
    MeasuredTreatment,
    TreatmentSelection,
    level_range,
    numeric_levels,
    one_of_levels,
)
from vnetbench.statements.statement import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    StatementEvidence,
    StatementPart,
    combine_any,
)
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

_GOODPUT = "goodput_bps"
_PEAK_STREAMS = 8
_LEVEL_MARGIN = 0.1
"""Largest difference of goodput at which it levels off."""
STANDARD = one_of_levels("mtu", 1500, phrase="MTU 1500")
JUMBO = one_of_levels("mtu", 9000, phrase="MTU 9000")
_TRIALS_FOR_MODES = f"at least {FEWEST_TRIALS_FOR_MODES} trials of each treatment, to detect modes"
_MANY_STREAMS = level_range("streams", 9, 1e9, "9 streams or more")


def check_peak_at_eight(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S01: goodput is highest with 8 streams, then falls and levels off."""
    selected = selection.with_metrics(_GOODPUT).with_levels(STANDARD)
    groups = [dict(numeric_levels(group)) for group in selected.groups_by_level("streams")]
    groups = [group for group in groups if _PEAK_STREAMS in group]
    below = [(g[_PEAK_STREAMS], g[n]) for g in groups for n in g if n < _PEAK_STREAMS]
    above = [(g[_PEAK_STREAMS], g[n]) for g in groups for n in g if n > _PEAK_STREAMS]
    last = [(g[n], g[m]) for g in groups for n, m in [sorted(g)[-2:]] if n > _PEAK_STREAMS]
    missing = (
        selected.missing
        or f"{_PEAK_STREAMS} streams and other numbers of streams, with all other levels equal"
    )
    return (
        build_part(
            f"goodput is lower with fewer than {_PEAK_STREAMS} streams",
            ratio_evidence(selected, below, _GOODPUT, LOWER),
            missing if not groups else f"numbers of streams below {_PEAK_STREAMS}",
        ),
        build_part(
            f"goodput is lower with more than {_PEAK_STREAMS} streams",
            ratio_evidence(selected, above, _GOODPUT, LOWER),
            missing if not groups else f"numbers of streams above {_PEAK_STREAMS}",
        ),
        build_part(
            "goodput levels off with the most streams",
            ratio_evidence(selected, last, _GOODPUT, within_margin(_LEVEL_MARGIN)),
            missing if not groups else f"two numbers of streams above {_PEAK_STREAMS}",
        ),
    )


def goodput_at_eight(selection: TreatmentSelection) -> Iterator[StatementEvidence]:
    """Yield the values to show next to the reported value of S01."""
    selected = selection.with_metrics(_GOODPUT).with_levels(
        STANDARD, one_of_levels("streams", _PEAK_STREAMS, phrase=f"{_PEAK_STREAMS} streams")
    )
    yield from (value_evidence(each, _GOODPUT) for each in selected.treatments)


def check_two_modes(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S02: trials in reverse with jumbo frames and many streams have two modes."""
    reverse = one_of_levels("direction", "reverse", phrase="reverse")
    selected = selection.with_metrics(_GOODPUT).with_levels(JUMBO, reverse, _MANY_STREAMS)
    return (
        build_part(
            "the trials fall into two modes",
            _mode_evidence(selected, claimed="two"),
            selected.missing,
            combine_any,
            _TRIALS_FOR_MODES,
        ),
    )


def check_pinned_stability(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S03: trials of VMs on even CPUs have one mode. No lab has adaptive ring sizing."""
    selected = selection.with_metrics(_GOODPUT).with_levels(JUMBO)
    pinned = [each for each in selected.treatments if _is_on_even_cpus(each)]
    return (
        build_part(
            "the trials of VMs on even CPUs have one mode",
            _mode_evidence(TreatmentSelection(selection.summary, tuple(pinned)), claimed="one"),
            selected.missing or "VMs on even CPUs (vcpu_pin or cpus, such as 0/2)",
            missing_precision=_TRIALS_FOR_MODES,
        ),
    )


def check_directions_differ(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S05: goodput differs between forward and reverse."""
    selected = selection.with_metrics(_GOODPUT).with_levels(STANDARD)
    pairs = [
        (group["forward"], group["reverse"])
        for group in selected.groups_by_level("direction")
        if {"forward", "reverse"} <= group.keys()
    ]
    evidence = ratio_evidence(selected, pairs, _GOODPUT, DIFFERENT)
    missing = selected.missing or "the directions forward and reverse, with all other levels equal"
    return (build_part("goodput differs between forward and reverse", evidence, missing, combine_any),)


def check_rss_lowers(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S06: receive-side scaling (RSS) lowers throughput without a physical adapter in the path.

    Guests have RSS with more than one queue. Namespaces have receive packet steering (RPS) instead.
    """
    claim = "goodput is lower with RSS"
    if not _is_virtual(selection):
        return (build_part(claim, (), "a path without a physical adapter (the labs netns and qemu)"),)
    selected = selection.with_metrics(_GOODPUT)
    queues = [
        (group[1], each)
        for group in selected.groups_by_level("queues")
        if 1 in group
        for n, each in numeric_levels(group)
        if n > 1
    ]
    steered = [
        (group["off"], group["spread"])
        for group in selected.groups_by_level("irq_cpus")
        if {"off", "spread"} <= group.keys()
    ]
    evidence = (
        *ratio_evidence(selected, queues, _GOODPUT, LOWER),
        *ratio_evidence(selected, steered, _GOODPUT, LOWER, "RPS instead of RSS"),
    )
    return (
        build_part(
            claim,
            evidence,
            selected.missing
            or "one and several queues, or irq_cpus off and spread, with all other levels equal",
        ),
    )


def _is_virtual(selection: TreatmentSelection) -> bool:
    """Return whether the campaign's network has no physical adapter."""
    physical = ("vf", "macvtap")
    adapters = {each.levels.get("adapter") for each in selection.treatments}
    return selection.summary.testbed_backend in (NETNS, QEMU) and not adapters & set(physical)


def _mode_evidence(selected: TreatmentSelection, claimed: str) -> list[StatementEvidence]:
    """Return each treatment's state for the claimed number of modes, `one` or `two`."""
    return [
        value_evidence(each, _GOODPUT, _modality_state(each.treatment.metrics[_GOODPUT], claimed))
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
