"""Simulated devices of known throughput, which test the search methods.

A device loses frames by the causes in `DeviceModel`. Its throughput for a goal is defined in docs/search.md:
the highest load at which, as at every lower load, a full step keeps the goal with probability one half or
more. It is computed from thousands of simulated steps. Tests compare it with analytical values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vnetbench.search.interface import FrameCount, SearchParameters

Floats = npt.NDArray[np.float64]
Random = np.random.Generator

SLICE_S = 0.02
"""How long the limit stays what it is where it is noisy within a step."""

_DRAWS = 2001


@dataclass(frozen=True)
class DeviceModel:
    """Causes of frame loss in a device; each is absent by default. Shares are relative to the limit."""

    limit_fps: float
    """Frames/s that it forwards; what is offered above that is lost."""
    noise: float = 0.0
    """Standard deviation of the logarithm of the limit, from step to step."""
    noise_within: float = 0.0
    """The same within a step, from slice to slice."""
    slow_share: float = 0.0
    """Share of the steps that meet the slower of two modes ..."""
    slow_limit: float = 1.0
    """... and its limit."""
    drift: float = 0.0
    """How far the limit wanders up and down ..."""
    drift_period_s: float = 100.0
    drift_phase: float = 0.0
    """... beginning at this share of the period."""
    early_from: float = 1.0
    """Load at which single frames begin to be lost ..."""
    early_ratio: float = 0.0
    """... rising to this frame loss ratio at the limit ..."""
    early_power: float = 2.0
    """... by this power of the way there."""
    start_s: float = 0.0
    """How much of each step's beginning is lost ..."""
    start_from: float = 0.0
    """... at loads above this."""
    spare_s: float = 0.0
    """Frames above the limit that each step may offer before any is lost, in seconds at the limit: a buffer
    or a token bucket that is empty, or full, again when the next step begins."""
    hole_from: float = 0.0
    """Frames are lost from this load ..."""
    hole_to: float = 0.0
    """... to this one, and not above it ..."""
    hole_ratio: float = 0.0
    """... at this frame loss ratio."""
    stalls_per_s: float = 0.0
    """How often the device stands still ..."""
    stall_s: float = 0.0
    """... losing what comes in that time (mean of an exponential distribution)."""


class SimulatedDevice:
    """A simulated device. Its counts depend only on the seed and the earlier steps."""

    def __init__(self, model: DeviceModel, seed: int, settle_s: float = 0.1) -> None:
        self.model = model
        self.now_s = 0.0
        """Total duration of its steps with their settling times."""
        self._random = np.random.default_rng(seed)
        self._settle_s = settle_s

    def measure(self, load_fps: float, duration_s: float) -> FrameCount:
        """Simulate one step and return its counts."""
        sent = max(1, round(load_fps * duration_s))
        middle_s = np.array([self.now_s + duration_s / 2])
        lost = _lost(self.model, load_fps, duration_s, middle_s, self._random)
        self.now_s += duration_s + self._settle_s
        return FrameCount(sent, sent - int(lost[0]))


def true_throughput_fps(
    model: DeviceModel, parameters: SearchParameters, goal: float, over_s: float = 3600.0
) -> float:
    """Return the true throughput for a goal; 0 if `min_load_fps` fails, `max_load_fps` if that passes.

    A drifting limit is evaluated over the first `over_s` seconds, the time of the search.
    """
    step_s, most_fps = parameters.step_s, parameters.max_load_fps

    def passes(load_fps: float, draws: int = _DRAWS) -> bool:
        random = np.random.default_rng(1)
        at_s = random.uniform(0, over_s, draws)
        lost = _lost(model, load_fps, step_s, at_s, random)
        return float(np.mean(lost <= goal * max(1, round(load_fps * step_s)))) >= 0.5

    # A load in the hole can fail while a higher one passes: then the throughput lies below the hole.
    low = parameters.min_load_fps
    if not passes(low):
        return 0.0
    if model.hole_ratio and not passes(model.limit_fps * model.hole_from * (1 + 1e-9)):
        most_fps = model.limit_fps * model.hole_from
    if passes(most_fps):
        return most_fps
    high = most_fps
    while high / low > 1 + 1e-5:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def _lost(model: DeviceModel, load_fps: float, duration_s: float, at_s: Floats, random: Random) -> Floats:
    """Return the frames lost by a step at each of these times; steps are independent except for drift."""
    p, draws = model, len(at_s)
    limit = np.full(draws, p.limit_fps)
    if p.drift:
        limit *= 1 + p.drift * np.sin(2 * np.pi * (at_s / p.drift_period_s + p.drift_phase))
    if p.noise:
        limit *= np.exp(p.noise * random.standard_normal(draws))
    if p.slow_share:
        limit *= np.where(random.uniform(size=draws) < p.slow_share, p.slow_limit, 1.0)
    lost = np.maximum(0.0, load_fps - limit) * duration_s
    if p.noise_within:
        slices = max(1, round(duration_s / SLICE_S))
        within = limit[:, None] * np.exp(p.noise_within * random.standard_normal((draws, slices)))
        lost = np.maximum(0.0, load_fps - within).sum(axis=1) * duration_s / slices
    if p.spare_s:
        lost = np.maximum(0.0, lost - p.spare_s * p.limit_fps)
    if p.stalls_per_s:
        stood = random.gamma(np.maximum(1e-9, random.poisson(p.stalls_per_s * duration_s, draws)), p.stall_s)
        lost += np.minimum(duration_s, stood) * load_fps
    if load_fps > p.start_from * p.limit_fps:
        lost += p.start_s * load_fps
    sent = max(1, round(load_fps * duration_s))
    single = _single_ratio(p, load_fps / p.limit_fps)
    if single:
        lost += random.binomial(sent, min(1.0, single), draws)
    return np.minimum(sent, np.floor(lost))


def _single_ratio(model: DeviceModel, load: float) -> float:
    """Return the ratio of frames lost individually at this share of the limit."""
    ratio = model.hole_ratio if model.hole_from < load < model.hole_to else 0.0
    if model.early_ratio and load > model.early_from:
        way = (load - model.early_from) / (1 - model.early_from)
        ratio += model.early_ratio * way**model.early_power
    return ratio


def _between(random: Random, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def _noisy(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(base, noise=_between(random, 0.001, 0.03), noise_within=_between(random, 0.001, 0.03))


def _two_modes(base: DeviceModel, random: Random) -> DeviceModel:
    minor = random.uniform(0.05, 0.35)
    share = minor if random.uniform() < 0.5 else 1 - minor
    return replace(base, slow_share=share, slow_limit=random.uniform(0.7, 0.97), noise=0.001)


def _drifting(base: DeviceModel, random: Random) -> DeviceModel:
    period_s = _between(random, 40, 600)
    drift = random.uniform(0.002, 0.015)
    return replace(base, drift=drift, drift_period_s=period_s, drift_phase=random.uniform())


def _early(base: DeviceModel, random: Random) -> DeviceModel:
    ratio, power = _between(random, 0.0005, 0.05), random.uniform(1, 4)
    return replace(base, early_from=random.uniform(0.3, 0.9), early_ratio=ratio, early_power=power)


def _at_start(base: DeviceModel, random: Random) -> DeviceModel:
    from_ = 0.0 if random.uniform() < 0.3 else random.uniform(0.5, 0.95)
    return replace(base, start_s=_between(random, 2e-5, 5e-3), start_from=from_)


def _buffered(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(base, spare_s=_between(random, 0.005, 0.5))


def _token_bucket(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(base, spare_s=_between(random, 0.001, 0.1), noise_within=_between(random, 0.001, 0.01))


def _with_hole(base: DeviceModel, random: Random) -> DeviceModel:
    start = random.uniform(0.4, 0.9)
    end = min(0.98, start * random.uniform(1.03, 1.3))
    return replace(base, hole_from=start, hole_to=end, hole_ratio=_between(random, 0.0005, 0.05))


def _stalling(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(base, stalls_per_s=random.uniform(0.02, 0.4), stall_s=_between(random, 0.002, 0.05))


def _two_troubles(base: DeviceModel, random: Random) -> DeviceModel:
    troubles = (_noisy, _two_modes, _early, _at_start, _buffered, _stalling)
    for index in random.choice(len(troubles), 2, replace=False):
        base = troubles[index](base, random)
    return base


DEVICE_TYPES: Mapping[str, Callable[[DeviceModel, Random], DeviceModel]] = {
    "sharp limit": lambda base, _: base,
    "noisy limit": _noisy,
    "two modes": _two_modes,
    "slow drift": _drifting,
    "early loss": _early,
    "loss at the start": _at_start,
    "big buffer": _buffered,
    "token bucket": _token_bucket,
    "not monotonic": _with_hole,
    "stalls": _stalling,
    "two troubles": _two_troubles,
    "loses all": lambda base, _: replace(base, limit_fps=1.0),
    "loses nothing": lambda base, _: replace(base, limit_fps=1e9),
}


def draw_device_model(kind: str, seed: int) -> DeviceModel:
    """Return a random device of this type with a limit from 30,000 to 10 million frames/s."""
    random = np.random.default_rng([seed, *kind.encode()])
    return DEVICE_TYPES[kind](DeviceModel(_between(random, 3e4, 1e7)), random)
