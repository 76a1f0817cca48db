"""Cell means without block effects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.comparisons.simulated import GOODPUT, campaign, treatment
from vnetbench.explain.comparisons.cell_means import estimate_cell_means
from vnetbench.study.model import FactorLevels

pytestmark = pytest.mark.pure

BAD = 4
"""Blocks, of nine, in which all treatments are half as fast."""


def logs(treatments: int) -> list[float]:
    """Return cell means of equal treatments. The first one did not run in the bad blocks."""
    values = [5e9] * BAD + [1e10] * 5
    all_of_them = [treatment(index, {"streams": index + 1}, values) for index in range(treatments)]
    first = replace(all_of_them[0], points=all_of_them[0].points[BAD:])
    levels = tuple(range(1, treatments + 1))
    summary = campaign([FactorLevels("streams", levels)], [first, *all_of_them[1:]])
    return [cell.log_mean for cell in estimate_cell_means(summary, GOODPUT)]


def test_a_treatment_that_missed_bad_blocks_gets_no_advantage() -> None:
    assert logs(6) == pytest.approx([logs(6)[0]] * 6, abs=0.02)


def test_blocks_with_few_treatments_have_no_block_effect() -> None:
    first, *others = logs(3)
    assert all(first - each > 0.2 for each in others)


def test_a_treatment_with_mostly_zero_values_has_no_cell_mean() -> None:
    levels = FactorLevels("streams", (1, 2))
    for dead, count in ((1, 2), (3, 1)):
        often = treatment(0, {"streams": 1}, [0.0] * dead + [1e9] * (9 - dead))
        summary = campaign([levels], [often, treatment(1, {"streams": 2}, [1e9] * 9)])
        assert len(estimate_cell_means(summary, GOODPUT)) == count
