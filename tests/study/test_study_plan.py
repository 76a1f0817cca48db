"""The plan of a study: its treatments, and their order in each block."""

from __future__ import annotations

import statistics

from hypothesis import given
from hypothesis import strategies as st

from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Plan, Study, Treatment
from vnetbench.study.plan import make_plan, shuffle_block


def study(rest: str = "") -> Study:
    return parse_study(f'title = "x"\n[factors]\nstreams = [1, 4]\nmtu = [1500, 9000]\n{rest}', None)


def make_numbered_plan(count: int, seed: int = 7) -> Plan:
    return Plan(tuple(Treatment(i, {"streams": i}) for i in range(count)), seed)


def test_treatments_are_all_combinations_in_the_order_of_the_file() -> None:
    plan = make_plan(study(), 7)
    assert [t.index for t in plan.treatments] == [0, 1, 2, 3]
    assert [dict(t.factors) for t in plan.treatments] == [
        {"streams": 1, "mtu": 1500},
        {"streams": 1, "mtu": 9000},
        {"streams": 4, "mtu": 1500},
        {"streams": 4, "mtu": 9000},
    ]


def test_an_exclusion_removes_treatments_that_match_all_of_its_levels() -> None:
    plan = make_plan(study("[[exclude]]\nstreams = 4\nmtu = [9000]\n"), 7)
    assert {"streams": 4, "mtu": 9000} not in [dict(t.factors) for t in plan.treatments]
    assert [t.index for t in plan.treatments] == [0, 1, 2]


def test_a_plan_keeps_its_seed_and_draws_one_if_none_is_given() -> None:
    assert make_plan(study(), 7).seed == 7
    assert len({make_plan(study(), None).seed for _ in range(5)}) > 1


def test_a_block_runs_every_treatment_once() -> None:
    assert sorted(shuffle_block(make_numbered_plan(20), 3, range(20))) == list(range(20))


def test_the_same_seed_and_block_give_the_same_order() -> None:
    assert shuffle_block(make_numbered_plan(6), 0, range(6)) == shuffle_block(
        make_numbered_plan(6), 0, range(6)
    )
    # This order must never change: a later version of the bench resumes results files of today.
    assert shuffle_block(make_numbered_plan(6), 0, range(6)) == (5, 1, 2, 0, 3, 4)


@given(st.integers(0, 2**32), st.integers(0, 50), st.sets(st.integers(0, 29)))
def test_a_subset_of_a_block_keeps_the_order_of_the_whole_block(
    seed: int, block: int, members: set[int]
) -> None:
    whole = shuffle_block(make_numbered_plan(30, seed), block, range(30))
    assert shuffle_block(make_numbered_plan(30, seed), block, members) == tuple(
        i for i in whole if i in members
    )


def test_each_treatment_has_the_same_mean_position_over_many_blocks() -> None:
    plan = make_numbered_plan(10)
    positions = [[shuffle_block(plan, block, range(10)).index(i) for block in range(1000)] for i in range(10)]
    # The mean of 1000 positions of 0..9 has a standard error of 0.09; 0.4 is more than four of them.
    assert all(abs(statistics.mean(own) - 4.5) < 0.4 for own in positions)
