"""What random flows would do: how many uplinks they use, and how many flows the busiest uplink gets.

Each flow takes an uplink by itself, uplink i with probability p_i; 1/N each if the hash is even. Johnson and
Kotz, *Urn Models and Their Application* (1977), chapter 3: the number of used uplinks has the mean
N(1 − (1 − 1/N)^F), and the recursion of `used_uplinks_distribution` gives its distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MAX_EXACT_FLOWS = 64
_MAX_EXACT_UPLINKS = 16
_SIMULATED_CAMPAIGNS = 20_000
_SIMULATION_SEED = 20

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Expectation:
    """The spread of random flows over a team.

    Attributes:
        flows: Number of flows F.
        mean_used: Expected number of used uplinks.
        used_probabilities: Probability of 0, 1, … N used uplinks.
        mean_busiest_share: Expected share of the flows that the busiest uplink carries, 0 to 1.
        busiest_share_90: Share that the busiest uplink exceeds with a probability of at most 10 %.
        mean_total_bps: Expected total of flows without a limit of their own; None without speeds.
        is_exact: Whether the distributions are exact; else they come from 20,000 simulated draws.
    """

    flows: int
    mean_used: float
    used_probabilities: tuple[float, ...]
    mean_busiest_share: float
    busiest_share_90: float
    mean_total_bps: float | None
    is_exact: bool


def expect_random_flows(
    flows: int, probabilities: Sequence[float], speeds_bps: Sequence[int | None]
) -> Expectation:
    """Return the spread of `flows` random flows over uplinks with these probabilities and speeds."""
    share = np.asarray(probabilities, dtype=float)
    used = 1 - (1 - share) ** flows
    is_even = bool(np.allclose(share, share[0]))
    is_exact = flows <= _MAX_EXACT_FLOWS and len(share) <= _MAX_EXACT_UPLINKS and is_even
    if is_exact:
        busiest = busiest_uplink_distribution(flows, len(share))
        distribution = used_uplinks_distribution(flows, len(share))
    else:
        counts = np.random.default_rng(_SIMULATION_SEED).multinomial(flows, share, _SIMULATED_CAMPAIGNS)
        busiest = np.bincount(counts.max(axis=1), minlength=flows + 1) / _SIMULATED_CAMPAIGNS
        distribution = np.bincount((counts > 0).sum(axis=1), minlength=len(share) + 1) / _SIMULATED_CAMPAIGNS
    total = (
        None if None in speeds_bps else float(sum(s * u for s, u in zip(speeds_bps, used, strict=True) if s))
    )
    exceeded = int(np.searchsorted(np.cumsum(busiest), 0.9 - 1e-12))
    return Expectation(
        flows,
        float(used.sum()),
        tuple(map(float, distribution)),
        float(busiest @ np.arange(flows + 1)) / max(flows, 1),
        exceeded / max(flows, 1),
        total,
        is_exact,
    )


def used_uplinks_distribution(flows: int, uplinks: int) -> Floats:
    """Return the probabilities of 0, 1, … `uplinks` used uplinks if all are equally likely."""
    probabilities = np.zeros(uplinks + 1)
    probabilities[0] = 1.0
    used = np.arange(uplinks + 1)
    for _ in range(flows):
        stays = probabilities * used / uplinks
        stays[1:] += probabilities[:-1] * (uplinks - used[:-1]) / uplinks
        probabilities = stays
    return probabilities


def busiest_uplink_distribution(flows: int, uplinks: int) -> Floats:
    """Return the probabilities that the busiest of equally likely uplinks carries 0, 1, … `flows` flows.

    The uplinks take their flows in turn. Of r flows that are left for k uplinks, the next uplink takes a
    binomial number with probability 1/k; "at most m" cuts that number at m.
    """
    counts = np.arange(flows + 1)
    taken = counts[:, None] - counts[None, :]
    steps = [_taking_matrix(flows, 1 / remaining) for remaining in range(uplinks, 0, -1)]
    at_most = np.zeros(flows + 1)
    for most in range(flows + 1):
        left = (counts == flows).astype(float)
        for step in steps:
            left = left @ np.where(taken <= most, step, 0.0)
        at_most[most] = left[0]
    return np.diff(at_most, prepend=0.0)


def _taking_matrix(flows: int, probability: float) -> Floats:
    """Return the probability that of r flows (row), s (column) are left after one uplink took its own."""
    matrix = np.zeros((flows + 1, flows + 1))
    for count in range(flows + 1):
        matrix[count, : count + 1] = _binomial(count, probability)[::-1]
    return matrix


def _binomial(count: int, probability: float) -> Floats:
    """Return the probabilities of 0, 1, … `count` successes."""
    if probability >= 1:
        only: Floats = (np.arange(count + 1) == count).astype(np.float64)
        return only
    k = np.arange(count)
    ratios = (count - k) / (k + 1) * probability / (1 - probability)
    terms: Floats = (1 - probability) ** count * np.concatenate(([1.0], np.cumprod(ratios)))
    return terms
