"""The window model, compared with values from its sources."""

from __future__ import annotations

import pytest

from vnetbench.explain.models.tcp_window import is_goodput_consistent_with_window, max_goodput_bps

pytestmark = pytest.mark.pure


def test_a_window_of_64_kib_over_100_ms_carries_5_2_mbit_per_s() -> None:
    # The largest window without scaling (RFC 7323, section 1.1).
    assert max_goodput_bps(65535, 100_000) == pytest.approx(5.24e6, rel=0.001)


def test_goodput_far_from_the_model_is_inconsistent() -> None:
    # An 8 kB window behind a shaper: the window limits the sender, but not the goodput.
    assert is_goodput_consistent_with_window(max_goodput_bps(8192, 1000), 8192, 1000)
    assert not is_goodput_consistent_with_window(0.5 * max_goodput_bps(8192, 1000), 8192, 1000)


def test_a_window_of_zero_is_consistent_with_nothing() -> None:
    assert not is_goodput_consistent_with_window(1e9, 0, 1000)


def test_a_round_trip_time_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        max_goodput_bps(65535, 0)
