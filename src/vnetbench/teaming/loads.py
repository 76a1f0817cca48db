"""The load of each uplink in one direction, and what the team gives to the flows together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from vnetbench.teaming.prediction import Prediction
from vnetbench.teaming.team import Team

_MAX_COVER_STEPS = 2000


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
        least_used: Smallest possible number of used uplinks; a lower bound if there are very many cases.
        most_used: Largest possible number of used uplinks.
        sum_bps: Speed of all uplinks that are up; None if a speed is unknown.
        least_bps: Smallest total of flows without a limit of their own, in bit/s; None as above.
        most_bps: Largest such total.
        equal_flows_bps: Total if every flow gets the same rate; None if an uplink is open or a speed unknown.
        used_by_formula: Number of used uplinks by each published formula, if flows depend on the formula.
    """

    uplinks: tuple[UplinkLoad, ...]
    least_used: int
    most_used: int
    sum_bps: int | None
    least_bps: int | None
    most_bps: int | None
    equal_flows_bps: float | None
    used_by_formula: tuple[int, ...] = ()


def compute_load(predictions: Sequence[Prediction], team: Team) -> TeamLoad:
    """Return the load that the predictions give, with speeds where every usable uplink has one."""
    certain, expected = [0] * len(team.uplinks), [0.0] * len(team.uplinks)
    cases = Counter(map(_case, predictions))
    for (candidates, is_copied, is_fixed), count in cases.items():
        for uplink in candidates:
            expected[uplink] += count * (1.0 if is_copied else 1 / len(candidates))
            certain[uplink] += count * is_fixed
    used = {i for i, count in enumerate(certain) if count}
    open_flows = _count_open_flows(predictions)
    has_copies = any(is_copied for _, is_copied, _ in cases)
    speeds = [team.uplinks[i].speed_bps for i in team.usable]
    rates = [0] * len(team.uplinks) if None in speeds else [u.speed_bps or 0 for u in team.uplinks]
    by_formula = _used_by_formula(predictions, used) if open_flows else []
    if by_formula:
        counts = [len(each) for each in by_formula]
        totals = [_sum_speeds(rates, each, has_copies) for each in by_formula]
        least, most, least_bps, most_bps = min(counts), max(counts), min(totals), max(totals)
    else:
        sets = {frozenset(each) for each in open_flows if used.isdisjoint(each)}
        reachable = used | _reachable_uplinks(open_flows, used, team)
        least = len(used) + smallest_cover(sets, [1] * len(rates))
        least_bps = _sum_speeds(rates, used, has_copies) + smallest_cover(sets, rates)
        most, most_bps = len(reachable), _sum_speeds(rates, reachable, has_copies)
    loads = tuple(map(UplinkLoad, certain, expected))
    used_by_formula = tuple(map(len, by_formula))
    if None in speeds:
        return TeamLoad(loads, least, most, None, None, None, None, used_by_formula)
    equal = None if open_flows else _equal_flows_total(expected, team, len(predictions))
    sum_bps = sum(filter(None, speeds))
    return TeamLoad(loads, least, most, sum_bps, least_bps, most_bps, equal, used_by_formula)


def _case(prediction: Prediction) -> tuple[tuple[int, ...], bool, bool]:
    """Return the candidates, whether each carries a copy, and whether all of them certainly send."""
    is_fixed = prediction.uplink is not None or prediction.spread != "one"
    return prediction.candidates, prediction.spread == "copy on each", is_fixed


def _count_open_flows(predictions: Sequence[Prediction]) -> Counter[tuple[int, ...]]:
    """Return how many independent flows have each set of candidates; a group of flows counts once."""
    counts: Counter[tuple[int, ...]] = Counter()
    groups: set[tuple[str, tuple[int, ...]]] = set()
    for each in predictions:
        if each.uplink is not None or each.spread != "one":
            continue
        if each.group is None or (each.group, each.candidates) not in groups:
            groups.add((each.group or "", each.candidates))
            counts[each.candidates] += 1
    return counts


def _used_by_formula(predictions: Sequence[Prediction], used: set[int]) -> list[set[int]]:
    """Return the used uplinks by each formula; nothing if flows are open for another reason."""
    open_ones = [each for each in predictions if each.uplink is None and each.spread == "one"]
    if not all(each.uplink_by_formula for each in open_ones):
        return []
    return [
        used.union(column) for column in zip(*(each.uplink_by_formula for each in open_ones), strict=True)
    ]


def smallest_cover(sets: Collection[frozenset[int]], weights: Sequence[int]) -> int:
    """Return the smallest weight of uplinks such that every set contains one of them.

    The search is exact for up to `_MAX_COVER_STEPS` cases. Beyond that, the result is a lower bound: disjoint
    sets need an uplink each.
    """
    smallest = [each for each in sets if not any(other < each for other in sets)]
    best = sum(weights[i] for i in frozenset().union(*smallest))
    steps = 0

    def search(left: list[frozenset[int]], weight: int) -> None:
        nonlocal best, steps
        steps += 1
        if steps > _MAX_COVER_STEPS or weight + _disjoint_weight(left, weights) >= best:
            return
        if not left:
            best = weight
            return
        first: frozenset[int] = min(left, key=len)
        for uplink in sorted(first, key=weights.__getitem__):
            search([each for each in left if uplink not in each], weight + weights[uplink])

    search(smallest, 0)
    return _disjoint_weight(smallest, weights) if steps > _MAX_COVER_STEPS else best


def _disjoint_weight(sets: Sequence[frozenset[int]], weights: Sequence[int]) -> int:
    """Return the smallest weights of sets that share no uplink, chosen greedily: no cover weighs less."""
    total, taken = 0, set[int]()
    for each in sorted(sets, key=len):
        if taken.isdisjoint(each):
            taken |= each
            total += min(weights[i] for i in each)
    return total


def _reachable_uplinks(open_flows: Counter[tuple[int, ...]], used: set[int], team: Team) -> set[int]:
    """Return the fastest set of further uplinks that the open flows can use at once, each by one flow.

    It is a matching of uplinks to groups of flows with the same candidates, found by augmenting paths. Fast
    uplinks come first, which gives the largest sum, because matchable sets form a matroid.
    """
    matched: dict[tuple[int, ...], list[int]] = {group: [] for group in open_flows}

    def find_group(uplink: int, visited: set[tuple[int, ...]]) -> bool:
        for group, uplinks in matched.items():
            if uplink not in group or group in visited:
                continue
            visited.add(group)
            if len(uplinks) < open_flows[group]:
                uplinks.append(uplink)
                return True
            for other in list(uplinks):
                if find_group(other, visited):
                    uplinks[uplinks.index(other)] = uplink
                    return True
        return False

    free = sorted(
        {uplink for group in open_flows for uplink in group} - used,
        key=lambda i: -(team.uplinks[i].speed_bps or 0),
    )
    return {uplink for uplink in free if find_group(uplink, set())}


def _sum_speeds(rates: Sequence[int], uplinks: Collection[int], has_copies: bool) -> int:
    speeds = [rates[i] for i in uplinks]
    return min(speeds, default=0) if has_copies else sum(speeds)


def _equal_flows_total(expected: Sequence[float], team: Team, count: int) -> float:
    """Return the number of flows times the rate at which the first uplink is full."""
    rates = [
        (team.uplinks[i].speed_bps or 0) / load
        for i, load in enumerate(expected)
        if load and team.uplinks[i].is_up
    ]
    return count * min(rates) if rates else 0.0
