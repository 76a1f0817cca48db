"""Statements about guests that forward frames: adapters, idle CPUs, placement, queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from vnetbench.explain.idle_cpus import IDLE_THRESHOLD_PERCENT, ForwarderCpuUse, saturated_forwarders
from vnetbench.statements.claims import (
    HIGHER,
    LOWER,
    at_least,
    build_evidence,
    build_part,
    evaluate_claim,
    ratio_evidence,
    value_evidence,
)
from vnetbench.statements.selection import (
    MeasuredTreatment,
    TreatmentComparison,
    TreatmentSelection,
    compare_pairs,
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
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

_THROUGHPUT, _BUSY = "throughput_fps", "forwarder_busy_percent"
_ADAPTER_ORDER = ("vf", "macvtap", "virtio-net-vhost", "virtio-net", "e1000")
_LARGE_STEPS = {("vf", "macvtap"), ("macvtap", "virtio-net-vhost"), ("virtio-net", "e1000")}
"""Steps of the order that are published as `>>`. The other step is `>`."""
_LARGE_FACTOR = 2.0
"""Smallest ratio that counts as `>>`."""
_ACCEPTED_LOSS = 1e-4
_SMALLEST_FRAMES = one_of_levels("frame_size", 64, phrase="frames of 64 bytes")
_HOST_CPUS = "emulator_pin"
_PLACEMENT_FACTORS = ("vcpu_pin", _HOST_CPUS)


def check_adapter_order(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S13: the order of adapters by throughput."""
    selected = _with_published_loss(selection.with_metrics(_THROUGHPUT).with_levels(_SMALLEST_FRAMES))
    groups = selected.groups_by_level("adapter")
    return tuple(
        _adapter_part(selected, groups, better, worse) for better, worse in itertools.pairwise(_ADAPTER_ORDER)
    )


def check_idle_cpus(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S14: guests lose frames although they report idle CPUs (`explain.idle_cpus`)."""
    forwarders = saturated_forwarders(selection.summary)
    evidence = [
        StatementEvidence(
            each.treatment.factors, _BUSY, each.guest_busy, _idle_state(each), note="at the throughput"
        )
        for each in forwarders
    ]
    missing = "guests that forward frames and limit the throughput, with both CPU counts"
    claim = f"guests lose frames although they report idle CPUs ({IDLE_THRESHOLD_PERCENT:g} % or more)"
    return (build_part(claim, evidence, missing, combine_any),)


def check_shared_core(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S15: the throughput is lower if the host's packet processing shares a core with a vCPU."""
    selected = selection.with_metrics(_THROUGHPUT)
    pairs = [
        (apart, shared)
        for group in selected.groups_over(*_PLACEMENT_FACTORS)
        for apart, shared in itertools.permutations(group, 2)
        if _shares_core(apart) is False
        and _shares_core(shared) is True
        and _vcpu_cpu_count(apart) == _vcpu_cpu_count(shared)
    ]
    missing = (
        selected.missing
        or "placements (vcpu_pin, emulator_pin) with and without a shared core, with all other levels equal"
    )
    evidence = ratio_evidence(selected, pairs, _THROUGHPUT, LOWER)
    return (build_part("the throughput is lower on a shared core than on separate cores", evidence, missing),)


def check_queues(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S16: more queues are not always faster, and the best number depends on the adapter."""
    selected = selection.with_metrics(_THROUGHPUT)
    groups = [[each for _, each in numeric_levels(group)] for group in selected.groups_by_level("queues")]
    steps = [pair for group in groups for pair in itertools.combinations(group, 2)]
    missing = selected.missing or "two numbers of queues, with all other levels equal"
    not_faster = [
        StatementEvidence(e.levels, e.metric, e.value, _invert(e.state), e.base, e.level)
        for e in ratio_evidence(selected, steps, _THROUGHPUT, HIGHER)
    ]
    return (
        build_part("more queues do not always raise the throughput", not_faster, missing, combine_any),
        _adapter_dependence_part(selected, steps, missing),
    )


def adapter_throughputs(selection: TreatmentSelection) -> Iterator[StatementEvidence]:
    """Yield the throughputs for S13."""
    for each in _with_published_loss(
        selection.with_metrics(_THROUGHPUT).with_levels(_SMALLEST_FRAMES)
    ).treatments:
        if each.levels.get("adapter") in _ADAPTER_ORDER:
            yield value_evidence(each, _THROUGHPUT)


def _with_published_loss(selected: TreatmentSelection) -> TreatmentSelection:
    """Select the treatments whose search accepts at most the published loss."""
    strict = tuple(
        each
        for each in selected.treatments
        if all(p.goal_results and p.goal_results[0].goal <= _ACCEPTED_LOSS for p in each.treatment.points)
    )
    return TreatmentSelection(
        selected.summary,
        strict,
        selected.missing or ("" if strict else "a search with an accepted loss of 0.01 % or less"),
    )


def _adapter_part(
    selected: TreatmentSelection, groups: list[dict[Level, MeasuredTreatment]], better: str, worse: str
) -> StatementPart:
    is_large = (better, worse) in _LARGE_STEPS
    pairs = [(group[worse], group[better]) for group in groups if {better, worse} <= group.keys()]
    comparison = f"at least {_LARGE_FACTOR:g} times as much as" if is_large else "more than"
    claim_text = f"{better} forwards {comparison} {worse}"
    missing = selected.missing or f"the adapters {better} and {worse}, with all other levels equal"
    claim = at_least(_LARGE_FACTOR) if is_large else HIGHER
    return build_part(claim_text, ratio_evidence(selected, pairs, _THROUGHPUT, claim), missing)


def _idle_state(cpu_use: ForwarderCpuUse) -> str:
    if cpu_use.has_idle_cpus:
        return SUPPORTED
    busy = cpu_use.guest_busy
    return REFUTED if busy.low is not None and 100 - busy.low < IDLE_THRESHOLD_PERCENT else INCONCLUSIVE


def _shares_core(measured: MeasuredTreatment) -> bool | None:
    """Return whether the host's packet processing shares a core with the vCPUs; None if unknown."""
    host_cpus = str(measured.levels.get(_HOST_CPUS, ""))
    if host_cpus in ("own", "apart"):
        return host_cpus == "own"
    vcpus = _vcpu_cpus(measured)
    try:
        return None if vcpus is None else bool(vcpus & set(parse_cpu_list(host_cpus)))
    except WrongValue:
        return None  # a word such as `any`


def _vcpu_cpus(measured: MeasuredTreatment) -> set[int] | None:
    try:
        return {
            cpu
            for part in str(measured.levels.get("vcpu_pin", "")).split("/")
            for cpu in parse_cpu_list(part)
        }
    except WrongValue:
        return None


def _vcpu_cpu_count(measured: MeasuredTreatment) -> int:
    """Return the number of CPUs of the vCPUs. Only treatments with equal numbers are comparable."""
    return len(_vcpu_cpus(measured) or ())


def _invert(state: str) -> str:
    return {SUPPORTED: REFUTED, REFUTED: SUPPORTED}.get(state, state)


def _adapter_dependence_part(
    selected: TreatmentSelection, steps: list[tuple[MeasuredTreatment, MeasuredTreatment]], missing: str
) -> StatementPart:
    """Check whether more queues help one adapter and not another, with all other levels equal."""
    claim = "the effect of more queues depends on the guest's adapter"
    by_levels: dict[frozenset[tuple[str, Level]], list[TreatmentComparison]] = {}
    for each in compare_pairs(selected.summary, steps, _THROUGHPUT):
        queues = (("from", each.base.levels["queues"]), ("to", each.level.levels["queues"]))
        key = frozenset((*each.base.levels_without("adapter", "queues").items(), *queues))
        by_levels.setdefault(key, []).append(each)
    evidence = [
        build_evidence(each, _THROUGHPUT, _dependence_state(group))
        for group in by_levels.values()
        if len({each.base.levels.get("adapter") for each in group}) > 1
        for each in group
    ]
    return build_part(
        claim, evidence, missing if not steps else "two adapters, with all other levels equal", combine_any
    )


def _dependence_state(group: Sequence[TreatmentComparison]) -> str:
    """Return whether more queues are faster with one adapter and not with another one."""
    states = {evaluate_claim(each.ratio, HIGHER) for each in group}
    if {SUPPORTED, REFUTED} <= states:
        return SUPPORTED
    return INCONCLUSIVE if INCONCLUSIVE in states else REFUTED
