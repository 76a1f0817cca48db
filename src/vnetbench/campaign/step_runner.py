"""Running the steps of a trial: each on disk when it is over, and fed again when the trial goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from vnetbench.campaign.frame_counts import counts_of
from vnetbench.campaign.frame_checks import fell_behind
from vnetbench.campaign.trial import Abandoned, Load, Measured, Series
from vnetbench.estimate.frame_losses import counted
from vnetbench.results.records import SideRecord, StepRecord
from vnetbench.study.factors.frame_factors import AS_FAST_AS_IT_GOES


@dataclass(frozen=True)
class Step:
    """A step of this trial as it went."""

    record: StepRecord

    @property
    def ways(self) -> int:
        """Directions of all pairs together: the load is offered in each of them."""
        return int(str(self.record.details["ways"]))

    @property
    def offered_fps(self) -> float:
        """What was really offered in each direction."""
        return self.record.sent / self.record.duration_s / self.ways

    @property
    def due(self) -> int:
        """Frames that were asked for, over all directions; as many as were sent where it was left open."""
        record = self.record
        if record.burst_frames is not None:
            return record.burst_frames * self.ways
        if record.load_fps is None:
            return record.sent
        return round(record.load_fps * record.duration_s) * self.ways

    @property
    def fell_behind(self) -> bool:
        """Whether the generator did not send what was asked of it: what is lost then is not the device's."""
        return fell_behind(self.record.sent, self.due, self.ways)


Error = TypeVar("Error", bound=Exception)
ATTEMPTS = 3
"""So often a step is tried that the generator falls behind in."""


class Steps:
    """The steps of one trial, in order. Those that an earlier session had are not measured again."""

    def __init__(self, load: Load, series: Series, measure: Callable[[Load], Measured]) -> None:
        self.over: list[StepRecord] = []
        self.latest: tuple[SideRecord, ...] = ()
        """What every side counted in the latest step that was measured here."""
        self._load = load
        self._keep = series.keep
        self._forget = series.forget
        self._is_left = series.is_left
        self._measure = measure
        self._earlier = series.recorded()

    def run(
        self, purpose: str, load_fps: float | None, duration_s: float, burst_frames: int | None = None
    ) -> Step:
        """One more step; raises what a trial raises, Abandoned too."""
        asked = StepRecord(len(self.over), purpose, load_fps, burst_frames, duration_s, 0.0, 0.0, 0, 0)
        if _is_known(asked, self._earlier):
            step = self._earlier[asked.number]
        else:
            # The series goes another way than it did, or on: what it had after this is of no use.
            self._earlier = self._earlier[: asked.number]
            if self._is_left():
                raise Abandoned
            step = self._measured(asked)
            self._keep(step)
        self.over.append(step)
        return Step(step)

    def held(
        self,
        goal: float,
        purpose: str,
        load_fps: float | None,
        duration_s: float,
        burst_frames: int | None = None,
    ) -> Step:
        """The same, tried again where the generator fell behind, and the device kept the goal of what came.

        Where it did not, at a load that was even lower than the one asked for, nothing is left to try.
        """
        for _ in range(ATTEMPTS):
            step = self.run(purpose, load_fps, duration_s, burst_frames)
            if not step.fell_behind or step.record.loss_ratio > goal:
                break
        return step

    def void(self, error: Error) -> Error:
        """The error, once what it rests on is forgotten: whoever tries again measures it again."""
        self._forget()
        return error

    def load_of(self, load_fps: float | None, duration_s: float, burst_frames: int | None = None) -> Load:
        """The load of a single run of this trial."""
        level = AS_FAST_AS_IT_GOES if load_fps is None else load_fps
        factors = {**self._load.factors, "frame_load": level}
        return replace(
            self._load, factors=factors, duration_s=duration_s, burst_frames=burst_frames, series=None
        )

    def _measured(self, asked: StepRecord) -> StepRecord:
        began = time.monotonic()
        found = self._measure(self.load_of(asked.load_fps, asked.duration_s, asked.burst_frames))
        self.latest = found.sides
        counts = counts_of(found.sides, self._load.factors)
        return replace(
            asked,
            took_s=time.monotonic() - began,
            sent=counts.all_sent,
            received=counts.all_received,
            details={**counts.as_json(), "counted": counted(found.sides, found.effective)},
        )


def _is_known(asked: StepRecord, earlier: tuple[StepRecord, ...]) -> bool:
    if asked.number >= len(earlier):
        return False
    known = earlier[asked.number]
    return (asked.purpose, asked.load_fps, asked.burst_frames, asked.duration_s) == (
        known.purpose, known.load_fps, known.burst_frames, known.duration_s,
    )  # fmt: skip
