"""TCP throughput under loss, compared with published values and hand calculations."""

from __future__ import annotations

import math

import pytest

from vnetbench.explain.models.loss import cubic_rate_bps, mathis_rate_bps, padhye_rate_bps

pytestmark = pytest.mark.pure

PATH = (1460, 100_000)


def test_a_loss_of_one_percent_allows_a_window_of_twelve_segments() -> None:
    # √(3/2) / √0.01 = 12.2 segments per round trip.
    assert mathis_rate_bps(*PATH, 0.01) == pytest.approx(12.25 * 1460 * 8 / 0.1, rel=0.001)


def test_a_quarter_of_the_loss_gives_twice_the_rate() -> None:
    assert mathis_rate_bps(*PATH, 0.0025) == pytest.approx(2 * mathis_rate_bps(*PATH, 0.01))


def test_timeouts_dominate_at_high_loss_and_hardly_matter_at_low_loss() -> None:
    assert padhye_rate_bps(*PATH, 1e-5) == pytest.approx(mathis_rate_bps(*PATH, 1e-5), rel=0.02)
    assert padhye_rate_bps(*PATH, 0.1) < 0.5 * mathis_rate_bps(*PATH, 0.1)


def test_acknowledging_every_other_segment_costs_by_the_root_of_two() -> None:
    ratio = padhye_rate_bps(*PATH, 1e-6) / padhye_rate_bps(*PATH, 1e-6, segments_per_ack=2)
    assert ratio == pytest.approx(math.sqrt(2), rel=0.01)


def test_cubic_matches_the_table_of_its_rfc() -> None:
    # RFC 9438, section 5.1: 0.1 s and a loss of 1e-4 give an average window of 187 segments.
    for loss, window in ((1e-4, 187), (1e-6, 5900)):
        assert cubic_rate_bps(*PATH, loss) == pytest.approx(window * 1460 * 8 / 0.1, rel=0.02)


def test_cubic_matches_reno_on_short_paths() -> None:
    assert cubic_rate_bps(1460, 100, 0.01) == mathis_rate_bps(1460, 100, 0.01)


def test_without_loss_the_rate_is_infinite() -> None:
    assert mathis_rate_bps(*PATH, 0) == padhye_rate_bps(*PATH, 0) == cubic_rate_bps(*PATH, 0) == math.inf


@pytest.mark.parametrize("law", [mathis_rate_bps, padhye_rate_bps, cubic_rate_bps])
def test_a_loss_ratio_above_one_is_rejected(law: object) -> None:
    assert callable(law)
    with pytest.raises(ValueError, match="out of range"):
        law(1460, 100, 1.5)
