"""Statements about guests that forward frames: adapters, idle CPUs, placement, queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from vnetbench.explain.idle_cpus import (
    MIN_IDLE_PERCENT,
    ForwardingGuestCpuUse,
    cpu_use_of_saturated_forwarders,
)
from vnetbench.statements.claims import (
    CLAIM_HIGHER,
    CLAIM_LOWER,
    build_evidence,
    build_statement_part,
    claim_at_least,
    evaluate_claim,
    ratio_evidence,
    value_evidence,
)
from vnetbench.statements.selection import (
    MeasuredTreatment,
    TreatmentComparison,
    TreatmentSelection,
    compare_pairs,
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
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

_THROUGHPUT, _BUSY = "throughput_fps", "forwarder_busy_percent"
_ADAPTERS_FASTEST_FIRST = ("vf", "macvtap", "virtio-net-vhost", "virtio-net", "e1000")
_ADAPTER_PAIRS_WITH_LARGE_THROUGHPUT_STEP = {
    ("vf", "macvtap"),
    ("macvtap", "virtio-net-vhost"),
    ("virtio-net", "e1000"),
}
"""Steps of the order that are published as `>>`. The other step is `>`."""
_MIN_LARGE_STEP_RATIO = 2.0
"""Smallest ratio that counts as `>>`."""
_PUBLISHED_LOSS_GOAL_RATIO = 1e-4
_HAS_64_BYTE_FRAMES = level_is_one_of("frame_size", 64, phrase="frames of 64 bytes")
_QEMU_CPUS_FACTOR = "emulator_pin"
_PLACEMENT_FACTORS = ("vcpu_pin", _QEMU_CPUS_FACTOR)


def check_adapter_order(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S13: the order of adapters by throughput."""
    selected = _keep_goals_within_published_loss(
        selection.keep_treatments_with_metrics(_THROUGHPUT).keep_treatments_meeting(_HAS_64_BYTE_FRAMES)
    )
    groups = selected.groups_by_level_of_factor("adapter")
    return tuple(
        _adapter_pair_part(selected, groups, better, worse)
        for better, worse in itertools.pairwise(_ADAPTERS_FASTEST_FIRST)
    )


def check_loss_with_idle_cpus(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S14: guests lose frames although they report idle CPUs (`explain.idle_cpus`)."""
    forwarders = cpu_use_of_saturated_forwarders(selection.summary)
    evidence = [
        StatementEvidence(
            each.treatment.factors,
            _BUSY,
            each.guest_busy_percent,
            _idle_cpu_claim_state(each),
            note="measured at the throughput",
        )
        for each in forwarders
    ]
    missing = (
        "guests that forward frames and limit the throughput, with CPU use measured in the guest and on "
        "the host"
    )
    claim = f"guests lose frames although they report idle CPUs ({MIN_IDLE_PERCENT:g} % or more)"
    return (build_statement_part(claim, evidence, missing, supported_if_any),)


def check_core_sharing_lowers_throughput(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S15: the throughput is lower if the host's packet processing shares a core with a vCPU."""
    selected = selection.keep_treatments_with_metrics(_THROUGHPUT)
    pairs = [
        (apart, shared)
        for group in selected.groups_equal_in_other_factors(*_PLACEMENT_FACTORS)
        for apart, shared in itertools.permutations(group, 2)
        if _does_qemu_share_vcpu_core(apart) is False
        and _does_qemu_share_vcpu_core(shared) is True
        and _count_host_cpus_of_vcpus(apart) == _count_host_cpus_of_vcpus(shared)
    ]
    missing = (
        selected.missing
        or "treatments with and without a core that vCPUs and QEMU share (vcpu_pin, emulator_pin), with all "
        "other levels equal"
    )
    evidence = ratio_evidence(selected, pairs, _THROUGHPUT, CLAIM_LOWER)
    return (
        build_statement_part(
            "the throughput is lower if vCPUs and QEMU's threads share a core", evidence, missing
        ),
    )


def check_best_queue_count_varies(selection: TreatmentSelection) -> tuple[StatementPart, ...]:
    """Check S16: more queues are not always faster, and the best number depends on the adapter."""
    selected = selection.keep_treatments_with_metrics(_THROUGHPUT)
    groups = [
        [each for _, each in numeric_levels_with_treatments(group)]
        for group in selected.groups_by_level_of_factor("queues")
    ]
    steps = [pair for group in groups for pair in itertools.combinations(group, 2)]
    missing = selected.missing or "treatments with two different queue counts, with all other levels equal"
    not_faster = [
        StatementEvidence(
            e.levels,
            e.metric,
            e.value,
            _invert_state(e.state),
            e.differing_base_levels,
            e.differing_compared_levels,
        )
        for e in ratio_evidence(selected, steps, _THROUGHPUT, CLAIM_HIGHER)
    ]
    return (
        build_statement_part(
            "more queues do not always raise the throughput", not_faster, missing, supported_if_any
        ),
        _adapter_specific_queue_gain_part(selected, steps, missing),
    )


def evidence_of_adapter_throughputs(selection: TreatmentSelection) -> Iterator[StatementEvidence]:
    """Yield the throughputs for S13."""
    for each in _keep_goals_within_published_loss(
        selection.keep_treatments_with_metrics(_THROUGHPUT).keep_treatments_meeting(_HAS_64_BYTE_FRAMES)
    ).treatments:
        if each.levels.get("adapter") in _ADAPTERS_FASTEST_FIRST:
            yield value_evidence(each, _THROUGHPUT)


def _keep_goals_within_published_loss(selected: TreatmentSelection) -> TreatmentSelection:
    """Select the treatments whose search accepts at most the published loss."""
    strict = tuple(
        each
        for each in selected.treatments
        if all(
            p.goal_results and p.goal_results[0].goal <= _PUBLISHED_LOSS_GOAL_RATIO
            for p in each.treatment.points
        )
    )
    return TreatmentSelection(
        selected.summary,
        strict,
        selected.missing or ("" if strict else "a search with an accepted loss of 0.01 % or less"),
    )


def _adapter_pair_part(
    selected: TreatmentSelection, groups: list[dict[Level, MeasuredTreatment]], better: str, worse: str
) -> StatementPart:
    is_large = (better, worse) in _ADAPTER_PAIRS_WITH_LARGE_THROUGHPUT_STEP
    pairs = [(group[worse], group[better]) for group in groups if {better, worse} <= group.keys()]
    comparison = f"at least {_MIN_LARGE_STEP_RATIO:g} times as much as" if is_large else "more than"
    claim_text = f"{better} forwards {comparison} {worse}"
    missing = (
        selected.missing or f"treatments with the adapters {better} and {worse}, with all other levels equal"
    )
    claim = claim_at_least(_MIN_LARGE_STEP_RATIO) if is_large else CLAIM_HIGHER
    return build_statement_part(claim_text, ratio_evidence(selected, pairs, _THROUGHPUT, claim), missing)


def _idle_cpu_claim_state(cpu_use: ForwardingGuestCpuUse) -> str:
    if cpu_use.has_idle_cpus:
        return SUPPORTED
    busy = cpu_use.guest_busy_percent
    return REFUTED if busy.low is not None and 100 - busy.low < MIN_IDLE_PERCENT else INCONCLUSIVE


def _does_qemu_share_vcpu_core(measured: MeasuredTreatment) -> bool | None:
    """Return whether the host's packet processing shares a core with the vCPUs; None if unknown."""
    host_cpus = str(measured.levels.get(_QEMU_CPUS_FACTOR, ""))
    if host_cpus in ("own", "apart"):
        return host_cpus == "own"
    vcpus = _host_cpus_of_vcpus(measured)
    try:
        return None if vcpus is None else bool(vcpus & set(parse_cpu_list(host_cpus)))
    except WrongValue:
        return None  # a word such as `any`


def _host_cpus_of_vcpus(measured: MeasuredTreatment) -> set[int] | None:
    try:
        return {
            cpu
            for part in str(measured.levels.get("vcpu_pin", "")).split("/")
            for cpu in parse_cpu_list(part)
        }
    except WrongValue:
        return None


def _count_host_cpus_of_vcpus(measured: MeasuredTreatment) -> int:
    """Return the number of CPUs of the vCPUs. Only treatments with equal numbers are comparable."""
    return len(_host_cpus_of_vcpus(measured) or ())


def _invert_state(state: str) -> str:
    return {SUPPORTED: REFUTED, REFUTED: SUPPORTED}.get(state, state)


def _adapter_specific_queue_gain_part(
    selected: TreatmentSelection, steps: list[tuple[MeasuredTreatment, MeasuredTreatment]], missing: str
) -> StatementPart:
    """Check whether more queues help one adapter and not another, with all other levels equal."""
    claim = "the effect of more queues depends on the guest's adapter"
    by_levels: dict[frozenset[tuple[str, Level]], list[TreatmentComparison]] = {}
    for each in compare_pairs(selected.summary, steps, _THROUGHPUT):
        queues = (
            ("from", each.base_treatment.levels["queues"]),
            ("to", each.compared_treatment.levels["queues"]),
        )
        key = frozenset((*each.base_treatment.levels_without("adapter", "queues").items(), *queues))
        by_levels.setdefault(key, []).append(each)
    evidence = [
        build_evidence(each, _THROUGHPUT, _adapter_specific_queue_gain_state(group))
        for group in by_levels.values()
        if len({each.base_treatment.levels.get("adapter") for each in group}) > 1
        for each in group
    ]
    return build_statement_part(
        claim,
        evidence,
        missing if not steps else "treatments with two different adapters, with all other levels equal",
        supported_if_any,
    )


def _adapter_specific_queue_gain_state(group: Sequence[TreatmentComparison]) -> str:
    """Return whether more queues are faster with one adapter and not with another one."""
    states = {evaluate_claim(each.ratio, CLAIM_HIGHER) for each in group}
    if {SUPPORTED, REFUTED} <= states:
        return SUPPORTED
    return INCONCLUSIVE if INCONCLUSIVE in states else REFUTED
