"""Interface of throughput searches: parameters, the device under test, steps and results.

Loads and throughputs are frames/s *per direction*. Counts are sums over all directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

LimitOfThroughput = Literal["device", "generator", "nothing passes", "time"]
ThroughputChange = Literal["none", "drift", "disturbance"]
"""How a throughput changed during a search: not shown, for the rest of the search, or for a part of it."""
_STORED_KEY_BY_FIELD = {"change_during_search": "change", "missed_load_below_kept_load_fps": "lossy_load_fps"}
"""Keys of a `GoalResult` in results files that differ from its fields."""


@dataclass(frozen=True)
class SentAndReceivedFrames:
    """Frames of one step over all directions: frames sent, and distinct frames received."""

    sent: int
    received: int
    elapsed_s: float | None = None
    """Duration of the step by the clock with its set-up and settling; None if the device has no clock."""


class Device(Protocol):
    """A device under test between a generator and a sink."""

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        """Offer this load for this time, wait until the device has settled, and return the counts."""
        ...


@dataclass(frozen=True)
class SearchStep:
    """One finished step of a search."""

    load_fps: float
    duration_s: float
    sent: int
    received: int
    elapsed_s: float | None = None
    """See `SentAndReceivedFrames`."""

    @property
    def loss_ratio(self) -> float:
        """Share of the sent frames that were not received, 0..1; 0 if none were sent."""
        return max(0, self.sent - self.received) / self.sent if self.sent else 0.0


@dataclass(frozen=True)
class SearchParameters:
    """Parameters of a search.

    Raises:
        ValueError: A parameter is out of range.
    """

    goals: tuple[float, ...]
    """Accepted frame loss ratios, ascending."""
    relative_width: float
    """Maximum width of a result's interval, as a share of its lower end."""
    min_load_fps: float
    max_load_fps: float
    step_s: float
    """Duration of a full step. The throughput is defined by the loss in steps of this duration."""
    confidence: float = 0.95
    time_limit_s: float = 600.0
    """Limit of the total duration of all steps, each with its set-up and settling."""
    settle_s: float = 0.1
    """Time after each step in which the device settles."""

    def __post_init__(self) -> None:
        if not self.goals or list(self.goals) != sorted(set(self.goals)):
            raise ValueError(f"goals must be ascending loss ratios, at least one, not {self.goals}")
        if not (self.goals[0] >= 0 and self.goals[-1] < 1):
            raise ValueError(f"a goal is a loss ratio from 0 to below 1, not {self.goals}")
        if not 0 < self.min_load_fps < self.max_load_fps:
            raise ValueError(
                f"loads must be above 0 and ascending: min {self.min_load_fps:g}, max {self.max_load_fps:g}"
                " frames/s"
            )
        if not (0 < self.relative_width < 1 and 0 < self.confidence < 1):
            raise ValueError(
                f"width and confidence must be between 0 and 1, not {self.relative_width:g} and"
                f" {self.confidence:g}"
            )
        if not (self.step_s > 0 and self.settle_s >= 0 and self.time_limit_s > 0):
            raise ValueError("the durations of a search must be above 0")


@dataclass(frozen=True)
class GoalResult:
    """The throughput for one goal as a load per direction, with its interval."""

    goal: float
    throughput_fps: float
    """0 if no load passes."""
    low_fps: float
    high_fps: float
    """`max_load_fps` if the generator is the limit: the throughput is at least that."""
    confidence: float | None
    """Probability that the interval contains the throughput; None if the method does not provide it."""
    limited_by: LimitOfThroughput
    change_during_search: ThroughputChange = "none"
    """If the throughput changed during the search, `low_fps` to `high_fps` is its range."""
    missed_load_below_kept_load_fps: float | None = None
    """A load that misses the goal although higher loads keep it; None if none was found. The throughput is
    below it, so higher loads that keep the goal do not count."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> GoalResult:
        """Return a result of a results file."""
        field_by_key = {key: field for field, key in _STORED_KEY_BY_FIELD.items()}
        return cls(**{field_by_key.get(key, key): value for key, value in stored.items()})

    def to_json(self) -> dict[str, Any]:
        """Return the result in the form that results files store."""
        return {_STORED_KEY_BY_FIELD.get(field, field): value for field, value in asdict(self).items()}


@dataclass(frozen=True)
class SearchResult:
    """One result per goal in the order of the goals, and all steps in the order of measurement."""

    goal_results: tuple[GoalResult, ...]
    steps: tuple[SearchStep, ...]


@dataclass(frozen=True)
class SearchEstimate:
    """What a running search knows after a step."""

    goal_results: tuple[GoalResult, ...]
    expected_remaining_s: float
    """Expected time until the search is complete."""


def total_time_with_settling_s(steps: Iterable[SearchStep], settle_s: float) -> float:
    """Return the total duration of these steps in seconds, including their settling times."""
    return sum(step.duration_s + settle_s for step in steps)
