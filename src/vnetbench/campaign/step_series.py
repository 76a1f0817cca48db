"""Trials that are a series of steps: a search of the throughput, a course of loss, the longest bursts.

Each ends with a run at the throughput, or at the share of it that is asked for: its counters, samples and
latencies are the trial's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

from vnetbench.campaign.bursts import longest_bursts
from vnetbench.campaign.frame_counts import total_of
from vnetbench.campaign.frame_checks import frame_remarks, nothing_passes
from vnetbench.campaign.schedule import LONGEST_SEARCH_S
from vnetbench.campaign.step_runner import Step, Steps
from vnetbench.campaign.trial import Load, Measured, Series
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.quantity import format_value, spell_frame_rate, spell_share
from vnetbench.results.records import CURVE, GENERATOR, SEARCH, StepRecord
from vnetbench.search.interface import Answer, Counted, SearchParameters
from vnetbench.search.methods import find
from vnetbench.study.factors.frame_sizes import mean_bytes, share_of_throughput
from vnetbench.study.workloads import BACK_TO_BACK, FRAME_LOSS

GENERATOR_S = 0.5
"""How long the highest load is tried first, at most; a step may be shorter."""
MOST_SHARE = 0.97
"""Of what the generator does as fast as it goes: what it is sure to keep when it is paced."""
CURVE_STEP = 0.05
"""Of the highest load: each step of the course of loss is lower by this (RFC 2544, 26.3: a tenth at most)."""
LOSSLESS_STEPS = 2
"""So many steps in a row without loss end the course (RFC 2544, 26.3)."""


def run_series(load: Load, series: Series, measure: Callable[[Load], Measured]) -> Measured:
    """Run the steps, and the run that is returned; `measure` runs one of either.

    Raises TreatmentRefused where nothing passes, and what a trial raises.
    """
    steps = Steps(load, series, measure)
    first, asked = _bounds(steps, series)
    is_course = load.workload == FRAME_LOSS
    answers = _course(steps, asked) if is_course else _search(steps, asked, series)
    if answers[0].limited_by == "generator" and not answers[0].throughput_fps:
        too_busy = (
            f"the generator did not hold even {spell_frame_rate(asked.least_fps)}: this machine was too busy"
        )
        raise steps.void(TrialFailed(too_busy))
    found: dict[str, object] = {}
    remarked = list(_remarks(answers, steps.over))
    if load.workload == BACK_TO_BACK:
        rate_fps = steps.run(GENERATOR, None, first.record.duration_s).offered_fps
        longest = longest_bursts(steps, asked, rate_fps)
        found["bursts"] = {"frames": longest, "rate_fps": rate_fps}
        if len(longest) == 1:
            remarked.append(f"the longest burst has at least {longest[0]} frames: no longer one was sent")
    share = share_of_throughput(load.factors.get("frame_load", "")) or 1.0
    at_fps = max(asked.least_fps, share * answers[0].throughput_fps)
    run = measure(steps.load_of(at_fps, load.duration_s))
    found["search"] = {
        "method": CURVE if is_course else series.asked.method,
        "asked": asdict(asked),
        "answers": [asdict(answer) for answer in answers],
        "ways": first.ways,
        "frame_bytes": mean_bytes(load.factors["frame_size"]),
        "run_fps": at_fps,
    }
    notes = dict.fromkeys((*remarked, *frame_remarks(total_of(steps.over)), *run.notes))
    return replace(run, effective={**run.effective, **found}, notes=tuple(notes), steps=tuple(steps.over))


def _bounds(steps: Steps, series: Series) -> tuple[Step, SearchParameters]:
    """The step at the highest load, which says what the generator can, and what is searched between."""
    wanted = series.asked
    try_s = min(GENERATOR_S, wanted.step_s)
    first = steps.run(GENERATOR, wanted.most_load_fps, try_s)
    if not first.record.received and not steps.run(GENERATOR, wanted.least_load_fps, try_s).record.received:
        deaf = TreatmentRefused(
            nothing_passes(sum(step.sent for step in steps.over), steps.latest),
            fix="see that the device forwards these frames: their size, tags and version of IP, its filters",
        )
        raise steps.void(deaf)
    most_fps = wanted.most_load_fps or MOST_SHARE * first.offered_fps
    if first.fell_behind:
        most_fps = MOST_SHARE * first.offered_fps
    if most_fps <= wanted.least_load_fps:
        too_slow = TreatmentRefused(
            f"the generator sends {format_value(first.offered_fps, 'frame/s')} at most in each direction, "
            f"and the search begins at {spell_frame_rate(wanted.least_load_fps)}",
            where="search.least_load",
            fix="lower it, or take more generators",
        )
        raise steps.void(too_slow)
    return first, SearchParameters(
        goals=wanted.goals,
        width=wanted.width,
        least_fps=wanted.least_load_fps,
        most_fps=most_fps,
        step_s=wanted.step_s,
        confidence=wanted.confidence,
        time_limit_s=wanted.time_limit_s or LONGEST_SEARCH_S,
        settle_s=wanted.settle_s,
    )


def _search(steps: Steps, asked: SearchParameters, series: Series) -> tuple[Answer, ...]:
    tried: list[Step] = []

    class Tested:
        """The device as a search sees it."""

        def measure(self, load_fps: float, duration_s: float) -> Counted:
            step = steps.held(asked.goals[-1], SEARCH, load_fps, duration_s)
            tried.append(step)
            # What the generator never sends has not passed either: the load is none that was held.
            sent = max(step.record.sent, step.due) if step.fell_behind else step.record.sent
            return Counted(sent, step.record.received)

    found = find(series.asked.method, Tested(), asked, series.seed)
    return tuple(_rightly_limited(answer, tried) for answer in found.answers)


def _rightly_limited(answer: Answer, tried: Sequence[Step]) -> Answer:
    """The answer, limited by the generator where that, and not the device, failed at the next higher load."""
    above = [step for step in tried if (step.record.load_fps or 0.0) > answer.throughput_fps]
    failed = [step for step in above if step.fell_behind or step.record.loss_ratio > answer.goal]
    if answer.limited_by not in ("device", "nothing passes") or not failed:
        return answer
    nearest = min(failed, key=lambda step: step.record.load_fps or 0.0)
    is_generator = nearest.fell_behind and nearest.record.loss_ratio <= answer.goal
    return replace(answer, limited_by="generator") if is_generator else answer


def _course(steps: Steps, asked: SearchParameters) -> tuple[Answer, ...]:
    """Steps from the highest load down; for each goal the highest load that kept it, and all lower ones."""
    tried: list[Step] = []
    for number in range(round(1 / CURVE_STEP)):
        load_fps = asked.most_fps * (1 - CURVE_STEP * number)
        if load_fps < asked.least_fps:
            break
        tried.append(steps.held(asked.goals[-1], CURVE, load_fps, asked.step_s))
        last = tried[-LOSSLESS_STEPS:]
        if len(last) == LOSSLESS_STEPS and not any(step.record.loss_ratio for step in last):
            break
    return tuple(_from_course(tried, goal) for goal in asked.goals)


def _from_course(tried: Sequence[Step], goal: float) -> Answer:
    low = 0.0
    for step in reversed(tried):
        load_fps = step.record.load_fps or 0.0
        if step.record.loss_ratio > goal:
            return Answer(goal, low, low, load_fps, None, "device" if low else "nothing passes")
        if step.fell_behind:
            break
        low = load_fps
    return Answer(goal, low, low, low, None, "generator")


def _remarks(answers: Sequence[Answer], steps: Sequence[StepRecord]) -> Iterator[str]:
    lowest = min(step.load_fps for step in steps if step.load_fps is not None)
    for answer in answers:
        within = f"within a loss of {spell_share(answer.goal)}"
        low, high = (format_value(each, "frame/s") for each in (answer.low_fps, answer.high_fps))
        if answer.limited_by == "generator":
            yield (
                f"{within} the throughput is at least {low} in each direction: no higher load could be, or "
                "was to be, offered"
            )
        elif answer.limited_by == "nothing passes":
            yield f"{within} not even {format_value(lowest, 'frame/s')} in each direction passes"
        elif answer.limited_by == "time":
            yield f"{within} the search ended by its time limit, between {low} and {high} in each direction"
