"""Factors of the workload `disruption`: what happens to the network during a trial, and for how long."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.load_factors import REQUEST_OR_DATAGRAM_RATE
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level
from vnetbench.study.workloads import DISRUPTION

NO_EVENT, LINK_FLAP, SILENT_DROP, BRIDGE_PORT_STP = "none", "link-flap", "silent-drop", "bridge-port-stp"
TEAM_LINK_DOWN, TEAM_LINK_SILENT = "team-link-down", "team-link-silent"
"""Levels of the factor `event`."""
TEAM_EVENTS = (TEAM_LINK_DOWN, TEAM_LINK_SILENT)
"""Events on the link of a team that carries the flow."""

EVENT_BEGIN_SHARE = 0.25
"""An event begins after this share of the trial's duration; the flow before it shows the old rate."""
STP_FORWARD_DELAY_S = 2.0
"""Time in each of the states listening and learning: the shortest that the kernel allows (IEEE 802.1D)."""
RECOVERY_TIME_BY_EVENT_S: Mapping[str, float] = {BRIDGE_PORT_STP: 2 * STP_FORWARD_DELAY_S}
"""How long after an event of this kind the network stays broken by design; 0 for the others."""
MIN_TIME_AFTER_OUTAGE_S = 0.5
"""Load that a trial needs after the expected outage, to show that the old rate is back."""
MIN_DATAGRAMS = 20
"""Datagrams that show a rate, and that an outage needs to differ from the spacing of two datagrams."""

EVENT = Factor(
    "event",
    value_types.keywords(NO_EVENT, LINK_FLAP, SILENT_DROP, BRIDGE_PORT_STP, *TEAM_EVENTS),
    unit="",
    default=LINK_FLAP,
    description="What happens to the network once in each trial, after a quarter of its duration. "
    "`link-flap`: the link before the second VM (with `uplink`, the uplink) goes down for `event_duration` "
    "and up again. `silent-drop`: this link stays up for `event_duration` and drops every packet in both "
    "directions. `bridge-port-stp`: as `link-flap`, but the bridge runs the spanning tree protocol, so the "
    "port then listens for 2 s and learns for 2 s before it forwards. `team-link-down`: the link of "
    "`[[testbed.team]]` that carries the flow goes down and up again; both switches see no carrier. "
    "`team-link-silent`: this link stays up and drops every packet, which only LACP notices. `none`: nothing "
    "happens, which shows the gaps that this machine makes by itself. The lab `qemu` has `none` and the "
    "events of a team at the location `gateways`.",
    examples=('["none", "link-flap", "silent-drop"]', '"silent-drop"'),
    workloads=(DISRUPTION,),
    labs=(NETNS, QEMU),
    label="Event",
    phrase_template="event {}",
)

EVENT_DURATION = Factor(
    "event_duration",
    value_types.durations(0.02, 120.0),
    unit="s",
    default=0.1,
    description="How long the event keeps the link down or dropping; with `none`, the time that is observed. "
    "Each trial measures its event (`event_s`). It has a note if the event lasted longer, and fails if it "
    "lasted more than 20 % (at least 5 ms) longer.",
    examples=('["20 ms", "100 ms", "1 s"]', '"50 ms"'),
    workloads=(DISRUPTION,),
    labs=(NETNS, QEMU),
    label="Event duration",
    phrase_template="for {}",
)

DISRUPTION_FACTORS = (EVENT, EVENT_DURATION)


def event_begin_s(duration_s: float) -> float:
    """Return when the event of a trial of this duration begins, in seconds after the start of the load."""
    return EVENT_BEGIN_SHARE * duration_s


def expected_outage_s(levels: Mapping[str, Level]) -> float:
    """Return how long a treatment keeps its network silent by design, in seconds."""
    return float(EVENT_DURATION.read_level(levels)) + RECOVERY_TIME_BY_EVENT_S.get(
        str(EVENT.read_level(levels)), 0.0
    )


def shortest_trial_s(levels: Mapping[str, Level]) -> float:
    """Return the shortest duration of a trial that shows the whole outage of a treatment, in seconds."""
    rate = REQUEST_OR_DATAGRAM_RATE.read_level(levels)
    # Twice the time that shows the old rate: the outage may end within its first half.
    slow_flow_s = 2 * MIN_DATAGRAMS / float(rate) if rate != "none" else 0.0
    after_outage_s = max(MIN_TIME_AFTER_OUTAGE_S, slow_flow_s)
    return (expected_outage_s(levels) + after_outage_s) / (1 - EVENT_BEGIN_SHARE)
