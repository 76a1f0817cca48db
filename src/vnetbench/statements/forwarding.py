"""Statements on guests that forward frames: adapters, CPUs that look idle, placement, queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from vnetbench.explain.idle_cpus import LOOKS_IDLE_PERCENT, AtTheLimit, at_the_limit
from vnetbench.statements.claims import (
    HIGHER,
    LOWER,
    as_evidence,
    at_least,
    contrasts,
    judged,
    measured,
    part,
)
from vnetbench.statements.selection import TreatmentComparison, TreatmentSelection, MeasuredTreatment, compared, is_level, numbers
from vnetbench.statements.statement import CANNOT_TELL, REFUTED, SHOWN, StatementEvidence, StatementPart, combine_any
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

_THROUGHPUT, _BUSY = "throughput_fps", "forwarder_busy_percent"
_ORDER = ("vf", "macvtap", "virtio-net-vhost", "virtio-net", "e1000")
_FAR_ABOVE = {("vf", "macvtap"), ("macvtap", "virtio-net-vhost"), ("virtio-net", "e1000")}
"""Of the steps of the order those that are published as `>>`; the other one is `>`."""
_FAR = 2.0
"""`>>` is taken for this many times at least."""
_ACCEPTED_LOSS = 1e-4
_SMALLEST = is_level("frame_size", 64, words="frames of 64 bytes")
_HOST_CPUS = "emulator_pin"
_PLACES = ("vcpu_pin", _HOST_CPUS)


def adapters_in_order(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S13: which adapter forwards more than which, step by step."""
    at = _within_loss(found.having(_THROUGHPUT).where(_SMALLEST))
    groups = at.by_level("adapter")
    return tuple(_step(at, groups, better, worse) for better, worse in itertools.pairwise(_ORDER))


def idle_cpus_lose(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S14: frames are lost although the guest calls its CPUs idle, by `explain.idle_cpus`."""
    limits = at_the_limit(found.summary)
    evidence = [
        StatementEvidence(each.treatment.factors, _BUSY, each.busy, _looks_idle(each), note="at the throughput")
        for each in limits
    ]
    lacks = "guests that forward frames and are the limit, with both counts of their CPUs"
    what = f"beyond the throughput frames are lost while CPUs look idle ({LOOKS_IDLE_PERCENT:g} % or more)"
    return (part(what, evidence, lacks, combine_any),)


def shared_core_limits(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S15: less is forwarded where the host's packet processing has a core with the guest's vCPU."""
    at = found.having(_THROUGHPUT)
    pairs = [
        (apart, shared)
        for group in at.over(*_PLACES)
        for apart, shared in itertools.permutations(group, 2)
        if _shares_core(apart) is False and _shares_core(shared) is True and _vcpus(apart) == _vcpus(shared)
    ]
    lacks = at.lacks or "placements (vcpu_pin, emulator_pin) with and without a common core, all else alike"
    evidence = contrasts(at, pairs, _THROUGHPUT, LOWER)
    return (part("on a shared core less is forwarded than on cores apart", evidence, lacks),)


def queues_depend(found: TreatmentSelection) -> tuple[StatementPart, ...]:
    """S16: more queues are not always faster, and the best number of them is not every adapter's."""
    at = found.having(_THROUGHPUT)
    groups = [[each for _, each in numbers(group)] for group in at.by_level("queues")]
    steps = [pair for group in groups for pair in itertools.combinations(group, 2)]
    lacks = at.lacks or "two numbers of queues, all else alike"
    not_faster = [
        StatementEvidence(e.levels, e.metric, e.value, _turned(e.state), e.base, e.level)
        for e in contrasts(at, steps, _THROUGHPUT, HIGHER)
    ]
    return (
        part("more queues are somewhere not faster", not_faster, lacks, combine_any),
        _best_differs(at, steps, lacks),
    )


def throughputs(found: TreatmentSelection) -> Iterator[StatementEvidence]:
    """The throughputs that S13 is about."""
    for each in _within_loss(found.having(_THROUGHPUT).where(_SMALLEST)).tested:
        if each.levels.get("adapter") in _ORDER:
            yield measured(each, _THROUGHPUT)


def _within_loss(at: TreatmentSelection) -> TreatmentSelection:
    """Those that were searched for no more loss than was published."""
    strict = tuple(
        each
        for each in at.tested
        if all(p.search_answers and p.search_answers[0].goal <= _ACCEPTED_LOSS for p in each.treatment.points)
    )
    return TreatmentSelection(at.summary, strict, at.lacks or ("" if strict else "a search for a loss of 0.01 % or less"))


def _step(at: TreatmentSelection, groups: list[dict[Level, MeasuredTreatment]], better: str, worse: str) -> StatementPart:
    is_far = (better, worse) in _FAR_ABOVE
    pairs = [(group[worse], group[better]) for group in groups if {better, worse} <= group.keys()]
    what = f"{better} forwards {f'at least {_FAR:g} times as much as' if is_far else 'more than'} {worse}"
    lacks = at.lacks or f"the adapters {better} and {worse}, all else alike"
    claim = at_least(_FAR) if is_far else HIGHER
    return part(what, contrasts(at, pairs, _THROUGHPUT, claim), lacks)


def _looks_idle(each: AtTheLimit) -> str:
    if each.looks_idle:
        return SHOWN
    busy = each.busy
    return REFUTED if busy.low is not None and 100 - busy.low < LOOKS_IDLE_PERCENT else CANNOT_TELL


def _shares_core(each: MeasuredTreatment) -> bool | None:
    """Whether the host's packet processing has a core with the vCPUs; None where that is not said."""
    place = str(each.levels.get(_HOST_CPUS, ""))
    if place in ("own", "apart"):
        return place == "own"
    vcpus = _vcpus_on(each)
    try:
        return None if vcpus is None else bool(vcpus & set(parse_cpu_list(place)))
    except WrongValue:
        return None  # a word such as `any`


def _vcpus_on(each: MeasuredTreatment) -> set[int] | None:
    try:
        return {cpu for side in str(each.levels.get("vcpu_pin", "")).split("/") for cpu in parse_cpu_list(side)}
    except WrongValue:
        return None


def _vcpus(each: MeasuredTreatment) -> int:
    """How many CPUs the vCPUs have: more of them would be another reason to be faster."""
    return len(_vcpus_on(each) or ())


def _turned(state: str) -> str:
    return {SHOWN: REFUTED, REFUTED: SHOWN}.get(state, state)


def _best_differs(at: TreatmentSelection, steps: list[tuple[MeasuredTreatment, MeasuredTreatment]], lacks: str) -> StatementPart:
    """Whether more queues make one adapter faster and another one slower, all else alike."""
    what = "what more queues do depends on the guest's adapter"
    by_place: dict[frozenset[tuple[str, Level]], list[TreatmentComparison]] = {}
    for each in compared(at.summary, steps, _THROUGHPUT):
        queues = (("from", each.base.levels["queues"]), ("to", each.level.levels["queues"]))
        key = frozenset((*each.base.without("adapter", "queues").items(), *queues))
        by_place.setdefault(key, []).append(each)
    evidence = [
        as_evidence(each, _THROUGHPUT, _depends(group))
        for group in by_place.values()
        if len({each.base.levels.get("adapter") for each in group}) > 1
        for each in group
    ]
    return part(what, evidence, lacks if not steps else "two adapters, all else alike", combine_any)


def _depends(group: Sequence[TreatmentComparison]) -> str:
    """Whether more queues are faster with one of several adapters and not with another."""
    states = {judged(each.ratio, HIGHER) for each in group}
    if {SHOWN, REFUTED} <= states:
        return SHOWN
    return CANNOT_TELL if CANNOT_TELL in states else REFUTED
