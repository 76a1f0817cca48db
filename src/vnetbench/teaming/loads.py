"""The load of each uplink in one direction, and what the team gives to the flows together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.teaming.prediction import Prediction
from vnetbench.teaming.team import Team


@dataclass(frozen=True)
class UplinkLoad:
    """The flows of one uplink.

    Attributes:
        certain_flows: Flows that certainly use it, alone or with others.
        expected_flows: Expected load in flows: a flow whose uplink is open counts as a share of each of its
            candidates, a flow in turn as a share of each uplink, a flow with copies in full on each.
    """

    certain_flows: int
    expected_flows: float


@dataclass(frozen=True)
class TeamLoad:
    """The load of a team in one direction.

    Attributes:
        uplinks: Load of each member, in the team's order.
        least_used: Smallest possible number of used uplinks, as far as single flows say.
        most_used: Largest possible number of used uplinks.
        sum_bps: Speed of all uplinks that are up; None if a speed is unknown.
        least_bps: Smallest total of flows without a limit of their own, in bit/s; None as above.
        most_bps: Largest such total.
        equal_flows_bps: Total if every flow gets the same rate; None if an uplink is open or a speed unknown.
    """

    uplinks: tuple[UplinkLoad, ...]
    least_used: int
    most_used: int
    sum_bps: int | None
    least_bps: int | None
    most_bps: int | None
    equal_flows_bps: float | None

    @property
    def is_certain(self) -> bool:
        """Whether all predictions name their uplinks."""
        return self.equal_flows_bps is not None or self.least_used == self.most_used


def compute_load(predictions: Sequence[Prediction], team: Team) -> TeamLoad:
    """Return the load that the predictions give, with speeds where every usable uplink has one."""
    certain, expected = [0] * len(team.uplinks), [0.0] * len(team.uplinks)
    open_flows: Counter[tuple[int, ...]] = Counter()
    groups: set[tuple[str, tuple[int, ...]]] = set()
    has_copies = False
    for each in predictions:
        weight = 1.0 if each.spread == "copy on each" else 1 / len(each.candidates)
        is_fixed = each.uplink is not None or each.spread != "one"
        has_copies |= each.spread == "copy on each"
        for uplink in each.candidates:
            expected[uplink] += weight
            certain[uplink] += is_fixed
        if is_fixed:
            continue
        if each.group is None or (each.group, each.candidates) not in groups:
            groups.add((each.group or "", each.candidates))
            open_flows[each.candidates] += 1
    used = {i for i, count in enumerate(certain) if count}
    least = used or (_best_cover(open_flows, team) if open_flows else set())
    most = used | _reachable_uplinks(open_flows, used, team)
    speeds = [team.uplinks[i].speed_bps for i in team.usable]
    loads = tuple(map(UplinkLoad, certain, expected))
    if None in speeds:
        return TeamLoad(loads, len(least), len(most), None, None, None, None)
    totals = [_sum_speeds(team, links, has_copies) for links in (least, most)]
    equal = None if open_flows else _equal_flows_total(expected, team, len(predictions))
    return TeamLoad(loads, len(least), len(most), sum(filter(None, speeds)), totals[0], totals[1], equal)


def _best_cover(open_flows: Counter[tuple[int, ...]], team: Team) -> set[int]:
    """Return the slowest single uplink that some open flow may use: at least that much is used."""
    candidates = {uplink for each in open_flows for uplink in each}
    return {min(candidates, key=lambda i: team.uplinks[i].speed_bps or 0)}


def _reachable_uplinks(open_flows: Counter[tuple[int, ...]], used: set[int], team: Team) -> set[int]:
    """Return the fastest set of further uplinks that the open flows can use at once, each by one flow.

    It is a matching of uplinks to groups of flows with the same candidates, found by augmenting paths. Fast
    uplinks come first, which gives the largest sum, because matchable sets form a matroid.
    """
    matched: dict[tuple[int, ...], list[int]] = {group: [] for group in open_flows}

    def find_place(uplink: int, visited: set[tuple[int, ...]]) -> bool:
        for group, uplinks in matched.items():
            if uplink not in group or group in visited:
                continue
            visited.add(group)
            if len(uplinks) < open_flows[group]:
                uplinks.append(uplink)
                return True
            for other in list(uplinks):
                if find_place(other, visited):
                    uplinks[uplinks.index(other)] = uplink
                    return True
        return False

    free = sorted(
        {uplink for group in open_flows for uplink in group} - used,
        key=lambda i: -(team.uplinks[i].speed_bps or 0),
    )
    return {uplink for uplink in free if find_place(uplink, set())}


def _sum_speeds(team: Team, links: set[int], has_copies: bool) -> int:
    speeds = [team.uplinks[i].speed_bps or 0 for i in links]
    return min(speeds, default=0) if has_copies else sum(speeds)


def _equal_flows_total(expected: Sequence[float], team: Team, count: int) -> float:
    """Return the number of flows times the rate at which the first uplink is full."""
    rates = [
        (team.uplinks[i].speed_bps or 0) / load
        for i, load in enumerate(expected)
        if load and team.uplinks[i].is_up
    ]
    return count * min(rates) if rates else 0.0
