"""Statements on guests that forward frames: adapters, CPUs that look idle, placement, queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from vnetbench.explain.idle_cpus import LOOKS_IDLE_PERCENT, AtTheLimit, at_the_limit
from vnetbench.statements.judging import (
    HIGHER,
    LOWER,
    as_evidence,
    at_least,
    contrasts,
    judged,
    measured,
    part,
)
from vnetbench.statements.seen import Compared, Seen, Tested, compared, is_level, numbers
from vnetbench.statements.statement import CANNOT_TELL, REFUTED, SHOWN, Evidence, Part, any_of
from vnetbench.study.cpus import cpu_list
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


def adapters_in_order(found: Seen) -> tuple[Part, ...]:
    """S13: which adapter forwards more than which, step by step."""
    at = _within_loss(found.having(_THROUGHPUT).where(_SMALLEST))
    groups = at.by_level("adapter")
    return tuple(_step(at, groups, better, worse) for better, worse in itertools.pairwise(_ORDER))


def idle_cpus_lose(found: Seen) -> tuple[Part, ...]:
    """S14: frames are lost although the guest calls its CPUs idle, by `explain.idle_cpus`."""
    limits = at_the_limit(found.summary)
    evidence = [
        Evidence(each.treatment.factors, _BUSY, each.busy, _looks_idle(each), note="at the throughput")
        for each in limits
    ]
    lacks = "guests that forward frames and are the limit, with both counts of their CPUs"
    what = f"beyond the throughput frames are lost while CPUs look idle ({LOOKS_IDLE_PERCENT:g} % or more)"
    return (part(what, evidence, lacks, any_of),)


def shared_core_limits(found: Seen) -> tuple[Part, ...]:
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


def queues_depend(found: Seen) -> tuple[Part, ...]:
    """S16: more queues are not always faster, and the best number of them is not every adapter's."""
    at = found.having(_THROUGHPUT)
    groups = [[each for _, each in numbers(group)] for group in at.by_level("queues")]
    steps = [pair for group in groups for pair in itertools.combinations(group, 2)]
    lacks = at.lacks or "two numbers of queues, all else alike"
    not_faster = [
        Evidence(e.levels, e.metric, e.figure, _turned(e.says), e.base, e.level)
        for e in contrasts(at, steps, _THROUGHPUT, HIGHER)
    ]
    return (
        part("more queues are somewhere not faster", not_faster, lacks, any_of),
        _best_differs(at, steps, lacks),
    )


def throughputs(found: Seen) -> Iterator[Evidence]:
    """The throughputs that S13 is about."""
    for each in _within_loss(found.having(_THROUGHPUT).where(_SMALLEST)).tested:
        if each.levels.get("adapter") in _ORDER:
            yield measured(each, _THROUGHPUT)


def _within_loss(at: Seen) -> Seen:
    """Those that were searched for no more loss than was published."""
    strict = tuple(
        each
        for each in at.tested
        if all(p.answers and p.answers[0].goal <= _ACCEPTED_LOSS for p in each.treatment.points)
    )
    return Seen(at.summary, strict, at.lacks or ("" if strict else "a search for a loss of 0.01 % or less"))


def _step(at: Seen, groups: list[dict[Level, Tested]], better: str, worse: str) -> Part:
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


def _shares_core(each: Tested) -> bool | None:
    """Whether the host's packet processing has a core with the vCPUs; None where that is not said."""
    place = str(each.levels.get(_HOST_CPUS, ""))
    if place in ("own", "apart"):
        return place == "own"
    vcpus = _vcpus_on(each)
    try:
        return None if vcpus is None else bool(vcpus & set(cpu_list(place)))
    except WrongValue:
        return None  # a word such as `any`


def _vcpus_on(each: Tested) -> set[int] | None:
    try:
        return {cpu for side in str(each.levels.get("vcpu_pin", "")).split("/") for cpu in cpu_list(side)}
    except WrongValue:
        return None


def _vcpus(each: Tested) -> int:
    """How many CPUs the vCPUs have: more of them would be another reason to be faster."""
    return len(_vcpus_on(each) or ())


def _turned(state: str) -> str:
    return {SHOWN: REFUTED, REFUTED: SHOWN}.get(state, state)


def _best_differs(at: Seen, steps: list[tuple[Tested, Tested]], lacks: str) -> Part:
    """Whether more queues make one adapter faster and another one slower, all else alike."""
    what = "what more queues do depends on the guest's adapter"
    by_place: dict[frozenset[tuple[str, Level]], list[Compared]] = {}
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
    return part(what, evidence, lacks if not steps else "two adapters, all else alike", any_of)


def _depends(group: Sequence[Compared]) -> str:
    """Whether more queues are faster with one of several adapters and not with another."""
    states = {judged(each.ratio, HIGHER) for each in group}
    if {SHOWN, REFUTED} <= states:
        return SHOWN
    return CANNOT_TELL if CANNOT_TELL in states else REFUTED
