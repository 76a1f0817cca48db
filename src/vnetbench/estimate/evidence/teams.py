"""Evidence of teams: full, idle and silent links, what the flows' hash allows, and what bundles the links."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import EvidenceValues, percent, ratio
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT, EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.team_traffic import (
    MIN_USED_SHARE,
    DirectionTraffic,
    LinkTraffic,
    TeamTraffic,
    collect_team_traffic,
)
from vnetbench.study.factors.directions import REVERSE
from vnetbench.study.factors.team_factors import TEAM_POLICIES
from vnetbench.study.teams import POLICIES_WITHOUT_CHANNEL

MIN_FULL_SHARE = 0.9
"""A link is full if it carries at least this share of its speed. Bursts and timeouts leave the rest empty."""
_NO_CHANNEL = "switch without a bond"
_NOT_NEGOTIATED = "not negotiated"
_BYTES = ("interfaces[].tx_bytes",)
_STATE = ("effective.teams",)

TEAM_EVIDENCE_METRICS = (
    EvidenceMetric("team_links", "1", "links of the team", "number of links of the team", _STATE),
    EvidenceMetric(
        "team_flows",
        "1",
        "flows over the team",
        "number of flows of the load that were connected just before it started",
        _STATE,
    ),
    EvidenceMetric(
        "team_distinct_flows",
        "1",
        "flows that the policy can distinguish",
        "number of flows of the load that differ in an address or port that the team's policy reads",
        _STATE,
    ),
    EvidenceMetric(
        "team_used_links",
        "1",
        "links of the team that carry data",
        f"number of links that carry at least {MIN_USED_SHARE:.0%} of the team's bytes, in the direction "
        "with more bytes",
        _BYTES,
    ),
    EvidenceMetric(
        "team_idle_links",
        "1",
        "idle links of the team",
        "number of the other links of the team",
        _BYTES,
    ),
    EvidenceMetric(
        "team_fullest_link_percent",
        "% of its speed",
        "use of the fullest link of the team",
        "rate of a link of the team relative to its speed, of the link with the highest share",
        (*_BYTES, *_STATE),
    ),
    EvidenceMetric(
        "team_capacity_used_percent",
        "% of all links",
        "used capacity of the team",
        "rate over all links of the team relative to the sum of their speeds",
        (*_BYTES, *_STATE),
    ),
    EvidenceMetric(
        "team_slow_full_links",
        "1",
        "full links that are slower than others",
        f"number of links of the team that carry at least {MIN_FULL_SHARE:.0%} of their speed, and are "
        "slower than its fastest link",
        (*_BYTES, *_STATE),
    ),
    EvidenceMetric(
        "team_links_without_lacp",
        "1",
        "links that LACP leaves out",
        "number of links outside of the aggregator that carries the traffic; all links if LACP is not "
        "negotiated; 0 without LACP",
        _STATE,
    ),
    EvidenceMetric(
        "team_silent_links",
        "1",
        "links that lose everything",
        "number of links with predicted flows that the team may use, and whose far end receives less than "
        f"{MIN_USED_SHARE:.0%} of the team's packets",
        ("interfaces[].rx_packets", *_STATE),
    ),
    EvidenceMetric(
        "team_links_missed_by_parity",
        "1",
        "links that even or odd source ports cannot reach",
        "number of links that the policy gives no flow with this parity, if the source ports of all flows "
        "are even, or all are odd. 0 if they are mixed or do not matter",
        _STATE,
    ),
    EvidenceMetric(
        "team_far_mac_moves_per_s",
        "1/s",
        "moves of addresses at the far switch",
        "times per second that the switch at the far end learns an address on another port",
        ("effective.teams[].mac_moves.far",),
    ),
    EvidenceMetric(
        "team_near_mac_moves_per_s",
        "1/s",
        "moves of addresses at the near switch",
        "times per second that the switch at the near end learns an address on another port",
        ("effective.teams[].mac_moves.near",),
    ),
    EvidenceMetric(
        "team_flows_with_open_answers",
        "1",
        "flows whose answers follow a moving address",
        "number of flows whose address takes several links, while the far switch does not bundle them: it "
        "sends answers over the link where it last saw the address. Absent without predicted flows",
        _STATE,
    ),
    EvidenceMetric(
        "team_hash_without_channel",
        YES_OR_NO_UNIT,
        "hash policy without a channel on the far switch",
        "1 if the policy hashes IP addresses or ports, and the far end does not bundle the links",
        _STATE,
    ),
    EvidenceMetric(
        "team_channel_without_hash",
        YES_OR_NO_UNIT,
        "channel on the far switch without a hash policy",
        "1 if the far end bundles the links, and the near end has a policy that needs separate links",
        _STATE,
    ),
)


def team_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of TEAM_EVIDENCE_METRICS, for the first team of the testbed; empty without one."""
    teams = collect_team_traffic(data.steady_part)
    if not teams:
        return {}
    team = teams[0]
    sent = [getattr(link, team.data_direction()) for link in team.links]
    used = sum((each.share or 0.0) >= MIN_USED_SHARE for each in sent)
    links = len(team.links)
    return {
        "team_links": links,
        "team_flows": team.flows,
        "team_distinct_flows": team.distinct_flows,
        "team_used_links": used,
        "team_idle_links": links - used,
        **_speed_values(team, sent),
        "team_links_without_lacp": _count_links_without_lacp(team),
        "team_silent_links": _count_silent_links(team),
        "team_links_missed_by_parity": links - (team.same_parity_links or links),
        **_channel_values(team, data.steady_part.trial.idle_s + data.steady_part.trial.duration_s),
    }


def _speed_values(team: TeamTraffic, sent: Sequence[DirectionTraffic]) -> EvidenceValues:
    """Return the values that need the speed of each link."""
    speeds = [link.speed_bps for link in team.links if link.speed_bps]
    if len(speeds) < len(team.links) or not team.load_s:
        return {}
    rates_bps = [8 * each.bytes / team.load_s for each in sent]
    slow = [
        rate >= MIN_FULL_SHARE * speed and speed < max(speeds)
        for rate, speed in zip(rates_bps, speeds, strict=True)
    ]
    return {
        "team_fullest_link_percent": max(
            100 * rate / speed for rate, speed in zip(rates_bps, speeds, strict=True)
        ),
        "team_capacity_used_percent": percent(sum(rates_bps), sum(speeds)),
        "team_slow_full_links": sum(slow),
    }


def _count_links_without_lacp(team: TeamTraffic) -> int:
    if team.lacp == _NOT_NEGOTIATED:
        return len(team.links)
    return sum(link.is_attached is False for link in team.links)


def _count_silent_links(team: TeamTraffic) -> int | None:
    """Return the number of links with predicted flows that carry nothing.

    None without predictions, or if nothing counts what arrives.
    """
    direction = team.data_direction()
    traffic: list[DirectionTraffic] = [getattr(link, direction) for link in team.links]
    arrived = [each.packets_received for each in traffic if each.packets_received is not None]
    if len(arrived) < len(traffic) or any(each.predicted_flows is None for each in traffic):
        return None
    least = MIN_USED_SHARE * sum(arrived)
    ends = zip(team.links, traffic, arrived, strict=True)
    return sum(_is_silent(link, each, is_empty=count < least) for link, each, count in ends)


def _is_silent(link: LinkTraffic, traffic: DirectionTraffic, *, is_empty: bool) -> bool:
    return bool(traffic.predicted_flows) and is_empty and link.is_enabled is not False


def _channel_values(team: TeamTraffic, trial_s: float) -> EvidenceValues:
    rates = {
        f"team_{end}_mac_moves_per_s": None if count is None else ratio(count, trial_s)
        for end, count in team.mac_moves.items()
    }
    if not team.far_end or team.policy not in TEAM_POLICIES:
        return rates
    has_channel = team.far_end != _NO_CHANNEL
    open_answers = None if team.flows is None or has_channel else team.open_flows.get(REVERSE)
    needs_channel = team.policy not in POLICIES_WITHOUT_CHANNEL
    # Without a policy of its own, a far end that bundles the links hashes.
    far_hashes = has_channel and team.far_policy not in POLICIES_WITHOUT_CHANNEL
    return {
        **rates,
        "team_flows_with_open_answers": open_answers,
        "team_hash_without_channel": needs_channel and not has_channel,
        "team_channel_without_hash": far_hashes and not needs_channel and team.lacp == "off",
    }
