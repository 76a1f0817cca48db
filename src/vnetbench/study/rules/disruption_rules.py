"""Level rules of the workloads with an event: events that a testbed or a trial's duration cannot show."""

from __future__ import annotations

import math
from collections.abc import Callable

from vnetbench.quantity import format_exact_duration
from vnetbench.study.factors.disruption_factors import (
    BRIDGE_PORT_STP,
    EVENT,
    EVENT_DURATION,
    FLAP_PERIOD_S,
    MIN_DATAGRAMS,
    NO_EVENT,
    SILENT_DROP,
    TEAM_EVENTS,
    TEAM_LACP_STOP,
    TEAM_LINK_FLAP,
    TEAM_LINK_SILENT,
    TEAM_REBALANCE,
    expected_outage_s,
    shortest_trial_s,
)
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.load_factors import MESSAGE_SIZE, REQUEST_OR_DATAGRAM_RATE, STREAMS
from vnetbench.study.factors.stream_counts import count_streams_per_direction
from vnetbench.study.factors.team_factors import teams_of_treatment
from vnetbench.study.factors.testbed_factors import LINK_IMPAIRMENT_FACTORS, LINK_RATE, VM_PAIRS, VSWITCH
from vnetbench.study.labs import NETNS
from vnetbench.study.model import Study
from vnetbench.study.rules.rule import EXCLUDE_FIX, LevelPredicate, LevelRule, TreatmentLevels
from vnetbench.study.teams import BALANCE_SLB, TeamSpec
from vnetbench.study.workloads import WORKLOADS

MAX_RECORDING_STREAMS = 16
"""Streams whose arrivals an agent records (docs/protocol.md, `arrival_gaps`)."""
MIN_TIMED_MESSAGE_BYTES = 8
"""A message carries its time of sending (docs/protocol.md, `tcp_stream` with `arrival_gaps`)."""
_VSWITCHES_WITH_PORTS = ("bridge", "openvswitch")


def format_shortest_trial(levels: TreatmentLevels) -> dict[str, str]:
    """Return the text of the placeholder `shortest_trial`, rounded up to half a second."""
    if not EVENT.is_present_in(levels) or not EVENT_DURATION.is_present_in(levels):
        return {}
    return {"shortest_trial": format_exact_duration(math.ceil(2 * shortest_trial_s(levels)) / 2)}


def format_lowest_rate(levels: TreatmentLevels) -> dict[str, str]:
    """Return the text of the placeholder `lowest_rate`: the rate that shows the outage of a treatment."""
    if not EVENT.is_present_in(levels) or not EVENT_DURATION.is_present_in(levels):
        return {}
    return {"lowest_rate": f"{math.ceil(MIN_DATAGRAMS / expected_outage_s(levels))} /s"}


def _has_event(levels: TreatmentLevels) -> bool:
    # A factor of another lab is an error of its own.
    has_factors = all(factor.is_present_in(levels) for factor in (EVENT, EVENT_DURATION))
    return has_factors and not EVENT.is_at(levels, NO_EVENT)


def _has_event_without_port(levels: TreatmentLevels, _: Study) -> bool:
    # The lab `qemu` has a bridge, and no factor of it.
    is_without_port = VSWITCH.is_present_in(levels) and not VSWITCH.is_at(levels, *_VSWITCHES_WITH_PORTS)
    return _has_event(levels) and is_without_port


def _ends_before_recovery(levels: TreatmentLevels, study: Study) -> bool:
    # Also without an event: the control observes the same time.
    has_factors = EVENT.is_present_in(levels) and EVENT_DURATION.is_present_in(levels)
    duration_s = study.timing.duration_s
    return has_factors and duration_s is not None and duration_s < shortest_trial_s(levels)


def _has_too_few_datagrams(levels: TreatmentLevels, _: Study) -> bool:
    rate = REQUEST_OR_DATAGRAM_RATE.read_level(levels)
    return _has_event(levels) and rate != "none" and expected_outage_s(levels) * float(rate) < MIN_DATAGRAMS


def _has_too_many_streams(levels: TreatmentLevels, study: Study) -> bool:
    streams = sum(count_streams_per_direction(levels))
    return WORKLOADS[study.workload].has_network_event and streams > MAX_RECORDING_STREAMS


def _has_event_on_impaired_link(impairment: Factor) -> LevelPredicate:
    return lambda levels, _: _has_event(levels) and impairment.has_non_default_level(levels)


def _has_team_that(event: str, has_property: Callable[[TeamSpec], bool]) -> LevelPredicate:
    """Return whether a treatment has this event and a team with a property."""
    return lambda levels, study: (
        EVENT.is_at(levels, event) and any(map(has_property, teams_of_treatment(study.testbed, levels)))
    )


DISRUPTION_RULES = (
    LevelRule(
        EVENT,
        _ends_before_recovery,
        "a trial is too short for event = {event} with event_duration = {event_duration}: it has to show the "
        "flow before the event and after the outage",
        'write duration = "{shortest_trial}" under [timing], or a shorter event_duration',
    ),
    LevelRule(
        EVENT,
        _has_event_without_port,
        "event = {event} is not possible with vswitch = {vswitch}, which has no port before the second VM",
        f'write vswitch = "bridge", or {EXCLUDE_FIX}',
    ),
    LevelRule(
        EVENT,
        lambda levels, _: (
            _has_event(levels)
            and EVENT.is_at(levels, BRIDGE_PORT_STP)
            and VSWITCH.is_present_in(levels)
            and not VSWITCH.is_at(levels, "bridge")
        ),
        "event = {event} is not possible with vswitch = {vswitch}: only a bridge runs the spanning tree",
        f'write vswitch = "bridge", or {EXCLUDE_FIX}',
    ),
    LevelRule(
        EVENT,
        lambda levels, study: (
            _has_event(levels)
            and not EVENT.is_at(levels, *TEAM_EVENTS)
            and not study.testbed.uplink
            and int(levels.get(VM_PAIRS.name, 1)) > 1
        ),
        "event = {event} concerns one link, but each of the {pairs} pairs has its own",
        "write uplink = true under [testbed], so that all pairs use one link, or pairs = 1",
    ),
    LevelRule(
        EVENT,
        lambda levels, _: (
            EVENT.is_at(levels, SILENT_DROP, TEAM_LINK_SILENT) and LINK_RATE.has_non_default_level(levels)
        ),
        f"event = {{event}} needs a link without {LINK_RATE.name}: both use its queueing discipline",
        f"use event = link-flap or team-link-down, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        EVENT,
        lambda levels, study: (
            EVENT.is_at(levels, *TEAM_EVENTS) and study.testbed.lab == NETNS and not study.testbed.teams
        ),
        "event = {event} happens to a team of links, and the study has no team",
        'write [[testbed.team]], and vswitch = "openvswitch" under [factors]',
    ),
    LevelRule(
        EVENT,
        _has_team_that(TEAM_LACP_STOP, lambda team: not team.has_lacp),
        "event = {event} needs a team with LACP",
        f'write lacp = "fast" under [[testbed.team]], or {EXCLUDE_FIX}',
    ),
    LevelRule(
        EVENT,
        _has_team_that(TEAM_REBALANCE, lambda team: team.policy != BALANCE_SLB),
        "event = {event} needs the team policy balance-slb, the only one whose buckets Open vSwitch moves on "
        "request",
        f"use the policy balance-slb, or {EXCLUDE_FIX}",
    ),
    LevelRule(
        EVENT_DURATION,
        lambda levels, _: (
            _has_event(levels)
            and EVENT.is_at(levels, TEAM_LINK_FLAP)
            and float(EVENT_DURATION.read_level(levels)) < 2 * FLAP_PERIOD_S
        ),
        "event_duration = {event_duration} is too short for event = {event}: the link flaps once in "
        f"{FLAP_PERIOD_S:g} s",
        f'write event_duration = "{2 * FLAP_PERIOD_S:g} s" or more',
    ),
    LevelRule(
        EVENT,
        lambda levels, study: (
            EVENT.is_at(levels, TEAM_LINK_SILENT) and any(each.speed for each in study.testbed.teams)
        ),
        "event = {event} needs links without a speed: both use their queueing discipline",
        f"remove speed from [[testbed.team]], use event = team-link-down, or {EXCLUDE_FIX}",
    ),
    *(
        LevelRule(
            EVENT,
            _has_event_on_impaired_link(impairment),
            f"event = {{event}} needs a link without {impairment.name}: both ends of a delay line are "
            "interfaces of their own, so one stays up while the other is down",
            f"remove {impairment.name}, or {EXCLUDE_FIX}",
        )
        for impairment in LINK_IMPAIRMENT_FACTORS
    ),
    LevelRule(
        REQUEST_OR_DATAGRAM_RATE,
        _has_too_few_datagrams,
        "rate = {rate} is too low to show event = {event} with event_duration = {event_duration}: fewer than "
        f"{MIN_DATAGRAMS} datagrams or messages fall into its outage",
        'write rate = "{lowest_rate}" or more, or a longer event_duration',
    ),
    LevelRule(
        STREAMS,
        _has_too_many_streams,
        "{forward} forward and {reverse} reverse streams are too many for the workload {workload}, which "
        f"records the arrivals of up to {MAX_RECORDING_STREAMS} streams",
        f"use at most {MAX_RECORDING_STREAMS} streams, both directions together",
    ),
    LevelRule(
        REQUEST_OR_DATAGRAM_RATE,
        lambda levels, study: (
            WORKLOADS[study.workload].has_network_event and REQUEST_OR_DATAGRAM_RATE.is_at(levels, "none")
        ),
        "the workload {workload} needs a rate: the time between two datagrams or messages is the resolution "
        "of an outage",
        'write rate = "10 k/s"',
    ),
    LevelRule(
        MESSAGE_SIZE,
        lambda levels, study: (
            WORKLOADS[study.workload].has_network_event
            and MESSAGE_SIZE.is_present_in(levels)
            and int(levels[MESSAGE_SIZE.name]) < MIN_TIMED_MESSAGE_BYTES
        ),
        "message_size = {message_size} is too small for the workload {workload}: a message carries its time "
        "of sending",
        f'write message_size = "{MIN_TIMED_MESSAGE_BYTES} B" or more',
    ),
)
