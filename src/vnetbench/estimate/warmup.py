"""How much of a trial's beginning is warm-up: told by where the level of its samples changes.

The rule is that of Barrett, Bolz-Tereick, Killick, Mount & Tratt (2017), "Virtual machine warmup blows hot
and cold", Proc. ACM Program. Lang. 1 (OOPSLA): change points split the trial into segments; the last
segment is the steady state, and where it is too short there is none. The change points are those of least
squares with a penalty, found exactly by `ruptures` (Killick, Fearnhead & Eckley 2012, JASA 107(500)).
Penalty: Yao (1988), Statistics & Probability Letters 6(3), takes 2σ² log n for independent samples; for
autocorrelated ones σ² has to be the long-run variance (Lavielle & Moulines 2000, Journal of Time Series
Analysis 21(1)), or noise itself is cut to pieces.

What a single trial's noise hides, the mean of all trials of a treatment shows: `shared_warmup` looks at both
(Welch 1983, "The statistical analysis of simulation results", in *The Computer Performance Modeling
Handbook*).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import ruptures

from vnetbench.estimate.model import Warmup
from vnetbench.estimate.noise import long_run_variance

Samples = npt.NDArray[np.float64]

_CUT_PENALTY = 2.0
_STEADY_PENALTY = 3.0
_SHORTEST_SEGMENT = 2
_FEWEST_SAMPLES = 10
_RULE = "change-point"
_NO_NOISE = 1e-4
_NEARLY = 0.9
"""Trials asked to be equally long differ by a sample or two."""


def find_warmup(samples: Sequence[float] | Samples) -> Warmup:
    """What of one trial is warm-up."""
    data = np.asarray(samples, dtype=float)
    if len(data) < _FEWEST_SAMPLES:
        return Warmup(samples=0, has_steady_state=True, rule=_RULE)
    noise = long_run_variance([data])
    changes = _changes(data, noise, _CUT_PENALTY)
    if not changes:  # then a larger penalty finds none either
        return Warmup(samples=0, has_steady_state=True, rule=_RULE)
    steady = all(change <= len(data) / 2 for change in _changes(data, noise, _STEADY_PENALTY))
    return Warmup(samples=_last_early(changes, len(data)), has_steady_state=steady, rule=_RULE)


def find_shared_warmups(trials: Sequence[Sequence[float] | Samples], own: Sequence[Warmup]) -> tuple[Warmup, ...]:
    """Each trial's warm-up once more, when all of a treatment's trials are looked at together.

    `trials` are the samples of each trial (same sampling interval), `own` what `find_warmup` said of each.
    The rule is put to the mean course of the longer half of the trials, whose noise is smaller, and is told
    from how the trials differ: a warm-up that they share is no part of that. What it finds is cut from every
    trial at least, and as much again: a rise that flattens out goes on after its last visible step. A
    quarter of a trial is kept in any case. Where the course changes in its second half, trials that are not
    twice as long as that are not steady, whatever each looked like by itself.
    """
    data = [np.asarray(samples, dtype=float) for samples in trials]
    levels = [
        float(samples[each.samples :].mean()) if len(samples) else 0.0
        for samples, each in zip(data, own, strict=True)
    ]
    alive = [samples / level for samples, level in zip(data, levels, strict=True) if level > 0]
    if len(alive) < 2:
        return tuple(own)
    lengths = sorted((len(samples) for samples in alive), reverse=True)
    reach = int(_NEARLY * lengths[max(2, len(lengths) // 2) - 1])
    if reach < _FEWEST_SAMPLES:
        return tuple(own)
    together = np.array([samples[:reach] for samples in alive if len(samples) >= reach])
    course = together.mean(axis=0)
    # Differences from a mean that they are part of are too small: n - 1 instead of n makes up for it.
    noise = long_run_variance(list(together - course)) / (len(together) - 1)
    shared = 2 * _last_early(_changes(course, noise, _CUT_PENALTY), reach)
    last = max(_changes(course, noise, _STEADY_PENALTY), default=0)
    return tuple(
        _at_least(each, min(shared, len(samples) * 3 // 4), last <= reach / 2 or len(samples) >= 2 * last)
        for samples, each in zip(data, own, strict=True)
    )


def fixed_warmup(samples: Sequence[float] | Samples, interval_s: float, warmup_s: float) -> Warmup:
    """The samples that lie, wholly or in part, in the first `warmup_s` seconds, as the study file asked.

    At least one sample is kept; `steady` is False where the warm-up left none. `interval_s` is the length
    of a sample in seconds. Raises ValueError for an interval that is not above zero or a negative warm-up.
    """
    if interval_s <= 0 or warmup_s < 0:
        raise ValueError("a fixed warm-up needs interval_s > 0 and warmup_s >= 0")
    asked = math.ceil(warmup_s / interval_s - 1e-9)
    return Warmup(samples=min(asked, max(0, len(samples) - 1)), has_steady_state=asked < len(samples), rule="fixed")


def _at_least(own: Warmup, cut: int, steady: bool) -> Warmup:
    if cut <= own.samples and steady:
        return own
    return replace(own, samples=max(own.samples, cut), has_steady_state=own.has_steady_state and steady)


def _last_early(changes: Sequence[int], samples: int) -> int:
    """The last change in the first half; 0 where there is none."""
    return max((change for change in changes if change <= samples // 2), default=0)


def _changes(data: Samples, noise: float, strictness: float) -> list[int]:
    """Where the level changes, ascending. `noise`: the long-run variance of the samples."""
    floor = (_NO_NOISE * float(np.max(np.abs(data)))) ** 2
    penalty = strictness * max(noise, floor, 1e-300) * math.log(len(data))
    search = ruptures.KernelCPD(kernel="linear", min_size=_SHORTEST_SEGMENT).fit(data.reshape(-1, 1))
    return [int(change) for change in search.predict(pen=penalty)[:-1]]
