"""Level rules of guests and adapters: what each driver supports, and where guests and interrupts run."""

from __future__ import annotations

from collections.abc import Callable

from vnetbench.study.factors.adapter_limits import (
    AdapterLimits,
    derive_vmxnet3_queues_from_vcpus,
    find_adapter_limits,
    is_ring_out_of_range,
)
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.guest_factors import (
    ADAPTER,
    COALESCE,
    EMULATOR_PIN,
    GUEST_ROLE,
    IRQ_PIN,
    LRO,
    RX_RING,
    TX_RING,
    VCPU_PIN,
    VCPUS,
)
from vnetbench.study.factors.testbed_factors import MTU, QUEUES
from vnetbench.study.model import Study
from vnetbench.study.rules.rule import (
    EXCLUDE_FIX,
    LevelPredicate,
    LevelRule,
    TreatmentLevels,
)

ADAPTERS_WITHOUT_BRIDGE = ("macvtap", "vf")
"""Adapters that are not ports of a bridge."""


def adapter_limit_texts_by_placeholder(levels: TreatmentLevels) -> dict[str, str]:
    """Return the limits of a treatment's adapter that the rules' messages name."""
    limits = find_adapter_limits(levels)
    if limits is None:
        return {}
    return {
        "max_mtu": str(limits.max_mtu),
        "max_queues": str(limits.max_queues),
        "vmxnet3_queues": str(derive_vmxnet3_queues_from_vcpus(levels)),
        "rx_ring_range": "{} to {}".format(*limits.rx_ring),
        "tx_ring_range": "{} to {}".format(*limits.tx_ring),
    }


def _exceeds_adapter_limits(is_beyond: Callable[[AdapterLimits, TreatmentLevels], bool]) -> LevelPredicate:
    """Return a predicate: the treatment's adapter has known limits, and its levels are beyond them."""

    def is_broken(levels: TreatmentLevels, _: Study) -> bool:
        limits = find_adapter_limits(levels)
        return limits is not None and is_beyond(limits, levels)

    return is_broken


def _is_ring_out_of_range(ring: Factor) -> LevelPredicate:
    return lambda levels, _: is_ring_out_of_range(levels, ring.name)


def _has_irq_pin_beyond_vcpus(levels: TreatmentLevels, _: Study) -> bool:
    level = str(levels.get(IRQ_PIN.name, "spread"))
    return (
        VCPUS.is_present_in(levels)
        and level != "spread"
        and max(parse_cpu_list(level)) >= int(levels[VCPUS.name])
    )


ADAPTER_RULES = (
    LevelRule(
        MTU,
        _exceeds_adapter_limits(lambda limits, levels: int(levels.get(MTU.name, 0)) > limits.max_mtu),
        "mtu = {mtu} is too large for adapter = {adapter}: its driver supports at most {max_mtu}",
    ),
    LevelRule(
        QUEUES,
        _exceeds_adapter_limits(lambda limits, levels: int(levels.get(QUEUES.name, 0)) > limits.max_queues),
        "queues = {queues} is too many for adapter = {adapter}: its driver supports at most {max_queues}",
        f'{EXCLUDE_FIX}, or use "virtio-net"',
    ),
    LevelRule(
        QUEUES,
        lambda levels, _: (
            ADAPTER.is_at(levels, "vmxnet3")
            and int(levels.get(QUEUES.name, 0)) not in (0, derive_vmxnet3_queues_from_vcpus(levels))
        ),
        "queues = {queues} is not possible with adapter = vmxnet3 and vcpus = {vcpus}: its driver creates "
        "one for each vCPU, which is {vmxnet3_queues}",
        f"{EXCLUDE_FIX}, or give the guests the same number of vCPUs",
    ),
    *(
        LevelRule(
            ring,
            _is_ring_out_of_range(ring),
            f"{ring.name} = {{{ring.name}}} is out of range for adapter = {{adapter}}: "
            f"its driver supports {{{ring.name}_range}} descriptors",
        )
        for ring in (RX_RING, TX_RING)
    ),
    LevelRule(
        LRO,
        _exceeds_adapter_limits(lambda limits, levels: LRO.is_at(levels, "on") and not limits.has_lro),
        "lro = on is not possible with adapter = {adapter}, which has no LRO",
    ),
    LevelRule(
        COALESCE,
        _exceeds_adapter_limits(
            lambda limits, levels: COALESCE.is_present_in(levels) and not limits.has_coalescing
        ),
        "coalesce is not possible with adapter = {adapter}: its driver cannot set interrupt coalescing",
    ),
    LevelRule(
        IRQ_PIN,
        _has_irq_pin_beyond_vcpus,
        "irq_pin = {irq_pin} names CPUs that a guest with vcpus = {vcpus} does not have. CPUs are numbered "
        "from 0",
        f"{EXCLUDE_FIX}, or name CPUs that the guests have",
    ),
    LevelRule(
        EMULATOR_PIN,
        lambda levels, _: (
            EMULATOR_PIN.is_at(levels, "own", "apart") and not VCPU_PIN.has_non_default_level(levels)
        ),
        "emulator_pin = {emulator_pin} needs a vcpu_pin, because without vcpu_pin the vCPUs run on every CPU",
        f'add a vcpu_pin ("spread"), or {EXCLUDE_FIX}',
    ),
    LevelRule(
        GUEST_ROLE,
        lambda levels, study: study.testbed.uplink and GUEST_ROLE.is_at(levels, "router", "bridge"),
        "role = {role} cannot be combined with testbed.uplink: the guest takes the place of the uplink",
        "remove testbed.uplink",
    ),
    LevelRule(
        ADAPTER,
        lambda levels, study: (
            ADAPTER.is_at(levels, *ADAPTERS_WITHOUT_BRIDGE)
            and (study.testbed.uplink or not GUEST_ROLE.is_at(levels, "guest-to-guest"))
        ),
        "adapter = {adapter} joins two guests without a vSwitch, so it needs role = guest-to-guest "
        "and no testbed.uplink",
        f"{EXCLUDE_FIX}, or remove testbed.uplink",
    ),
    LevelRule(
        ADAPTER,
        lambda levels, study: ADAPTER.is_at(levels, "vf") and study.testbed.vf_interface is None,
        "adapter = vf needs a host adapter with virtual functions, and the study names none",
        'write vf_interface = "ens1f0" under [testbed]',
    ),
)
