"""What a search asks, what it measures, and what it finds: loads and counts, not where they come from.

Loads are frames/s *for each direction*; counts are over all directions. A throughput is a load too: whoever
knows the number of directions multiplies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

LimitedBy = Literal["device", "generator", "nothing passes", "time"]


@dataclass(frozen=True)
class FrameCount:
    """Frames of one step, over all directions: sent, and distinct ones received."""

    sent: int
    received: int


class Device(Protocol):
    """A device under test between a generator and a sink."""

    def measure(self, load_fps: float, duration_s: float) -> FrameCount:
        """Offer this load for this time, wait until the device has settled, and count."""
        ...


@dataclass(frozen=True)
class SearchStep:
    """One step of a search that is over."""

    load_fps: float
    duration_s: float
    sent: int
    received: int

    @property
    def loss_ratio(self) -> float:
        """Share of the frames sent that were not received, 0..1; 0 where none were sent."""
        return max(0, self.sent - self.received) / self.sent if self.sent else 0.0


@dataclass(frozen=True)
class SearchParameters:
    """What is to be found, and how sure it is to be.

    Raises ValueError for what cannot be asked.
    """

    goals: tuple[float, ...]
    """Accepted frame loss ratios, ascending."""
    relative_width: float
    """How wide an answer's interval may be, as a share of its lower end."""
    min_load_fps: float
    max_load_fps: float
    step_s: float
    """Length of a full step: what counts is the loss at steps of this length."""
    confidence: float = 0.95
    time_limit_s: float = 600.0
    """Of all steps together, each with its `settle_s`."""
    settle_s: float = 0.1
    """What each step costs beside its own length."""

    def __post_init__(self) -> None:
        if not self.goals or list(self.goals) != sorted(set(self.goals)):
            raise ValueError(f"goals must be ascending loss ratios, at least one, not {self.goals}")
        if not (self.goals[0] >= 0 and self.goals[-1] < 1):
            raise ValueError(f"a goal is a loss ratio from 0 to below 1, not {self.goals}")
        if not 0 < self.min_load_fps < self.max_load_fps:
            raise ValueError(
                f"loads must rise from above 0: least {self.min_load_fps:g}, most {self.max_load_fps:g} frames/s"
            )
        if not (0 < self.relative_width < 1 and 0 < self.confidence < 1):
            raise ValueError(
                f"width and confidence lie between 0 and 1, not at {self.relative_width:g} and {self.confidence:g}"
            )
        if not (self.step_s > 0 and self.settle_s >= 0 and self.time_limit_s > 0):
            raise ValueError("times of a search must be above 0")


@dataclass(frozen=True)
class GoalResult:
    """The throughput for one goal: a load for each direction, with its interval."""

    goal: float
    throughput_fps: float
    """0 where nothing passes."""
    low_fps: float
    high_fps: float
    """`most_fps` where the generator was the limit: the throughput is then at least that."""
    confidence: float | None
    """That the interval holds the truth, 0..1; None where the method has no notion of it."""
    limited_by: LimitedBy


@dataclass(frozen=True)
class SearchResult:
    """One answer for each goal, in the order asked, and all steps in the order measured."""

    goal_results: tuple[GoalResult, ...]
    steps: tuple[SearchStep, ...]


def total_time_s(steps: Iterable[SearchStep], settle_s: float) -> float:
    """The trial time of these steps, seconds, what each costs beside its length included."""
    return sum(step.duration_s + settle_s for step in steps)
