"""Expected spread of random flows: closed forms, exact small cases and simulation."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetbench.teaming.expectation import (
    busiest_uplink_distribution,
    expect_random_flows,
    used_uplinks_distribution,
)
from vnetbench.teaming.loads import compute_load, smallest_cover
from vnetbench.teaming.prediction import Prediction, certain, undecided
from vnetbench.teaming.team import Team, Uplink, make_team

pytestmark = pytest.mark.pure


@given(st.integers(1, 6), st.integers(1, 4))
def test_both_distributions_count_all_cases(flows: int, uplinks: int) -> None:
    cases = list(product(range(uplinks), repeat=flows))
    used = Counter(len(set(case)) for case in cases)
    busiest = Counter(max(Counter(case).values()) for case in cases)
    for count, probability in enumerate(used_uplinks_distribution(flows, uplinks)):
        assert probability == pytest.approx(used[count] / len(cases))
    for count, probability in enumerate(busiest_uplink_distribution(flows, uplinks)):
        assert probability == pytest.approx(busiest[count] / len(cases), abs=1e-12)


@given(st.integers(1, 64), st.integers(1, 16))
def test_the_mean_of_used_uplinks_has_its_closed_form(flows: int, uplinks: int) -> None:
    expectation = expect_random_flows(flows, [1 / uplinks] * uplinks, [10**9] * uplinks)
    closed = uplinks * (1 - (1 - 1 / uplinks) ** flows)
    assert expectation.is_exact
    assert expectation.mean_used == pytest.approx(closed)
    assert expectation.mean_total_bps == pytest.approx(closed * 1e9)
    mean = sum(i * p for i, p in enumerate(expectation.used_probabilities))
    assert mean == pytest.approx(closed)
    assert sum(busiest_uplink_distribution(flows, uplinks)) == pytest.approx(1)


def test_simulated_distributions_agree_with_exact_ones() -> None:
    exact = expect_random_flows(20, [0.25] * 4, [None] * 4)
    shares = [0.25 + 1e-4, 0.25 - 1e-4, 0.25, 0.25]  # Not even, so it is simulated.
    simulated = expect_random_flows(20, shares, [None] * 4)
    assert exact.is_exact and not simulated.is_exact and exact.mean_total_bps is None
    assert simulated.mean_busiest_share == pytest.approx(exact.mean_busiest_share, abs=0.005)
    assert simulated.busiest_share_90 == exact.busiest_share_90
    assert np.allclose(simulated.used_probabilities, exact.used_probabilities, atol=0.01)


def test_uneven_buckets_favour_the_first_links() -> None:
    even = expect_random_flows(8, [1 / 3] * 3, [None] * 3)
    uneven = expect_random_flows(8, [3 / 8, 3 / 8, 2 / 8], [None] * 3)
    assert uneven.mean_used < even.mean_used


def test_the_load_of_known_flows_counts_uplinks_and_speeds() -> None:
    team = Team((Uplink("a", 10**10), Uplink("b", 10**9), Uplink("c", 10**9)))
    load = compute_load([certain(0), certain(1), certain(1)], team)
    assert (load.least_used, load.most_used, load.sum_bps) == (2, 2, 12 * 10**9)
    assert (load.least_bps, load.most_bps) == (11 * 10**9, 11 * 10**9)
    # The two flows of b get 0.5 Gbit/s each, so three equal flows get 1.5 Gbit/s.
    assert load.equal_flows_bps == pytest.approx(1.5e9)


def test_open_flows_give_a_range_that_matching_bounds() -> None:
    team = make_team(4, 10**9)
    load = compute_load(
        [certain(0), undecided((0, 1), "x"), undecided((0, 1), "x"), undecided((1, 2), "x")], team
    )
    # The flow of uplinks 1 and 2 takes neither of uplink 0.
    assert (load.least_used, load.most_used) == (2, 3)
    assert (load.least_bps, load.most_bps) == (2 * 10**9, 3 * 10**9)
    assert load.equal_flows_bps is None
    assert [each.expected_flows for each in load.uplinks] == [2.0, 1.5, 0.5, 0.0]


def test_a_matching_replaces_an_earlier_choice() -> None:
    # Uplink 1 may take either flow, uplink 0 only the first: both are used if 1 gives way.
    load = compute_load([undecided((0, 1), "x"), undecided((1, 2), "x")], make_team(3))
    assert load.most_used == 2
    team = Team((Uplink("a", 1), Uplink("b", 100), Uplink("c", 10)))
    load = compute_load([undecided((0, 1), "x"), undecided((1, 2), "x")], team)
    assert load.most_bps == 110


def test_open_flows_of_one_group_share_an_uplink() -> None:
    team = make_team(3, 10**9)
    load = compute_load([undecided((0, 1, 2), "x", "port 7")] * 5, team)
    assert (load.least_used, load.most_used, load.most_bps) == (1, 1, 10**9)


def test_copies_give_the_speed_of_the_slowest_uplink_and_turns_that_of_all() -> None:
    team = Team((Uplink("a", 10**9), Uplink("b", 10**8)))
    copies = Prediction(None, (0, 1), depends_on="x", spread="copy on each")
    turns = Prediction(None, (0, 1), depends_on="x", spread="packets in turn")
    assert compute_load([copies], team).most_bps == 10**8
    assert compute_load([turns, turns], team).most_bps == 11 * 10**8
    assert [each.expected_flows for each in compute_load([turns, turns], team).uplinks] == [1.0, 1.0]


def test_flows_without_a_common_candidate_need_an_uplink_each() -> None:
    team = Team((Uplink("a", 10), Uplink("b", 1), Uplink("c", 5), Uplink("d", 7)))
    load = compute_load([undecided((0, 1), "x"), undecided((2, 3), "x")], team)
    assert (load.least_used, load.most_used) == (2, 2)
    assert (load.least_bps, load.most_bps) == (6, 17)
    common = compute_load([undecided((0, 1), "x"), undecided((0, 2), "x"), undecided((0, 3), "x")], team)
    assert (common.least_used, common.least_bps) == (1, 10)


@given(
    st.sets(st.frozensets(st.integers(0, 5), min_size=1, max_size=3), max_size=6),
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
)
def test_the_smallest_cover_is_that_of_all_selections(sets: set[frozenset[int]], weights: list[int]) -> None:
    selections = (frozenset(i for i in range(6) if bits >> i & 1) for bits in range(64))
    covers = [each for each in selections if all(each & group for group in sets)]
    assert smallest_cover(sets, weights) == min(sum(weights[i] for i in each) for each in covers)


def test_one_formula_holds_for_all_flows() -> None:
    def ambiguous(*uplinks: int) -> Prediction:
        return Prediction(None, tuple(sorted(uplinks)), True, "x", uplink_by_formula=uplinks)

    team = make_team(4, 10**9)
    load = compute_load([ambiguous(0, 1), ambiguous(0, 2), ambiguous(0, 3)], team)
    assert (load.least_used, load.most_used, load.used_by_formula) == (1, 3, (1, 3))
    assert (load.least_bps, load.most_bps) == (10**9, 3 * 10**9)
    swapped = compute_load([ambiguous(0, 1), ambiguous(1, 0)], team)
    assert (swapped.least_used, swapped.most_used) == (2, 2)
