"""Search of the longest burst that a device forwards without loss (RFC 2544, 26.4, updated by RFC 9004)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from vnetbench.campaign.step_runner import StepRunner
from vnetbench.lab.errors import TrialFailed
from vnetbench.results.records import BURST_STEP
from vnetbench.search.interface import SearchParameters

BURST_SEARCHES_PER_TRIAL = 5
"""Number of searches in one trial. RFC 9004 asks for the mean of many; trials are repeated as well."""
MAX_BURST_S = 2.0
"""Maximum duration of a burst (RFC 2544, 26.4)."""
TIME_FACTOR, MIN_STEP_S = 1.5, 0.05
"""A step lasts this many times the burst's duration at full rate, and at least this long."""


class BurstResult(NamedTuple):
    """What a generator sent and whether it arrived."""

    sent_frames_per_direction: int
    """Frames really sent per direction."""
    is_lossless: bool


SendBurst = Callable[[int], BurstResult]
"""Sends a burst of this many frames per direction."""


def find_longest_bursts(steps: StepRunner, parameters: SearchParameters, rate_fps: float) -> tuple[int, ...]:
    """Return the longest lossless burst of each search, in frames per direction.

    If a burst of `MAX_BURST_S` loses nothing, the generator is the limit, and that burst is the only value.

    Args:
        steps: Runs the steps of the trial.
        parameters: The search parameters.
        rate_fps: The generator's maximum rate, frames/s per direction.

    Raises:
        TrialFailed: The generator cannot send bursts of the requested lengths.
    """

    def send_burst(frames: int) -> BurstResult:
        step = steps.run_repeating_if_generator_behind(
            0.0, BURST_STEP, None, max(MIN_STEP_S, TIME_FACTOR * frames / rate_fps), frames
        )
        return BurstResult(step.record.sent // step.pair_direction_count, step.record.loss_ratio == 0)

    sent, passed = send_burst(max(2, round(rate_fps * MAX_BURST_S)))
    if passed:
        return (sent,)
    return tuple(
        _search_longest_lossless_burst(steps, send_burst, sent, parameters.relative_width)
        for _ in range(BURST_SEARCHES_PER_TRIAL)
    )


def _search_longest_lossless_burst(
    steps: StepRunner, send_burst: SendBurst, lossy_burst_frames: int, relative_width: float
) -> int:
    """Bisect on a logarithmic scale, since a buffer may hold ten frames or a million; 0 if none passes."""
    low, high = 0, lossy_burst_frames
    while high - low > max(1, relative_width * low):
        middle = min(high - 1, max(low + 1, round(math.sqrt(max(low, 1) * high))))
        sent, passed = send_burst(middle)
        if not low < sent < high:
            what = (
                f"the generator sent {sent} frames of a burst of {middle}, because this machine is too busy"
            )
            raise steps.delete_stored_steps(TrialFailed(what))
        low, high = (sent, high) if passed else (low, sent)
    return low
