"""Factors of the workload `disruption`: what happens to the network during a trial, and for how long."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.load_factors import MESSAGE_SIZE, REQUEST_OR_DATAGRAM_RATE
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level
from vnetbench.study.workloads import NAMES_OF_WORKLOADS_WITH_EVENT

NO_EVENT, LINK_FLAP, SILENT_DROP, BRIDGE_PORT_STP = "none", "link-flap", "silent-drop", "bridge-port-stp"
LIVE_MIGRATION = "live-migration"
TEAM_LINK_DOWN, TEAM_LINK_SILENT = "team-link-down", "team-link-silent"
TEAM_LINK_FLAP, TEAM_LINK_UP = "team-link-flap", "team-link-up"
TEAM_LACP_STOP, TEAM_REBALANCE = "team-lacp-stop", "team-rebalance"
"""Levels of the factor `event`."""
TEAM_EVENTS = (
    TEAM_LINK_DOWN, TEAM_LINK_SILENT, TEAM_LINK_FLAP, TEAM_LINK_UP, TEAM_LACP_STOP, TEAM_REBALANCE
)  # fmt: skip
"""Events on a team of links."""
EVENTS_OF_GATEWAYS = (TEAM_LINK_DOWN, TEAM_LINK_SILENT)
"""Events on a team of links between two guests that are gateways."""
EVENTS_BY_LAB: Mapping[str, tuple[str, ...]] = {
    NETNS: (NO_EVENT, LINK_FLAP, SILENT_DROP, BRIDGE_PORT_STP, *TEAM_EVENTS),
    QEMU: (NO_EVENT, LINK_FLAP, SILENT_DROP, LIVE_MIGRATION, *EVENTS_OF_GATEWAYS),
}
"""Events that each lab can make."""
FLAP_PERIOD_S = 0.4
"""Time between two downs of `team-link-flap`; the link is down for half of it."""

EVENTS_THAT_CUT_PATH = (LINK_FLAP, SILENT_DROP, BRIDGE_PORT_STP)
"""Events on the only path of the load: nothing arrives while they last."""

EVENT_BEGIN_SHARE = 0.25
"""An event begins after this share of the trial's duration; the flow before it shows the old rate."""
STP_FORWARD_DELAY_S = 2.0
"""Time in each of the states listening and learning: the shortest that the kernel allows (IEEE 802.1D)."""
LACP_RETURN_TIME_S = 3.0
"""Time that LACP may need to negotiate anew: as long as its fast timer needs to give a link up."""
RECOVERY_TIME_BY_EVENT_S: Mapping[str, float] = {
    BRIDGE_PORT_STP: 2 * STP_FORWARD_DELAY_S,
    TEAM_LACP_STOP: LACP_RETURN_TIME_S,
}
"""How long after an event of this kind the network stays broken by design; 0 for the others."""
MIN_RETRANSMISSION_TIMEOUT_S = 0.2
"""Shortest retransmission timeout of Linux (TCP_RTO_MIN); it doubles after each timeout (RFC 6298, 5.5)."""
MIN_TIME_AFTER_OUTAGE_S = 0.5
"""Load that a trial needs after the expected outage, to show that the old rate is back."""
MIN_DATAGRAMS = 20
"""Datagrams or messages that show a rate, and that an outage needs to differ from their spacing."""

EVENT = Factor(
    "event",
    value_types.keywords(NO_EVENT, LINK_FLAP, SILENT_DROP, BRIDGE_PORT_STP, LIVE_MIGRATION, *TEAM_EVENTS),
    unit="",
    default=LINK_FLAP,
    description="What happens to the network once in each trial, after a quarter of its duration. "
    "`link-flap`: the link before the second VM (with `uplink`, the uplink) goes down for `event_duration` "
    "and up again. `silent-drop`: this link stays up for `event_duration` and drops every packet in both "
    "directions. `bridge-port-stp`: as `link-flap`, but the bridge runs the spanning tree protocol, so the "
    "port then listens for 2 s and learns for 2 s before it forwards. `live-migration`: the guest moves to "
    "another QEMU process of this machine (`qemu`). `team-link-down`: the link of "
    "`[[testbed.team]]` that carries the flow goes down and up again; both switches see no carrier. "
    "`team-link-silent`: this link stays up and drops every packet, which only LACP notices. "
    "`team-link-flap`: this link goes down and up again and again, down for 0.2 s of each 0.4 s. "
    "`team-link-up`: the first link of the team is down before the load and comes back. `team-lacp-stop`: "
    "the far end stops LACP, and all links stay up; the near end notices when its timer has run out. "
    "`team-rebalance`: the bond moves the flow to another link, and back at the end. "
    "`none`: nothing happens, which shows the gaps that this machine makes by itself. Teams of gateways "
    "(`qemu`) have `team-link-down` and `team-link-silent` only.",
    examples=('["none", "link-flap", "silent-drop"]', '"silent-drop"'),
    workloads=NAMES_OF_WORKLOADS_WITH_EVENT,
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
    "lasted more than twice as long. A live migration ends by itself: its trial fails if it needs longer "
    "than this.",
    examples=('["20 ms", "100 ms", "1 s"]', '"50 ms"'),
    workloads=NAMES_OF_WORKLOADS_WITH_EVENT,
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


def longest_expected_silence_s(levels: Mapping[str, Level]) -> float:
    """Return how long a treatment keeps its sinks without data by design, in seconds.

    A TCP stream continues with the first retransmission after the outage. The time between two of them
    doubles, so the stream may need as long again.
    """
    outage_s = expected_outage_s(levels)
    return 2 * (outage_s + MIN_RETRANSMISSION_TIMEOUT_S) if MESSAGE_SIZE.is_present_in(levels) else outage_s


def shortest_trial_s(levels: Mapping[str, Level]) -> float:
    """Return the shortest duration of a trial that shows the whole outage of a treatment, in seconds."""
    rate = REQUEST_OR_DATAGRAM_RATE.read_level(levels)
    # Twice the time that shows the old rate: the outage may end within its first half.
    slow_flow_s = 2 * MIN_DATAGRAMS / float(rate) if rate != "none" else 0.0
    after_outage_s = max(MIN_TIME_AFTER_OUTAGE_S, slow_flow_s)
    return (longest_expected_silence_s(levels) + after_outage_s) / (1 - EVENT_BEGIN_SHARE)
