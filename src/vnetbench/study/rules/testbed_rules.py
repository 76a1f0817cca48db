"""Level rules of the testbed: switches, links, offloads and CPUs that contradict each other."""

from __future__ import annotations

from vnetbench.study.factors.testbed_factors import LINK_IMPAIRMENTS, MIN_IPV6_MTU, NO_IMPAIRMENT
from vnetbench.study.model import Study
from vnetbench.study.rules.adapter_rules import ADAPTERS_WITHOUT_BRIDGE
from vnetbench.study.rules.rule import (
    EXCLUDE_FIX,
    LevelPredicate,
    LevelRule,
    TreatmentLevels,
    has_other_level,
    have_levels,
)


def _impairs_missing_link(impairment: str) -> LevelPredicate:
    return lambda levels, _: (
        levels.get(impairment, NO_IMPAIRMENT) not in (NO_IMPAIRMENT, 0)
        and (levels.get("adapter") in ADAPTERS_WITHOUT_BRIDGE or levels.get("role") in ("router", "bridge"))
    )


def _has_jitter_above_delay(levels: TreatmentLevels, _: Study) -> bool:
    delay, jitter = (levels.get(name, NO_IMPAIRMENT) for name in ("link_delay", "link_jitter"))
    return jitter != NO_IMPAIRMENT and (delay == NO_IMPAIRMENT or float(jitter) > float(delay))


TESTBED_RULES = (
    LevelRule(
        "vswitch",
        lambda levels, study: study.testbed.uplink and levels.get("vswitch") in ("direct", "router"),
        "vswitch = {vswitch} cannot be combined with testbed.uplink, because it has no vSwitch",
        'remove the level "{vswitch}" or testbed.uplink',
    ),
    *(
        LevelRule(
            "vswitch",
            have_levels(**{"vswitch": "openvswitch", offload: "on"}),
            f"{offload} = on is not possible with vswitch = openvswitch: "
            "its userspace datapath supports only complete packets",
            f'{EXCLUDE_FIX}, or write {offload} = "off"',
        )
        for offload in ("checksum_offload", "tso", "uso")
    ),
    LevelRule(
        "device_cpus",
        lambda levels, _: (
            levels.get("device_cpus", "auto") not in ("auto", "any")
            and levels.get("vswitch") in ("direct", "macvlan")
        ),
        "device_cpus = {device_cpus} is not possible with vswitch = {vswitch}: "
        "the sending CPU processes its packets",
        f'{EXCLUDE_FIX}, or write "auto"',
    ),
    LevelRule(
        "vswitch",
        lambda levels, study: study.testbed.vswitch_mtu is not None and levels.get("vswitch") == "direct",
        "vswitch = direct cannot be combined with testbed.vswitch_mtu, because it has no vSwitch",
        'remove the level "direct" or testbed.vswitch_mtu',
    ),
    LevelRule(
        "link_queue",
        lambda levels, _: (
            has_other_level(levels, "link_queue", "auto") and not has_other_level(levels, "link_rate")
        ),
        "link_queue needs a link_rate, because a link without shaping has no queue",
        f"add a link_rate, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        "link_queue",
        lambda levels, study: (
            not isinstance(levels.get("link_queue", "auto"), str)
            and has_other_level(levels, "link_rate")
            and study.testbed.shaper != "tbf"
        ),
        "link_queue cannot be a duration with the shaper {shaper}, whose queue counts packets",
        'write shaper = "tbf" under [testbed]',
    ),
    LevelRule(
        "link_jitter",
        _has_jitter_above_delay,
        "link_jitter = {link_jitter} is larger than link_delay: no packet can leave before it arrives",
        f"raise link_delay to at least this value, or {EXCLUDE_FIX}",
    ),
    *(
        LevelRule(
            impairment,
            _impairs_missing_link(impairment),
            f"{impairment} needs a link between switches, which this adapter and role do not have",
            f"use role = guest-to-guest and an adapter on a vSwitch, or {EXCLUDE_FIX}",
        )
        for impairment in LINK_IMPAIRMENTS
    ),
    LevelRule(
        "ip_version",
        lambda levels, _: (
            levels.get("ip_version") == "6" and int(levels.get("mtu", MIN_IPV6_MTU)) < MIN_IPV6_MTU
        ),
        f"ip_version = 6 is not possible with mtu = {{mtu}}: IPv6 needs an MTU of at least {MIN_IPV6_MTU}",
        f"{EXCLUDE_FIX}, or choose an MTU of at least {MIN_IPV6_MTU}",
    ),
    LevelRule(
        "tso",
        have_levels(tso="on", checksum_offload="off"),
        "tso = on is not possible with checksum_offload = off: "
        "the kernel turns TSO off without checksum offload",
        'add [[exclude]] with the lines tso = "on" and checksum_offload = "off"',
    ),
    LevelRule(
        "irq_cpus",
        lambda levels, _: levels.get("irq_cpus") == "apart" and not has_other_level(levels, "cpus", "any"),
        "irq_cpus = apart is not possible with cpus = any: a VM that may use every CPU leaves none",
        f'give the VMs their own CPUs (cpus = "1 each"), or {EXCLUDE_FIX}',
    ),
)
