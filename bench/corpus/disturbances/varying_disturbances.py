"""Disturbances that vary between trials or within a trial."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from bench.corpus.disturbances.shaped_links import bottleneck_devices
from vnetbench.lab.links.shaping import limit_transmit_rate

DISTURBED_MARK = "trial {} disturbed"


def in_random_trials(share: float, disturb: Disturbance) -> Disturbance:
    """Disturb about this share of the trials, drawn from the run's seed.

    The first trial is never disturbed and the second one always.
    """

    @contextmanager
    def disturb_sometimes(target: DisturbanceTarget) -> Iterator[None]:
        is_drawn = target.random.random() < share
        if target.trial_index == 0 or (target.trial_index > 1 and not is_drawn):
            yield
            return
        target.measurements[DISTURBED_MARK.format(target.trial_index)] = 1.0
        with disturb(target):
            yield

    return disturb_sometimes


def per_trial(disturb: Callable[[int], Disturbance]) -> Disturbance:
    """Apply another disturbance to each trial, by the trial's index."""

    @contextmanager
    def disturb_by_index(target: DisturbanceTarget) -> Iterator[None]:
        with disturb(target.trial_index)(target):
            yield

    return disturb_by_index


def slowing_link(first_bps: float, last_bps: float, duration_s: float, steps: int = 6) -> Disturbance:
    """Shape a link whose rate falls from `first_bps` to `last_bps` within each trial."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        devices = bottleneck_devices(target)
        is_over = threading.Event()

        def rate_at(step: int) -> float:
            return float(first_bps * (last_bps / first_bps) ** (step / (steps - 1)))

        def shape_to(rate_bps: float | None) -> None:
            for device in devices:
                limit_transmit_rate(device, rate_bps, "tbf")

        def reduce_rate() -> None:
            for step in range(1, steps):
                if is_over.wait(duration_s / steps):
                    return
                shape_to(rate_at(step))

        shape_to(rate_at(0))
        thread = threading.Thread(target=reduce_rate)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            shape_to(None)

    return disturb
