"""Level rules of the testbed: switches, links, offloads and CPUs that contradict each other."""

from __future__ import annotations

from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.guest_factors import ADAPTER, GUEST_ROLE
from vnetbench.study.factors.testbed_factors import (
    CHECKSUM_OFFLOAD,
    DEVICE_CPUS,
    IP_VERSION,
    LINK_DELAY,
    LINK_IMPAIRMENT_FACTORS,
    LINK_JITTER,
    LINK_QUEUE,
    LINK_RATE,
    MIN_IPV6_MTU,
    MTU,
    NO_IMPAIRMENT,
    RECEIVE_PROCESSING_CPUS,
    TSO,
    USO,
    VM_CPUS,
    VSWITCH,
)
from vnetbench.study.model import Study
from vnetbench.study.rules.adapter_rules import ADAPTERS_WITHOUT_BRIDGE
from vnetbench.study.rules.rule import (
    EXCLUDE_FIX,
    LevelPredicate,
    LevelRule,
    TreatmentLevels,
    match_levels,
)


def _impairs_missing_link(impairment: Factor) -> LevelPredicate:
    return lambda levels, _: (
        impairment.has_non_default_level(levels)
        and (ADAPTER.is_at(levels, *ADAPTERS_WITHOUT_BRIDGE) or GUEST_ROLE.is_at(levels, "router", "bridge"))
    )


def _has_jitter_above_delay(levels: TreatmentLevels, _: Study) -> bool:
    delay, jitter = (factor.read_level(levels) for factor in (LINK_DELAY, LINK_JITTER))
    return jitter != NO_IMPAIRMENT and (delay == NO_IMPAIRMENT or float(jitter) > float(delay))


TESTBED_RULES = (
    LevelRule(
        VSWITCH,
        lambda levels, study: study.testbed.uplink and VSWITCH.is_at(levels, "direct", "router"),
        "vswitch = {vswitch} cannot be combined with testbed.uplink, because this testbed has no vSwitch",
        'remove the level "{vswitch}" or testbed.uplink',
    ),
    *(
        LevelRule(
            VSWITCH,
            match_levels((VSWITCH, "openvswitch"), (offload, "on")),
            f"{offload.name} = on is not possible with vswitch = openvswitch: "
            "its userspace datapath supports only complete packets",
            f'{EXCLUDE_FIX}, or write {offload.name} = "off"',
        )
        for offload in (CHECKSUM_OFFLOAD, TSO, USO)
    ),
    LevelRule(
        DEVICE_CPUS,
        lambda levels, _: (
            DEVICE_CPUS.read_level(levels) not in ("auto", "any")
            and VSWITCH.is_at(levels, "direct", "macvlan")
        ),
        "device_cpus = {device_cpus} is not possible with vswitch = {vswitch}: "
        "the sending CPU processes its packets",
        f'{EXCLUDE_FIX}, or write "auto"',
    ),
    LevelRule(
        VSWITCH,
        lambda levels, study: study.testbed.vswitch_mtu is not None and VSWITCH.is_at(levels, "direct"),
        "vswitch = direct cannot be combined with testbed.vswitch_mtu, because this testbed has no vSwitch",
        'remove the level "direct" or testbed.vswitch_mtu',
    ),
    LevelRule(
        LINK_QUEUE,
        lambda levels, _: (
            LINK_QUEUE.has_non_default_level(levels) and not LINK_RATE.has_non_default_level(levels)
        ),
        "link_queue needs a link_rate, because a link without shaping has no queue",
        f"add a link_rate, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        LINK_QUEUE,
        lambda levels, study: (
            not isinstance(LINK_QUEUE.read_level(levels), str)
            and LINK_RATE.has_non_default_level(levels)
            and study.testbed.shaper != "tbf"
        ),
        "link_queue cannot be a duration with the shaper {shaper}, whose queue counts packets",
        'write shaper = "tbf" under [testbed]',
    ),
    LevelRule(
        LINK_JITTER,
        _has_jitter_above_delay,
        "link_jitter = {link_jitter} is larger than link_delay: no packet can leave before it arrives",
        f"raise link_delay to at least this value, or {EXCLUDE_FIX}",
    ),
    *(
        LevelRule(
            impairment,
            _impairs_missing_link(impairment),
            f"{impairment.name} needs a link between switches, which this adapter and role do not have",
            f"use role = guest-to-guest and an adapter on a vSwitch, or {EXCLUDE_FIX}",
        )
        for impairment in LINK_IMPAIRMENT_FACTORS
    ),
    LevelRule(
        IP_VERSION,
        lambda levels, _: (
            IP_VERSION.is_at(levels, "6") and int(levels.get(MTU.name, MIN_IPV6_MTU)) < MIN_IPV6_MTU
        ),
        f"ip_version = 6 is not possible with mtu = {{mtu}}: IPv6 needs an MTU of at least {MIN_IPV6_MTU}",
        f"{EXCLUDE_FIX}, or choose an MTU of at least {MIN_IPV6_MTU}",
    ),
    LevelRule(
        TSO,
        match_levels((TSO, "on"), (CHECKSUM_OFFLOAD, "off")),
        "tso = on is not possible with checksum_offload = off: "
        "the kernel turns TSO off without checksum offload",
        'add [[exclude]] with the lines tso = "on" and checksum_offload = "off"',
    ),
    LevelRule(
        RECEIVE_PROCESSING_CPUS,
        lambda levels, _: (
            RECEIVE_PROCESSING_CPUS.is_at(levels, "apart") and not VM_CPUS.has_non_default_level(levels)
        ),
        "irq_cpus = apart is not possible with cpus = any, because a VM that may use every CPU leaves no "
        "CPU for interrupts",
        f'give the VMs their own CPUs (cpus = "1 each"), or {EXCLUDE_FIX}',
    ),
)
