"""Level rules of events by lab: what each lab can make, and what a guest's clock or adapter prevents."""

from __future__ import annotations

from vnetbench.study.factors.disruption_factors import (
    EVENT,
    EVENTS_BY_LAB,
    EVENTS_OF_GATEWAYS,
    LIVE_MIGRATION,
    NO_EVENT,
)
from vnetbench.study.factors.guest_factors import ADAPTER, GUEST_PAIRS, GUEST_ROLE
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Study
from vnetbench.study.rules.rule import EXCLUDE_FIX, LevelPredicate, LevelRule, TreatmentLevels
from vnetbench.study.teams import IN_GATEWAYS
from vnetbench.study.workloads import WORKLOADS

FORWARDING_ROLES = ("router", "bridge")
"""Roles of a guest between two endpoints on the host."""
ADAPTERS_OF_HOST = ("vf", "macvtap")
"""Adapters that a second QEMU cannot open while the first one uses them."""


def _is_impossible_in(lab: str) -> LevelPredicate:
    return lambda levels, study: (
        study.testbed.lab == lab
        and EVENT.is_present_in(levels)
        and not EVENT.is_at(levels, *EVENTS_BY_LAB[lab])
    )


def _has_endpoints_in_guests(levels: TreatmentLevels, study: Study) -> bool:
    has_guests = GUEST_ROLE.is_present_in(levels)
    has_event = WORKLOADS[study.workload].has_network_event
    return has_event and has_guests and not GUEST_ROLE.is_at(levels, *FORWARDING_ROLES)


def _has_event_of_gateways_without_team(levels: TreatmentLevels, study: Study) -> bool:
    is_in_qemu = study.testbed.lab == QEMU
    return is_in_qemu and EVENT.is_at(levels, *EVENTS_OF_GATEWAYS) and not study.testbed.teams


def _has_other_event_with_team(levels: TreatmentLevels, study: Study) -> bool:
    events = set(EVENTS_BY_LAB[QEMU]) - {NO_EVENT, *EVENTS_OF_GATEWAYS}
    return study.testbed.lab == QEMU and bool(study.testbed.teams) and EVENT.is_at(levels, *events)


GUEST_EVENT_RULES = (
    LevelRule(
        EVENT,
        _is_impossible_in(NETNS),
        "event = {event} is not possible in the lab netns, whose VMs are namespaces and no guests",
        'write lab = "qemu" under [testbed]',
    ),
    LevelRule(
        EVENT,
        _is_impossible_in(QEMU),
        "event = {event} is not possible in the lab qemu, which makes the events "
        f"{', '.join(EVENTS_BY_LAB[QEMU])}",
        f'write lab = "netns" under [testbed], or {EXCLUDE_FIX}',
    ),
    LevelRule(
        EVENT,
        _has_event_of_gateways_without_team,
        "event = {event} happens to a team of links, and the study has no team",
        f'write [[testbed.team]] with location = "{IN_GATEWAYS}"',
    ),
    LevelRule(
        EVENT,
        _has_other_event_with_team,
        "event = {event} is not possible with a team of gateways, which has the events "
        f"{' and '.join(EVENTS_OF_GATEWAYS)}",
        f"use one of these, remove [[testbed.team]], or {EXCLUDE_FIX}",
    ),
    LevelRule(
        GUEST_ROLE,
        _has_endpoints_in_guests,
        "role = {role} is not possible with the workload {workload}: an endpoint in a guest has a clock that "
        "stands still while the guest does, so the length of an outage would be unknown",
        'write role = "router" or "bridge"',
    ),
    LevelRule(
        ADAPTER,
        lambda levels, _: EVENT.is_at(levels, LIVE_MIGRATION) and ADAPTER.is_at(levels, *ADAPTERS_OF_HOST),
        "event = {event} is not possible with adapter = {adapter}: a guest that uses a device of the host "
        "cannot leave it",
        f'write adapter = "virtio-net" and role = "router", or {EXCLUDE_FIX}',
    ),
    LevelRule(
        EVENT,
        lambda levels, _: (
            EVENT.is_present_in(levels)
            and not EVENT.is_at(levels, NO_EVENT)
            and int(GUEST_PAIRS.read_level(levels)) > 1
        ),
        "event = {event} concerns one pair, but the treatment has {guests}",
        "write guests = 1",
    ),
)
