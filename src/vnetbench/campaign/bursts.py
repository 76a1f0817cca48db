"""The longest burst that a device takes without loss (RFC 2544, 26.4, as RFC 9004 has it)."""

from __future__ import annotations

import math
from collections.abc import Callable

from vnetbench.campaign.step_runner import Steps
from vnetbench.lab.errors import TrialFailed
from vnetbench.results.records import BURST
from vnetbench.search.interface import SearchParameters

REPEATS = 5
"""Searches in one trial. RFC 9004 wants the mean of many: a treatment's trials are repeated too."""
LONGEST_S = 2.0
"""What is sent for longer is no burst (RFC 2544, 26.4)."""
ROOM, LEAST_ROOM_S = 1.5, 0.05
"""A burst has so many times what it takes as fast as it goes, and at least so long."""

Send = Callable[[int], tuple[int, bool]]
"""Sends a burst of so many frames; returns how many it really had, and whether all arrived."""


def longest_bursts(steps: Steps, asked: SearchParameters, rate_fps: float) -> tuple[int, ...]:
    """The longest burst that each of the repeated searches found, frames in each direction.

    `rate_fps` is that of frames as fast as they go. Where a burst of `LONGEST_S` loses nothing, the generator
    is the limit, and it is the one answer. Raises TrialFailed where bursts cannot be sent.
    """

    def send(frames: int) -> tuple[int, bool]:
        step = steps.held(0.0, BURST, None, max(LEAST_ROOM_S, ROOM * frames / rate_fps), frames)
        return step.record.sent // step.ways, step.record.loss_ratio == 0

    sent, passed = send(max(2, round(rate_fps * LONGEST_S)))
    if passed:
        return (sent,)
    return tuple(_longest(steps, send, sent, asked.width) for _ in range(REPEATS))


def _longest(steps: Steps, send: Send, too_many: int, width: float) -> int:
    """Halves in factors, since a buffer may hold ten frames or a million; 0 where not even one passes."""
    low, high = 0, too_many
    while high - low > max(1, width * low):
        middle = min(high - 1, max(low + 1, round(math.sqrt(max(low, 1) * high))))
        sent, passed = send(middle)
        if not low < sent < high:
            too_busy = f"the generator sent {sent} frames of a burst of {middle}: this machine was too busy"
            raise steps.void(TrialFailed(too_busy))
        low, high = (sent, high) if passed else (low, sent)
    return low
