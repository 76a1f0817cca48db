"""Steps of a search as they were stored, and what they show to the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vnetbench.quantity import format_value
from vnetbench.results.records import SEARCH_STEP, StepRecord
from vnetbench.search.interface import (
    GoalResult,
    SearchParameters,
    SearchStep,
    SentAndReceivedFrames,
)
from vnetbench.study.model import SearchSpec

MAX_RELIABLE_PACED_SHARE = 0.97
"""Share of the generator's maximum rate that it reaches reliably when it paces frames."""
MIN_SENT_SHARE_OF_DUE = 0.98
"""Share of the frames due. If the generator sends fewer, the generator is the limit, not the device."""
MAX_ATTEMPTS_IF_GENERATOR_BEHIND = 3
"""Maximum number of attempts of a step in which the generator falls behind."""


@dataclass(frozen=True)
class StepResult:
    """A finished step of this trial."""

    record: StepRecord

    @property
    def pair_direction_count(self) -> int:
        """Number of directions of all pairs together. The load is offered in each of them."""
        return int(str(self.record.details["direction_count"]))

    @property
    def offered_fps_per_direction(self) -> float:
        """Offered load in each direction as measured, frames/s."""
        return self.record.sent / self.record.duration_s / self.pair_direction_count

    @property
    def frames_due(self) -> int:
        """Frames requested over all directions. If no load was requested, the frames that were sent."""
        record = self.record
        if record.burst_frames is not None:
            return record.burst_frames * self.pair_direction_count
        if record.load_fps is None:
            return record.sent
        return round(record.load_fps * record.duration_s) * self.pair_direction_count

    @property
    def is_generator_behind(self) -> bool:
        """Whether the generator sent less than requested, so that the device is not the limit."""
        return is_generator_behind(self.record.sent, self.frames_due, self.pair_direction_count)

    def needs_repeat_for_slow_generator(self, goal: float) -> bool:
        """Return whether the generator fell behind although the loss ratio was within `goal`.

        If the loss ratio exceeds `goal` although the offered load was too low, a repetition cannot help.
        """
        return self.is_generator_behind and self.record.loss_ratio <= goal

    def frame_counts_for_search(self, elapsed_s: float) -> SentAndReceivedFrames:
        """Return the counts that a search uses; `elapsed_s` is the duration of all attempts of this step.

        Frames that the generator did not send count as lost, so that the search does not accept the load.
        """
        sent = max(self.record.sent, self.frames_due) if self.is_generator_behind else self.record.sent
        return SentAndReceivedFrames(sent, self.record.received, elapsed_s)


def is_generator_behind(sent: int, due: int, pair_direction_count: int) -> bool:
    """Return whether the generators sent less than was due; each may lose one frame at the end."""
    return sent < MIN_SENT_SHARE_OF_DUE * (due - pair_direction_count)


def derive_search_parameters(spec: SearchSpec, first: StepResult, time_limit_s: float) -> SearchParameters:
    """Return the parameters of a search.

    Raises:
        ValueError: The generator's maximum rate, which the first step measured, is below the minimum load.
    """
    offered_fps = MAX_RELIABLE_PACED_SHARE * first.offered_fps_per_direction
    return SearchParameters(
        goals=spec.loss_goal_ratios,
        relative_width=spec.relative_width,
        min_load_fps=spec.min_load_fps,
        max_load_fps=offered_fps if first.is_generator_behind else spec.max_load_fps or offered_fps,
        step_s=spec.step_s,
        confidence=spec.confidence,
        time_limit_s=time_limit_s,
        settle_s=spec.residual_frames_wait_s,
    )


def collect_search_steps(records: Sequence[StepRecord], laxest_goal: float) -> tuple[SearchStep, ...]:
    """Return the finished steps of the search in order; repeated attempts count as one step.

    Args:
        records: All stored steps of the trial.
        laxest_goal: The laxest loss ratio of the search.
    """
    steps: list[SearchStep] = []
    attempts: list[StepResult] = []
    for record in records:
        if record.purpose != SEARCH_STEP:
            continue
        attempts.append(StepResult(record))
        if (
            attempts[-1].needs_repeat_for_slow_generator(laxest_goal)
            and len(attempts) < MAX_ATTEMPTS_IF_GENERATOR_BEHIND
        ):
            continue
        counts = attempts[-1].frame_counts_for_search(sum(each.record.elapsed_s for each in attempts))
        steps.append(
            SearchStep(
                record.load_fps or 0.0, record.duration_s, counts.sent, counts.received, counts.elapsed_s
            )
        )
        attempts = []
    return tuple(steps)


def mark_generator_limit(result: GoalResult, results: Sequence[StepResult]) -> GoalResult:
    """Return the result with `limited_by` generator if the generator failed at the next higher load."""
    above = [step for step in results if (step.record.load_fps or 0.0) > result.throughput_fps]
    failed = [step for step in above if step.is_generator_behind or step.record.loss_ratio > result.goal]
    if result.limited_by not in ("device", "nothing passes") or not failed:
        return result
    nearest = min(failed, key=lambda step: step.record.load_fps or 0.0)
    is_generator = nearest.is_generator_behind and nearest.record.loss_ratio <= result.goal
    return replace(result, limited_by="generator") if is_generator else result


def format_nonmonotonic_loss_note(load_fps: float) -> str:
    """Return the note about a load that misses the goal although higher loads keep it."""
    return (
        f"the device has no single limit: it missed this goal at {format_value(load_fps, 'frame/s')} in each "
        "direction, but met it at higher loads. The reported throughput is below the missed load"
    )
