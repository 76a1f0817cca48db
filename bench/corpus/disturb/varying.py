"""Disturbances that are not the same in every trial: in some of them only, or more from one to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.corpus.disturb.shaped import bottlenecks
from bench.corpus.scene import Disturb, Scene
from vnetbench.lab.links.shaping import shape_link

DISTURBED = "trial {} disturbed"


def in_some_trials(share: float, disturb: Disturb) -> Disturb:
    """In about this share of the trials, drawn from the run's seed; not in the first, but in the second."""

    @contextmanager
    def sometimes(scene: Scene) -> Iterator[None]:
        drawn = scene.random.random() < share
        if scene.number == 0 or (scene.number > 1 and not drawn):
            yield
            return
        scene.told[DISTURBED.format(scene.number)] = 1.0
        with disturb(scene):
            yield

    return sometimes


def by_trial(disturb: Callable[[int], Disturb]) -> Disturb:
    """Another disturbance in each trial, by its number."""

    @contextmanager
    def varying(scene: Scene) -> Iterator[None]:
        with disturb(scene.number)(scene):
            yield

    return varying


def shaped_ever_less(first_bps: float, last_bps: float, duration_s: float, steps: int = 6) -> Disturb:
    """A link whose rate goes from one to the other within each trial."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        devices = bottlenecks(scene)
        is_over = threading.Event()

        def rate(step: int) -> float:
            return float(first_bps * (last_bps / first_bps) ** (step / (steps - 1)))

        def shape_to(rate_bps: float | None) -> None:
            for device in devices:
                shape_link(device, rate_bps, "tbf")

        def fall() -> None:
            for step in range(1, steps):
                if is_over.wait(duration_s / steps):
                    return
                shape_to(rate(step))

        shape_to(rate(0))
        thread = threading.Thread(target=fall)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            shape_to(None)

    return disturb
