"""The packet-rate model, with simulated CPUs of known cost."""

from __future__ import annotations

import numpy as np
import pytest

from vnetbench.explain.models.packet_rate import PacketCost, fit_packet_cost

pytestmark = pytest.mark.pure


def test_the_fit_recovers_the_cost_of_a_simulated_cpu() -> None:
    truth, noise = PacketCost(2000, 0.3), np.random.default_rng(5)
    sizes = [64, 512, 1500, 9000, 64, 512, 1500, 9000]
    cycles = [
        (truth.cycles_per_packet + truth.cycles_per_byte * size) * (1 + 0.01 * noise.standard_normal())
        for size in sizes
    ]
    result = fit_packet_cost(sizes, cycles)
    assert result is not None
    assert result.cycles_per_packet == pytest.approx(
        2000, rel=0.03
    ) and result.cycles_per_byte == pytest.approx(0.3, rel=0.05)


def test_negative_costs_are_replaced_by_zero() -> None:
    falling, through_zero = (
        fit_packet_cost([64, 1500], [2000, 1900]),
        fit_packet_cost([1000, 2000], [900, 2100]),
    )
    assert falling is not None and falling == PacketCost(1950, 0)
    assert through_zero is not None and through_zero.cycles_per_packet == 0
    assert through_zero.cycles_per_byte == pytest.approx(1.02)


def test_one_packet_size_gives_no_cost() -> None:
    assert fit_packet_cost([1500, 1500], [2000, 2100]) is None
