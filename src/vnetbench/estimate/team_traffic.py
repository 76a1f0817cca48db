"""The traffic of each link of a team in a trial: its share, how uneven the shares are, and predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vnetbench.estimate.metric import Metric
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import Sample, mapping_or_empty
from vnetbench.study.factors.directions import FORWARD, REVERSE

MIN_USED_SHARE = 0.01
"""A link is used if it carries at least this share of the bytes of its direction, weighted by its speed. LACP
itself and strays of flooded frames stay below it."""
DIRECTIONS = (FORWARD, REVERSE)
_DIRECTION_TEXTS = (
    (FORWARD, "forward", "from the first VM of each pair to the second"),
    (REVERSE, "reverse", "from the second VM of each pair to the first"),
)

TEAM_READY = Metric(
    "team_ready_s",
    "s",
    "Team ready",
    "lower",
    "time from the creation of the team's bonds, just before each trial, until all links may send; with "
    "LACP, until both ends have negotiated it. Teams in guests have it",
)
TEAM_METRICS = (
    TEAM_READY,
    *(
        metric
        for direction, short, text in _DIRECTION_TEXTS
        for metric in (
            Metric(
                f"team_links_used_{direction}",
                "1",
                f"Links used, {short}",
                "higher",
                f"number of links of the team that carry at least {MIN_USED_SHARE:.0%} of its bytes {text}; "
                "less for a link that is slower than their mean, and more for a faster one",
            ),
            Metric(
                f"team_busiest_link_{direction}_percent",
                "% of bytes",
                f"Busiest link, {short}",
                "lower",
                f"share of the team's bytes {text} that its busiest link carries",
            ),
            Metric(
                f"team_imbalance_{direction}",
                "1",
                f"Link imbalance, {short}",
                "lower",
                f"bytes {text} of the busiest link of the team minus those of the least busy one, divided by "
                "their mean over all links. 0: even; the number of links: one carries all (throughput "
                "imbalance of Alizadeh and others, CONGA, SIGCOMM 2014). Links of different speeds: bytes "
                "are divided by the speed of the link, so that 0 means that each carries its share of the "
                "capacity",
            ),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class DirectionTraffic:
    """What one link carries in one direction of a trial, without the warm-up."""

    bytes: int
    packets: int
    share: float | None
    """Share of the team's bytes in this direction, 0 to 1; None if the team carried nothing."""
    predicted_flows: int | None
    """Number of flows that the team's state just before the load puts on the link; None if unknown."""
    packets_received: int | None = None
    """Packets that the other end of the link received; None if nothing counts them there."""


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """One link of a team."""

    name: str
    speed_bps: int | None
    forward: DirectionTraffic
    reverse: DirectionTraffic
    is_enabled: bool | None = None
    """Whether the team may send on the link, just before the load; None if unknown."""
    is_attached: bool | None = None
    """Whether LACP gives the link to the aggregator that carries the traffic; None without LACP."""
    partner_mac: str | None = None
    """LACP's system ID of the other end, all zero if it sent no frame; None without LACP."""


@dataclass(frozen=True, slots=True)
class TeamTraffic:
    """A team in one trial."""

    name: str
    policy: str
    lacp: str
    links: tuple[LinkTraffic, ...]
    flows: int | None = None
    """Number of flows that were connected just before the load; None if unknown."""
    open_flows: Mapping[str, int] = field(default_factory=dict)
    """Direction to the number of flows whose link the state did not show."""
    advice: tuple[str, ...] = ()
    """What would spread the flows better, as sentences."""
    distinct_flows: int | None = None
    """Number of flows that the policy can distinguish; None if unknown."""
    same_parity_links: int | None = None
    """Number of links that flows with only even, or only odd, source ports reach. None if unknown, or if the
    source ports are mixed or do not matter."""
    far_end: str = ""
    """What the far end is: `bond` or `switch without a bond`; empty if unknown."""
    mac_moves: Mapping[str, int | None] = field(default_factory=dict)
    """How often an address moved to another port during the load, at the switch of each end (near, far)."""
    load_s: float = 0.0
    """Duration of the load that `bytes` and `packets` cover, in seconds."""
    far_policy: str | None = None
    """Policy of the far end, where it has one of its own; None if unknown or without one."""
    ready_s: float | None = None
    """Time from the creation of the bonds until all links might send; None if it was not measured."""

    def data_direction(self) -> str:
        """Return the direction that carries more bytes."""
        return max(DIRECTIONS, key=lambda each: sum(getattr(link, each).bytes for link in self.links))


def collect_team_traffic(part: SteadyPart) -> tuple[TeamTraffic, ...]:
    """Return the traffic of each team of a trial's testbed, from the counters of its links.

    A link's near end sends forward, and its far end sends in reverse. Of a host's team, only this end is
    counted: what it sends and what it receives. Teams that could not be read are left out.
    """
    samples_by_endpoint = {endpoint.name: samples for endpoint, samples in part.endpoints}
    teams = map(mapping_or_empty, _list_or_empty(part.trial.effective.get("teams")))
    return tuple(
        _team_traffic(team, samples_by_endpoint.get(str(team.get("endpoint")), part.host_samples))
        for team in teams
        if _list_or_empty(team.get("links"))
    )


def team_metrics(part: SteadyPart) -> Iterator[tuple[str, float]]:
    """Yield the values of TEAM_METRICS, for the first team of the testbed."""
    for team in collect_team_traffic(part)[:1]:
        if team.ready_s is not None:
            yield TEAM_READY.name, team.ready_s
        for direction in DIRECTIONS:
            carried = [getattr(link, direction).bytes for link in team.links]
            if total := sum(carried):
                weighted = [n / speed for n, speed in zip(carried, _relative_speeds(team), strict=True)]
                yield f"team_links_used_{direction}", sum(n >= MIN_USED_SHARE * total for n in weighted)
                yield f"team_busiest_link_{direction}_percent", 100 * max(carried) / total
                mean = sum(weighted) / len(weighted)
                yield f"team_imbalance_{direction}", (max(weighted) - min(weighted)) / mean


def _relative_speeds(team: TeamTraffic) -> list[float]:
    """Return the speed of each link, divided by their mean; 1 for all if the speed of one is unknown."""
    speeds = [float(link.speed_bps) for link in team.links if link.speed_bps]
    if len(speeds) < len(team.links):
        return [1.0] * len(team.links)
    return [speed * len(speeds) / sum(speeds) for speed in speeds]


def _team_traffic(team: Mapping[str, Any], samples: Sequence[Sample]) -> TeamTraffic:
    predicted = mapping_or_empty(team.get("predicted"))
    links = [mapping_or_empty(each) for each in _list_or_empty(team.get("links"))]
    forward, reverse = (
        _direction_traffic(
            [_link_counters(team, link, direction) for link in links], samples, predicted.get(direction)
        )
        for direction in DIRECTIONS
    )
    flows = predicted.get("flows")
    return TeamTraffic(
        str(team.get("name")),
        str(team.get("policy")),
        str(team.get("lacp")),
        tuple(
            _link_traffic(link, there, back)
            for link, there, back in zip(links, forward, reverse, strict=True)
        ),
        _whole_number(flows),
        {each: _whole_number(predicted.get(f"{each}_open")) or 0 for each in DIRECTIONS} if predicted else {},
        tuple(map(str, _list_or_empty(predicted.get("advice")))),
        _whole_number(predicted.get("distinct_flows")),
        _whole_number(predicted.get("same_parity_links")),
        str(team.get("far_end") or ""),
        {end: _whole_number(count) for end, count in mapping_or_empty(team.get("mac_moves")).items()},
        sum(sample.interval_s for sample in samples),
        str(team["far_policy"]) if team.get("far_policy") else None,
        _finite_number(team.get("ready_s")),
    )


def _link_traffic(
    link: Mapping[str, Any], forward: DirectionTraffic, reverse: DirectionTraffic
) -> LinkTraffic:
    lacp, enabled = mapping_or_empty(link.get("lacp")), link.get("enabled")
    return LinkTraffic(
        str(link.get("name")),
        _whole_number(link.get("speed_bps")),
        forward,
        reverse,
        enabled if isinstance(enabled, bool) else None,
        lacp.get("is_attached") is True if lacp else None,
        str(lacp["partner_mac"]) if lacp.get("partner_mac") else None,
    )


class _LinkCounters(NamedTuple):
    """Where the counters of one direction of a link are."""

    interface: str
    prefix: str
    """`tx` if the interface sends in this direction, `rx` if it receives."""
    receiver: str | None
    """Interface that receives what passes the link; None if nothing counts it."""


def _link_counters(team: Mapping[str, Any], link: Mapping[str, Any], direction: str) -> _LinkCounters:
    if "endpoint" not in team:
        sender, receiver = ("near", "far") if direction == FORWARD else ("far", "near")
        return _LinkCounters(str(link.get(sender)), "tx", str(link.get(receiver)))
    interface = str(link.get("interface"))
    sends = (team.get("side") == "a") == (direction == FORWARD)
    return _LinkCounters(interface, "tx", None) if sends else _LinkCounters(interface, "rx", interface)


def _direction_traffic(
    links: Sequence[_LinkCounters], samples: Sequence[Sample], predicted: object
) -> list[DirectionTraffic]:
    """Return what passed each link in one direction."""
    flows = predicted if isinstance(predicted, list) and len(predicted) == len(links) else None
    carried = [_sum_counter(each.interface, f"{each.prefix}_bytes", samples) for each in links]
    total = sum(carried)
    return [
        DirectionTraffic(
            count,
            _sum_counter(each.interface, f"{each.prefix}_packets", samples),
            count / total if total else None,
            None if flows is None else _whole_number(flows[number]),
            None if each.receiver is None else _sum_counter(each.receiver, "rx_packets", samples),
        )
        for number, (each, count) in enumerate(zip(links, carried, strict=True))
    ]


def _sum_counter(interface: str, counter: str, samples: Sequence[Sample]) -> int:
    counts = (
        x.observation.interface_counters.get(interface, {}).get(counter, 0) for x in samples if x.observation
    )
    return round(sum(count for count in counts if isinstance(count, int | float)))


def _finite_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _whole_number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _list_or_empty(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
