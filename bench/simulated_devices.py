"""Simulated devices with known throughput for tests of the search methods.

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

from vnetbench.search.interface import SearchParameters, SentAndReceivedFrames

Floats = npt.NDArray[np.float64]
Random = np.random.Generator

SLICE_S = 0.02
"""Duration for which a limit with noise within a step is constant."""

_SIMULATED_STEPS = 2001
"""Steps simulated for the true throughput."""


@dataclass(frozen=True)
class DeviceModel:
    """Causes of frame loss in a device; each is absent by default. Shares are relative to the limit."""

    limit_fps: float
    """Maximum forwarding rate in frames/s. The device loses the frames above it."""
    noise: float = 0.0
    """Standard deviation of the logarithm of the limit, from step to step."""
    noise_within: float = 0.0
    """Standard deviation of the logarithm of the limit within a step, from slice to slice."""
    slow_share: float = 0.0
    """Share of the steps in the slower of two modes."""
    slow_limit: float = 1.0
    """Limit of the slower mode."""
    drift: float = 0.0
    """Amplitude of a periodic change of the limit."""
    drift_period_s: float = 100.0
    drift_phase: float = 0.0
    """Phase at the start, as a share of the period."""
    early_from: float = 1.0
    """Load above which the device loses single frames."""
    early_ratio: float = 0.0
    """Share of single frames lost at the limit."""
    early_power: float = 2.0
    """Exponent of the increase of this ratio between `early_from` and the limit."""
    start_s: float = 0.0
    """Time at the start of each step in which all frames are lost."""
    start_from: float = 0.0
    """Load above which frames are lost at the start."""
    buffer_s: float = 0.0
    """Size of a buffer or token bucket, in seconds at the limit. It absorbs frames above the limit and
    recovers completely before the next step."""
    lossy_from: float = 0.0
    """Lower end of a range of loads with loss. Higher loads do not have this loss."""
    lossy_to: float = 0.0
    """Upper end of this range."""
    lossy_ratio: float = 0.0
    """Frame loss ratio in this range."""
    stalls_per_s: float = 0.0
    """Rate of stalls, in which the device loses all frames."""
    stall_s: float = 0.0
    """Mean duration of a stall (exponential distribution)."""


class SimulatedDevice:
    """A simulated device. Its counts depend only on the seed and the earlier steps."""

    def __init__(self, model: DeviceModel, seed: int, settle_s: float = 0.1) -> None:
        self.model = model
        self.now_s = 0.0
        """Total duration of its steps with their settling times."""
        self._random = np.random.default_rng(seed)
        self._settle_s = settle_s

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        """Simulate one step and return its counts."""
        sent = max(1, round(load_fps * duration_s))
        middle_s = np.array([self.now_s + duration_s / 2])
        lost = _simulate_losses(self.model, load_fps, duration_s, middle_s, self._random)
        self.now_s += duration_s + self._settle_s
        return SentAndReceivedFrames(sent, sent - int(lost[0]))


def true_throughput_fps(
    model: DeviceModel, parameters: SearchParameters, goal: float, over_s: float = 3600.0
) -> float:
    """Return the true throughput for a goal; 0 if `min_load_fps` fails, `max_load_fps` if it passes.

    A drifting limit is evaluated over the first `over_s` seconds, the time of the search.
    """
    step_s, high = parameters.step_s, parameters.max_load_fps

    def passes(load_fps: float, steps: int = _SIMULATED_STEPS) -> bool:
        random = np.random.default_rng(1)
        at_s = random.uniform(0, over_s, steps)
        lost = _simulate_losses(model, load_fps, step_s, at_s, random)
        return float(np.mean(lost <= goal * max(1, round(load_fps * step_s)))) >= 0.5

    # A load in the lossy range can fail while a higher one passes. The throughput is then below the range.
    low = parameters.min_load_fps
    if not passes(low):
        return 0.0
    if model.lossy_ratio and not passes(model.limit_fps * model.lossy_from * (1 + 1e-9)):
        high = model.limit_fps * model.lossy_from
    if passes(high):
        return high
    while high / low > 1 + 1e-5:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def _simulate_losses(
    model: DeviceModel, load_fps: float, duration_s: float, at_s: Floats, random: Random
) -> Floats:
    """Return the frames lost by a step at each of these times; steps are independent except for drift."""
    draw_count = len(at_s)
    limit = np.full(draw_count, model.limit_fps)
    if model.drift:
        limit *= 1 + model.drift * np.sin(2 * np.pi * (at_s / model.drift_period_s + model.drift_phase))
    if model.noise:
        limit *= np.exp(model.noise * random.standard_normal(draw_count))
    if model.slow_share:
        limit *= np.where(random.uniform(size=draw_count) < model.slow_share, model.slow_limit, 1.0)
    lost = np.maximum(0.0, load_fps - limit) * duration_s
    if model.noise_within:
        slices = max(1, round(duration_s / SLICE_S))
        within = limit[:, None] * np.exp(model.noise_within * random.standard_normal((draw_count, slices)))
        lost = np.maximum(0.0, load_fps - within).sum(axis=1) * duration_s / slices
    if model.buffer_s:
        lost = np.maximum(0.0, lost - model.buffer_s * model.limit_fps)
    if model.stalls_per_s:
        stalled_s = random.gamma(
            np.maximum(1e-9, random.poisson(model.stalls_per_s * duration_s, draw_count)), model.stall_s
        )
        lost += np.minimum(duration_s, stalled_s) * load_fps
    if load_fps > model.start_from * model.limit_fps:
        lost += model.start_s * load_fps
    sent = max(1, round(load_fps * duration_s))
    single_loss_ratio = _single_loss_ratio(model, load_fps / model.limit_fps)
    if single_loss_ratio:
        lost += random.binomial(sent, min(1.0, single_loss_ratio), draw_count)
    return np.minimum(sent, np.floor(lost))


def _single_loss_ratio(model: DeviceModel, load: float) -> float:
    """Return the share of single frames lost at this load, which is relative to the limit."""
    ratio = model.lossy_ratio if model.lossy_from < load < model.lossy_to else 0.0
    if model.early_ratio and load > model.early_from:
        position = (load - model.early_from) / (1 - model.early_from)
        ratio += model.early_ratio * position**model.early_power
    return ratio


def _draw_log_uniform(random: Random, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def _add_noise(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(
        base,
        noise=_draw_log_uniform(random, 0.001, 0.03),
        noise_within=_draw_log_uniform(random, 0.001, 0.03),
    )


def _add_slow_mode(base: DeviceModel, random: Random) -> DeviceModel:
    minor = random.uniform(0.05, 0.35)
    share = minor if random.uniform() < 0.5 else 1 - minor
    return replace(base, slow_share=share, slow_limit=random.uniform(0.7, 0.97), noise=0.001)


def _add_drift(base: DeviceModel, random: Random) -> DeviceModel:
    period_s = _draw_log_uniform(random, 40, 600)
    drift = random.uniform(0.002, 0.015)
    return replace(base, drift=drift, drift_period_s=period_s, drift_phase=random.uniform())


def _add_early_loss(base: DeviceModel, random: Random) -> DeviceModel:
    ratio, power = _draw_log_uniform(random, 0.0005, 0.05), random.uniform(1, 4)
    return replace(base, early_from=random.uniform(0.3, 0.9), early_ratio=ratio, early_power=power)


def _add_start_loss(base: DeviceModel, random: Random) -> DeviceModel:
    from_ = 0.0 if random.uniform() < 0.3 else random.uniform(0.5, 0.95)
    return replace(base, start_s=_draw_log_uniform(random, 2e-5, 5e-3), start_from=from_)


def _add_buffer(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(base, buffer_s=_draw_log_uniform(random, 0.005, 0.5))


def _add_token_bucket(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(
        base,
        buffer_s=_draw_log_uniform(random, 0.001, 0.1),
        noise_within=_draw_log_uniform(random, 0.001, 0.01),
    )


def _add_loss_range(base: DeviceModel, random: Random) -> DeviceModel:
    start = random.uniform(0.4, 0.9)
    end = min(0.98, start * random.uniform(1.03, 1.3))
    return replace(base, lossy_from=start, lossy_to=end, lossy_ratio=_draw_log_uniform(random, 0.0005, 0.05))


def _add_stalls(base: DeviceModel, random: Random) -> DeviceModel:
    return replace(
        base, stalls_per_s=random.uniform(0.02, 0.4), stall_s=_draw_log_uniform(random, 0.002, 0.05)
    )


def _add_two_causes(base: DeviceModel, random: Random) -> DeviceModel:
    causes = (_add_noise, _add_slow_mode, _add_early_loss, _add_start_loss, _add_buffer, _add_stalls)
    for index in random.choice(len(causes), 2, replace=False):
        base = causes[index](base, random)
    return base


DEVICE_TYPES: Mapping[str, Callable[[DeviceModel, Random], DeviceModel]] = {
    "sharp limit": lambda base, _: base,
    "noisy limit": _add_noise,
    "two modes": _add_slow_mode,
    "slow drift": _add_drift,
    "early loss": _add_early_loss,
    "loss at the start": _add_start_loss,
    "big buffer": _add_buffer,
    "token bucket": _add_token_bucket,
    "not monotonic": _add_loss_range,
    "stalls": _add_stalls,
    "two troubles": _add_two_causes,
    "loses all": lambda base, _: replace(base, limit_fps=1.0),
    "loses nothing": lambda base, _: replace(base, limit_fps=1e9),
}


def draw_device_model(device_type: str, seed: int) -> DeviceModel:
    """Return a random device of this type with a limit from 30,000 to 10 million frames/s."""
    random = np.random.default_rng([seed, *device_type.encode()])
    return DEVICE_TYPES[device_type](DeviceModel(_draw_log_uniform(random, 3e4, 1e7)), random)
