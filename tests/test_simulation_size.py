"""Quick simulations pass a right method and fail a wrong one."""

from __future__ import annotations

import pytest
from scipy import stats

from tests.simulation_size import ERROR_RATE, QUICK_CAMPAIGNS, SimulationSize

pytestmark = pytest.mark.pure

QUICK = SimulationSize(QUICK_CAMPAIGNS, is_quick=True)


def lowest_accepted(size: SimulationSize, share: float) -> int:
    return next(
        count for count in range(size.campaigns + 1) if is_accepted(size.check_at_least, share, count)
    )


def highest_accepted(size: SimulationSize, share: float) -> int:
    counts = range(size.campaigns, -1, -1)
    return next(count for count in counts if is_accepted(size.check_at_most, share, count))


def is_accepted(check: object, share: float, count: int) -> bool:
    assert callable(check)
    try:
        check(share, count)
    except AssertionError:
        return False
    return True


def test_a_method_with_the_required_share_rarely_fails() -> None:
    for share in (0.93, 0.95, 0.99):
        lowest = lowest_accepted(QUICK, share)
        assert stats.binom.cdf(lowest - 1, QUICK.campaigns, share) < ERROR_RATE
        highest = highest_accepted(QUICK, 1 - share)
        assert stats.binom.sf(highest, QUICK.campaigns, 1 - share) < ERROR_RATE


def test_a_method_with_a_large_error_fails() -> None:
    assert stats.binom.cdf(lowest_accepted(QUICK, 0.93) - 1, QUICK.campaigns, 0.80) > 0.99
    assert stats.binom.sf(highest_accepted(QUICK, 0.05), QUICK.campaigns, 0.16) > 0.98


def test_the_long_simulation_requires_the_share_itself() -> None:
    long = SimulationSize(2000, is_quick=False)
    assert lowest_accepted(long, 0.93) == 1860
    assert highest_accepted(long, 0.05) == 100
