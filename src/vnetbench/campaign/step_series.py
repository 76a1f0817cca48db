"""Trials with a series of steps: a throughput search, a loss curve, or a search of the longest burst.

Each trial ends with a final run at the throughput, or at the requested share of it. The trial's counters,
samples and latencies are those of the final run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

from vnetbench.campaign.bursts import find_longest_bursts
from vnetbench.campaign.frame_checks import abnormal_frame_notes, format_loss_of_all_frames
from vnetbench.campaign.frame_counts import sum_step_counts
from vnetbench.campaign.schedule import MAX_SEARCH_S
from vnetbench.campaign.step_runner import StepRunner
from vnetbench.campaign.trial import StepSeries, TrialLoad, TrialMeasurement
from vnetbench.estimate.search_steps import (
    MAX_RELIABLE_PACED_SHARE,
    StepResult,
    derive_search_parameters,
    format_nonmonotonic_loss_note,
    mark_generator_limit,
)
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.quantity import format_exact_frame_rate, format_exact_share, format_value
from vnetbench.results.records import GENERATOR_STEP, LOSS_CURVE_STEP, SEARCH_STEP, StepRecord
from vnetbench.search.interface import GoalResult, SearchParameters, SentAndReceivedFrames
from vnetbench.search.methods import run_search
from vnetbench.study.factors.frame_factors import FRAME_LOAD, FRAME_SIZE
from vnetbench.study.factors.frame_sizes import compute_mean_frame_bytes, parse_throughput_share
from vnetbench.study.workloads import WORKLOADS

MAX_GENERATOR_STEP_DURATION_S = 0.5
"""Maximum duration of the first step, which measures the generator's maximum rate."""
LOSS_CURVE_STEP_SHARE_OF_MAX_LOAD = 0.05
"""Share of the maximum load between two steps of the loss curve (RFC 2544, 26.3 allows up to 10 %)."""
LOSSLESS_STEPS_TO_END_CURVE = 2
"""Number of consecutive steps without loss that end the loss curve (RFC 2544, 26.3)."""


def run_step_series_and_final_run(
    load: TrialLoad, step_series: StepSeries, measure: Callable[[TrialLoad], TrialMeasurement]
) -> TrialMeasurement:
    """Run all steps and the final run.

    Args:
        load: The load of the trial.
        step_series: The search to run, and how its steps are stored.
        measure: Runs one step, or the final run.

    Returns:
        The measurement of the final run with the records of all steps.

    Raises:
        TreatmentRefused: No frame passes, or the generator is too slow.
        TrialFailed: This machine is too busy, or a step failed.
    """
    steps = StepRunner(load, step_series, measure)
    first, parameters = _measure_generator_max_rate(steps, step_series)
    workload = WORKLOADS[load.workload]
    goal_results = (
        _measure_loss_curve(steps, parameters)
        if workload.has_loss_curve
        else _run_search(steps, parameters, step_series)
    )
    if goal_results[0].limited_by == "generator" and not goal_results[0].throughput_fps:
        minimum = format_exact_frame_rate(parameters.min_load_fps)
        what = f"the generator did not reach the smallest load, {minimum}, because this machine is too busy"
        raise steps.delete_stored_steps(TrialFailed(what))
    effective: dict[str, object] = {}
    notes = list(_search_notes(goal_results, steps.records))
    if workload.has_burst_search:
        rate_fps = steps.run(GENERATOR_STEP, None, first.record.duration_s).offered_fps_per_direction
        bursts = find_longest_bursts(steps, parameters, rate_fps)
        effective["bursts"] = {"frames": bursts, "rate_fps": rate_fps}
        if len(bursts) == 1:
            notes.append(
                f"the longest burst without loss has at least {bursts[0]} frames. The bench did not try a "
                "longer burst"
            )
    share = parse_throughput_share(load.factors.get(FRAME_LOAD.name, "")) or 1.0
    final_load_fps = max(parameters.min_load_fps, share * goal_results[0].throughput_fps)
    final_run = measure(steps.step_load(final_load_fps, load.duration_s))
    effective["search"] = {
        "method": LOSS_CURVE_STEP if workload.has_loss_curve else step_series.search_spec.method,
        "parameters": asdict(parameters),
        "goal_results": [result.to_json() for result in goal_results],
        "direction_count": first.pair_direction_count,
        "frame_bytes": compute_mean_frame_bytes(load.factors[FRAME_SIZE.name]),
        "final_load_fps": final_load_fps,
    }
    unique_notes = dict.fromkeys(
        (*notes, *abnormal_frame_notes(sum_step_counts(steps.records)), *final_run.notes)
    )
    return replace(
        final_run,
        effective={**final_run.effective, **effective},
        notes=tuple(unique_notes),
        steps=tuple(steps.records),
    )


def _measure_generator_max_rate(
    steps: StepRunner, step_series: StepSeries
) -> tuple[StepResult, SearchParameters]:
    """Measure the generator's maximum rate; return that step and the parameters of the search."""
    wanted = step_series.search_spec
    try_s = min(MAX_GENERATOR_STEP_DURATION_S, wanted.step_s)
    first = steps.run(GENERATOR_STEP, wanted.max_load_fps, try_s)
    if (
        not first.record.received
        and not steps.run(GENERATOR_STEP, wanted.min_load_fps, try_s).record.received
    ):
        no_reception = TreatmentRefused(
            format_loss_of_all_frames(sum(step.sent for step in steps.records), steps.last_endpoints),
            fix="check the device's filters, and that the device forwards frames of this size, VLAN tags "
            "and IP version",
        )
        raise steps.delete_stored_steps(no_reception)
    most_fps = wanted.max_load_fps or MAX_RELIABLE_PACED_SHARE * first.offered_fps_per_direction
    if first.is_generator_behind:
        most_fps = MAX_RELIABLE_PACED_SHARE * first.offered_fps_per_direction
    if most_fps <= wanted.min_load_fps:
        too_slow = TreatmentRefused(
            f"the generator sends at most {format_value(first.offered_fps_per_direction, 'frame/s')} "
            f"in each direction, but search.min_load is {format_exact_frame_rate(wanted.min_load_fps)}",
            where="search.min_load",
            fix="lower search.min_load, or use more generators",
        )
        raise steps.delete_stored_steps(too_slow)
    return first, derive_search_parameters(wanted, first, wanted.time_limit_s or MAX_SEARCH_S)


def _run_search(
    steps: StepRunner, parameters: SearchParameters, step_series: StepSeries
) -> tuple[GoalResult, ...]:
    results: list[StepResult] = []

    class MeasuredDevice:
        """Adapter that lets a search run steps on the real device."""

        def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
            first = len(steps.records)
            step = steps.run_repeating_if_generator_behind(
                parameters.goals[-1], SEARCH_STEP, load_fps, duration_s
            )
            results.append(step)
            return step.frame_counts_for_search(sum(each.elapsed_s for each in steps.records[first:]))

    search_result = run_search(
        step_series.search_spec.method,
        MeasuredDevice(),
        parameters,
        step_series.seed,
        step_series.report_estimate,
    )
    return tuple(mark_generator_limit(result, results) for result in search_result.goal_results)


def _measure_loss_curve(steps: StepRunner, parameters: SearchParameters) -> tuple[GoalResult, ...]:
    """Measure steps from the maximum load down.

    Returns:
        For each goal, the highest load at which it and all lower loads keep the goal.
    """
    results: list[StepResult] = []
    for number in range(round(1 / LOSS_CURVE_STEP_SHARE_OF_MAX_LOAD)):
        load_fps = parameters.max_load_fps * (1 - LOSS_CURVE_STEP_SHARE_OF_MAX_LOAD * number)
        if load_fps < parameters.min_load_fps:
            break
        results.append(
            steps.run_repeating_if_generator_behind(
                parameters.goals[-1], LOSS_CURVE_STEP, load_fps, parameters.step_s
            )
        )
        last = results[-LOSSLESS_STEPS_TO_END_CURVE:]
        if len(last) == LOSSLESS_STEPS_TO_END_CURVE and not any(step.record.loss_ratio for step in last):
            break
    return tuple(_result_from_loss_curve(results, goal) for goal in parameters.goals)


def _result_from_loss_curve(results: Sequence[StepResult], goal: float) -> GoalResult:
    low = 0.0
    for step in reversed(results):
        load_fps = step.record.load_fps or 0.0
        if step.record.loss_ratio > goal:
            return GoalResult(goal, low, low, load_fps, None, "device" if low else "nothing passes")
        if step.is_generator_behind:
            break
        low = load_fps
    return GoalResult(goal, low, low, low, None, "generator")


def _search_notes(goal_results: Sequence[GoalResult], steps: Sequence[StepRecord]) -> Iterator[str]:
    lowest = min(step.load_fps for step in steps if step.load_fps is not None)
    for result in goal_results:
        goal = f"for a loss of at most {format_exact_share(result.goal)}"
        low, high = (format_value(each, "frame/s") for each in (result.low_fps, result.high_fps))
        if result.change_during_search != "none":
            yield (
                f"{goal}, the throughput was not constant during the search ({result.change_during_search}). "
                f"It was between {low} and {high} in each direction"
            )
        elif result.limited_by == "generator":
            yield (
                f"{goal}, the throughput is at least {low} in each direction. The generator offered no "
                "higher load"
            )
        elif result.limited_by == "nothing passes":
            yield (
                f"{goal}, the device has no throughput: it lost more at the lowest load, "
                f"{format_value(lowest, 'frame/s')} in each direction"
            )
        elif result.limited_by == "time":
            yield f"{goal}, the search stopped at its time limit between {low} and {high} in each direction"
        if result.missed_load_below_kept_load_fps is not None:
            yield f"{goal}, {format_nonmonotonic_loss_note(result.missed_load_below_kept_load_fps)}"
