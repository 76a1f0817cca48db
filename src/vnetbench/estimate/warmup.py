"""Detection of the warm-up: change points in the level of a trial's samples.

The rule is that of Barrett, Bolz-Tereick, Killick, Mount & Tratt (2017), "Virtual machine warmup blows hot
and cold", Proc. ACM Program. Lang. 1 (OOPSLA): change points split the trial into segments. The last segment
is the steady state; if it is too short, the trial has none. The change points minimise least squares plus a
penalty, found exactly by `ruptures` (Killick, Fearnhead & Eckley 2012, JASA 107(500)). Penalty: Yao (1988),
Statistics & Probability Letters 6(3), takes 2σ² log n for independent samples. For autocorrelated samples σ²
must be the long-run variance (Lavielle & Moulines 2000, Journal of Time Series Analysis 21(1)), or noise
itself is split into segments.

The mean of all trials of a treatment shows changes that the noise of a single trial hides:
`find_shared_warmups` uses both (Welch 1983, "The statistical analysis of simulation results", in *The
Computer Performance Modeling Handbook*).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from vnetbench.deferred_module import DeferredModule
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.noise import long_run_variance

ruptures = DeferredModule("ruptures")

Samples = npt.NDArray[np.float64]

_WARMUP_CHANGE_POINT_PENALTY = 2.0
_UNSTEADY_CHANGE_POINT_PENALTY = 3.0
"""Stricter: a trial is called unsteady only after a clear change in its second half."""
_MIN_SEGMENT_SAMPLES = 2
_MIN_SAMPLES_FOR_DETECTION = 10
_CHANGE_POINT_RULE = "change-point"
_MIN_NOISE_OVER_MEAN = 1e-4
_ANALYSED_SHARE_OF_TYPICAL_LENGTH = 0.9
"""Trials with the same requested length differ by a sample or two."""


def find_warmup(samples: Sequence[float] | Samples) -> Warmup:
    """Return the warm-up of one trial."""
    data = np.asarray(samples, dtype=float)
    if len(data) < _MIN_SAMPLES_FOR_DETECTION:
        return Warmup(samples=0, has_steady_state=True, rule=_CHANGE_POINT_RULE)
    noise = long_run_variance([data])
    changes = _find_change_points(data, noise, _WARMUP_CHANGE_POINT_PENALTY)
    if not changes:  # a larger penalty finds none either
        return Warmup(samples=0, has_steady_state=True, rule=_CHANGE_POINT_RULE)
    clear_changes = _find_change_points(data, noise, _UNSTEADY_CHANGE_POINT_PENALTY)
    has_steady_state = all(change <= len(data) / 2 for change in clear_changes)
    return Warmup(_last_change_in_first_half(changes, len(data)), has_steady_state, _CHANGE_POINT_RULE)


def find_shared_warmups(
    trials: Sequence[Sequence[float] | Samples], own_warmups: Sequence[Warmup]
) -> tuple[Warmup, ...]:
    """Return each trial's warm-up after a joint analysis of all trials of the treatment.

    The rule runs on the mean time series of the longer half of the trials, which has less noise. The noise is
    estimated from the differences between trials, so a shared warm-up is not part of it. At least twice the
    warm-up found is cut from every trial: a rise that flattens out continues after its last visible step. A
    quarter of each trial always remains. If the mean changes in its second half, trials shorter than twice
    that time have no steady state.

    Args:
        trials: The samples of each trial, all with the same sampling interval.
        own_warmups: The result of `find_warmup` for each trial.
    """
    data = [np.asarray(samples, dtype=float) for samples in trials]
    levels = [
        float(samples[each.samples :].mean()) if len(samples) else 0.0
        for samples, each in zip(data, own_warmups, strict=True)
    ]
    scaled = [samples / level for samples, level in zip(data, levels, strict=True) if level > 0]
    if len(scaled) < 2:
        return tuple(own_warmups)
    lengths = sorted((len(samples) for samples in scaled), reverse=True)
    length = int(_ANALYSED_SHARE_OF_TYPICAL_LENGTH * lengths[max(2, len(lengths) // 2) - 1])
    if length < _MIN_SAMPLES_FOR_DETECTION:
        return tuple(own_warmups)
    longer_trials = np.array([samples[:length] for samples in scaled if len(samples) >= length])
    mean = longer_trials.mean(axis=0)
    # Each trial is part of the mean, so its differences from the mean are too small: n - 1 corrects for that.
    noise = long_run_variance(list(longer_trials - mean)) / (len(longer_trials) - 1)
    shared = 2 * _last_change_in_first_half(
        _find_change_points(mean, noise, _WARMUP_CHANGE_POINT_PENALTY), length
    )
    last_clear = max(_find_change_points(mean, noise, _UNSTEADY_CHANGE_POINT_PENALTY), default=0)
    return tuple(
        _extend_warmup(
            each,
            min(shared, len(samples) * 3 // 4),
            is_steady=last_clear <= length / 2 or len(samples) >= 2 * last_clear,
        )
        for samples, each in zip(data, own_warmups, strict=True)
    )


def fixed_warmup(samples: Sequence[float] | Samples, interval_s: float, warmup_s: float) -> Warmup:
    """Return a warm-up of the samples that overlap the first `warmup_s` seconds (`timing.warmup`).

    At least one sample remains. `has_steady_state` is False if the warm-up covers the whole trial.

    Args:
        samples: The samples of one trial.
        interval_s: The length of a sample in seconds.
        warmup_s: The requested warm-up in seconds.

    Raises:
        ValueError: The interval is not positive, or the warm-up is negative.
    """
    if interval_s <= 0 or warmup_s < 0:
        raise ValueError("a fixed warm-up needs interval_s > 0 and warmup_s >= 0")
    requested = math.ceil(warmup_s / interval_s - 1e-9)
    cut = min(requested, max(0, len(samples) - 1))
    return Warmup(samples=cut, has_steady_state=requested < len(samples), rule="fixed")


def _extend_warmup(own_warmup: Warmup, min_samples: int, *, is_steady: bool) -> Warmup:
    if min_samples <= own_warmup.samples and is_steady:
        return own_warmup
    return replace(
        own_warmup,
        samples=max(own_warmup.samples, min_samples),
        has_steady_state=own_warmup.has_steady_state and is_steady,
    )


def _last_change_in_first_half(changes: Sequence[int], sample_count: int) -> int:
    """Return the last change point in the first half of the samples; 0 if there is none."""
    return max((change for change in changes if change <= sample_count // 2), default=0)


def _find_change_points(data: Samples, noise: float, penalty_factor: float) -> list[int]:
    """Return the indices where the level changes, ascending.

    Args:
        data: The samples.
        noise: Their long-run variance.
        penalty_factor: The penalty of a change point is this times `noise` times log n.
    """
    floor = (_MIN_NOISE_OVER_MEAN * float(np.max(np.abs(data)))) ** 2
    penalty = penalty_factor * max(noise, floor, 1e-300) * math.log(len(data))
    search = ruptures.KernelCPD(kernel="linear", min_size=_MIN_SEGMENT_SAMPLES).fit(data.reshape(-1, 1))
    return [int(change) for change in search.predict(pen=penalty)[:-1]]
