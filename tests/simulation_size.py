"""Sizes of simulations: a quick one in `make test`, the long one in `make test-long`.

A simulation counts the campaigns in which an estimate is right. The long one compares this count with the
share that the method must reach. The count of few campaigns varies more by chance. So the quick one fails
only at a count that a method with this share has with a probability below `ERROR_RATE` (exact binomial
quantile). It still finds large errors. A method that must be right in 93 % of `QUICK_CAMPAIGNS` but is right
in 80 % fails with a probability of 99 %. One that may be wrong in 5 % but is wrong in 16 % fails with 98 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from scipy import stats

QUICK_CAMPAIGNS = 200
ERROR_RATE = 0.001


@dataclass(frozen=True)
class SimulationSize:
    """The number of simulated campaigns, and the bounds on counts of them."""

    campaigns: int
    is_quick: bool

    def check_at_least(self, share: float, count: int) -> None:
        """Fail unless the count has at least this share of the campaigns."""
        total = self.campaigns
        lowest = stats.binom.ppf(ERROR_RATE, total, share) if self.is_quick else share * total
        assert count >= lowest, f"{count} of {total} campaigns, but a share of {share:g} is required"

    def check_at_most(self, share: float, count: int) -> None:
        """Fail unless the count has at most this share of the campaigns."""
        total = self.campaigns
        highest = stats.binom.isf(ERROR_RATE, total, share) if self.is_quick else share * total
        assert count <= highest, f"{count} of {total} campaigns, but a share of {share:g} is the maximum"


def quick_and_long(long_campaigns: int, quick_campaigns: int = QUICK_CAMPAIGNS) -> pytest.MarkDecorator:
    """Run a test with both sizes, as its argument `size`; the long one has the mark `long`."""
    return pytest.mark.parametrize(
        "size",
        [
            pytest.param(SimulationSize(quick_campaigns, is_quick=True), id="quick"),
            pytest.param(SimulationSize(long_campaigns, is_quick=False), id="long", marks=pytest.mark.long),
        ],
    )
