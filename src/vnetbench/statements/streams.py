"""Statements on TCP streams between two VMs: how many, in which direction, by which adapter's settings."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.modes import FEWEST_TRIALS_FOR_MODES
from vnetbench.statements.claims import (
    DIFFERENT,
    LOWER,
    contrasts,
    measured,
    part,
    same,
)
from vnetbench.statements.selection import TreatmentSelection, MeasuredTreatment, is_level, is_number, numbers
from vnetbench.statements.statement import CANNOT_TELL, REFUTED, SHOWN, StatementEvidence, StatementPart, combine_any
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

_GOODPUT = "goodput_bps"
_PEAK = 8
_LEVEL = 0.1
"""Two numbers of streams are on one level where goodput differs by less than this share."""
STANDARD = is_level("mtu", 1500, words="MTU 1500")
JUMBO = is_level("mtu", 9000, words="MTU 9000")
_FOR_MODES = f"{FEWEST_TRIALS_FOR_MODES} trials of each treatment or more: of fewer, modes cannot be told"
_OF_MANY = is_number("streams", 9, 1e9, "9 streams or more")


def peak_at_eight(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S01: goodput is highest with 8 streams, falls and levels off."""
    at = found.having(_GOODPUT).where(STANDARD)
    groups = [dict(numbers(group)) for group in at.by_level("streams")]
    groups = [group for group in groups if _PEAK in group]
    below = [(g[_PEAK], g[n]) for g in groups for n in g if n < _PEAK]
    above = [(g[_PEAK], g[n]) for g in groups for n in g if n > _PEAK]
    last = [(g[n], g[m]) for g in groups for n, m in [sorted(g)[-2:]] if n > _PEAK]
    lacks = at.lacks or f"{_PEAK} streams among others, all else alike"
    return (
        part(
            f"fewer streams than {_PEAK} give less",
            contrasts(at, below, _GOODPUT, LOWER),
            lacks if not groups else f"levels of streams below {_PEAK}",
        ),
        part(
            f"more streams than {_PEAK} give less",
            contrasts(at, above, _GOODPUT, LOWER),
            lacks if not groups else f"levels of streams above {_PEAK}",
        ),
        part(
            "with the most streams it levels off",
            contrasts(at, last, _GOODPUT, same(_LEVEL)),
            lacks if not groups else f"two levels of streams above {_PEAK}",
        ),
    )


def goodput_at_eight(found: TreatmentSelection) -> Iterator[StatementEvidence]:
    """What stands beside the number of S01."""
    at = found.having(_GOODPUT).where(STANDARD, is_level("streams", _PEAK, words=f"{_PEAK} streams"))
    yield from (measured(each, _GOODPUT) for each in at.tested)


def two_modes(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S02: some repeats are fast and some are slow, with jumbo frames in reverse and many streams."""
    reverse = is_level("direction", "reverse", words="reverse")
    at = found.having(_GOODPUT).where(JUMBO, reverse, _OF_MANY)
    return (part("the trials fall into two modes", _modes(at, shown_by="two"), at.lacks, combine_any, _FOR_MODES),)


def stable_when_pinned(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S03: with VMs on even CPUs there is one mode. No lab has adaptive ring sizing to switch off."""
    at = found.having(_GOODPUT).where(JUMBO)
    pinned = [each for each in at.tested if _is_on_even(each)]
    return (
        part(
            "the trials of VMs on even CPUs alone have one mode",
            _modes(TreatmentSelection(found.summary, tuple(pinned)), shown_by="one"),
            at.lacks or "VMs placed on even CPUs: vcpu_pin or cpus such as 0/2",
            undecided=_FOR_MODES,
        ),
    )


def directions_differ(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S05: forward and reverse are not alike."""
    at = found.having(_GOODPUT).where(STANDARD)
    pairs = [
        (group["forward"], group["reverse"])
        for group in at.by_level("direction")
        if {"forward", "reverse"} <= group.keys()
    ]
    evidence = contrasts(at, pairs, _GOODPUT, DIFFERENT)
    lacks = at.lacks or "the directions forward and reverse, all else alike"
    return (part("reverse differs from forward", evidence, lacks, combine_any),)


def rss_lowers(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S06: receive-side scaling costs throughput where no physical adapter is in the path.

    More queues than one are RSS of the guest's adapter; steering of received packets (RPS) is what namespaces
    have in its place.
    """
    what = "goodput is lower with RSS"
    if not _is_virtual(found):
        return (part(what, (), "a path without a physical adapter (the labs netns and qemu)"),)
    at = found.having(_GOODPUT)
    queues = [
        (group[1], each)
        for group in at.by_level("queues")
        if 1 in group
        for n, each in numbers(group)
        if n > 1
    ]
    steered = [
        (group["off"], group["spread"])
        for group in at.by_level("irq_cpus")
        if {"off", "spread"} <= group.keys()
    ]
    evidence = (
        *contrasts(at, queues, _GOODPUT, LOWER),
        *contrasts(at, steered, _GOODPUT, LOWER, "RPS in the place of RSS"),
    )
    return (
        part(what, evidence, at.lacks or "queues 1 and more, or irq_cpus off and spread, all else alike"),
    )


def _is_virtual(found: TreatmentSelection) -> bool:
    """Whether the campaign's network is known to have no physical adapter."""
    physical = ("vf", "macvtap")
    adapters = {each.levels.get("adapter") for each in found.tested}
    return found.summary.kind in (NETNS, QEMU) and not adapters & set(physical)


def _modes(at: TreatmentSelection, shown_by: str) -> list[StatementEvidence]:
    """What the number of modes of each treatment says where `shown_by` (`one` or `two`) is claimed."""
    return [
        measured(each, _GOODPUT, _said_by_modes(each.treatment.metrics[_GOODPUT], shown_by))
        for each in at.tested
    ]


def _said_by_modes(estimate: Estimate, shown_by: str) -> str:
    if estimate.modality == CANNOT_TELL:
        return CANNOT_TELL
    return SHOWN if estimate.modality == shown_by else REFUTED


def _is_on_even(each: MeasuredTreatment) -> bool:
    return any(_is_even(each.levels[factor]) for factor in ("vcpu_pin", "cpus") if factor in each.levels)


def _is_even(level: Level) -> bool:
    try:
        cpus = [cpu for side in str(level).split("/") for cpu in parse_cpu_list(side)]
    except WrongValue:
        return False  # a word such as `any`
    return all(cpu % 2 == 0 for cpu in cpus)
