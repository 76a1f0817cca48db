"""Result of a search that was stopped: the estimate of its method after the steps that were stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.estimate.frames import search_interval_by_metric
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.search_steps import (
    StepResult,
    collect_search_steps,
    derive_search_parameters,
    format_nonmonotonic_loss_note,
    mark_generator_limit,
)
from vnetbench.quantity import format_duration, format_exact_share, format_value
from vnetbench.results.records import GENERATOR_STEP, SEARCH_STEP, StepRecord
from vnetbench.search.interface import GoalResult
from vnetbench.search.methods import estimate_from_steps
from vnetbench.study.factors.frame_factors import FRAME_SIZE
from vnetbench.study.factors.frame_sizes import compute_mean_frame_bytes
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, SearchSpec, Study
from vnetbench.study.workloads import THROUGHPUT_METRIC_NAMES


def estimate_stopped_search(
    records: Sequence[StepRecord], study: Study, factors: Mapping[str, Level]
) -> Mapping[str, Any]:
    """Return the result of a search without a final run, in the form of a trial's search result.

    Args:
        records: All stored steps of the trial.
        study: The study of the campaign.
        factors: The levels of the treatment.

    Returns:
        `method`, `parameters`, `goal_results`, `direction_count`, `frame_bytes`, `step_count` and `steps_s`;
        empty if the trial has no search step or its method needs a library that is not installed.
    """
    spec = study.search or SearchSpec()
    if not records or records[0].purpose != GENERATOR_STEP:
        return {}
    first = StepResult(records[0])
    try:
        parameters = derive_search_parameters(spec, first, spec.time_limit_s or float("inf"))
        steps = collect_search_steps(records, parameters.goals[-1])
        goal_results = estimate_from_steps(spec.method, steps, parameters) if steps else ()
    except (ValueError, BenchError):
        return {}
    if not goal_results:
        return {}
    levels = complete_levels(factors, study.workload, study.testbed.backend)
    results = [StepResult(record) for record in records if record.purpose == SEARCH_STEP]
    return {
        "method": spec.method,
        "parameters": asdict(parameters),
        "goal_results": [mark_generator_limit(result, results).to_json() for result in goal_results],
        "direction_count": first.pair_direction_count,
        "frame_bytes": compute_mean_frame_bytes(levels[FRAME_SIZE.name]),
        "step_count": len(records),
        "steps_s": sum(record.elapsed_s for record in records),
    }


def throughput_estimates(stopped_search: Mapping[str, Any]) -> dict[str, Estimate]:
    """Return the estimates of the throughput metrics, as a trial of one search has them; may be empty."""
    if not stopped_search:
        return {}
    directions = int(stopped_search["direction_count"])
    intervals = search_interval_by_metric(stopped_search)
    estimates = {}
    for name, goal_result in zip(THROUGHPUT_METRIC_NAMES, stopped_search["goal_results"], strict=False):
        interval = intervals.get(name)
        estimates[name] = Estimate(
            directions * float(goal_result["throughput_fps"]),
            interval.low if interval else None,
            interval.high if interval else None,
            (interval.confidence or 0.0) if interval else 0.0,
            trial_count=0,
            is_from_single_search=interval is not None,
        )
    return estimates


def describe_stopped_search(stopped_search: Mapping[str, Any]) -> Iterator[str]:
    """Yield how long the search ran and the range that it reached for each goal."""
    if not stopped_search:
        return
    yield (
        f"the search has no final run: it stopped after {stopped_search['step_count']} steps in "
        f"{format_duration(stopped_search['steps_s'])}"
    )
    for result in (GoalResult.from_json(goal_result) for goal_result in stopped_search["goal_results"]):
        goal = f"for a loss of at most {format_exact_share(result.goal)}, the throughput so far is"
        low, high = (format_value(each, "frame/s") for each in (result.low_fps, result.high_fps))
        confidence = f", with {format_exact_share(result.confidence)} confidence" if result.confidence else ""
        if result.limited_by == "generator":
            yield f"{goal} at least {low} in each direction"
        else:
            yield f"{goal} between {low} and {high} in each direction{confidence}"
        if result.change_during_search != "none":
            yield f"the throughput was not constant during the search ({result.change_during_search})"
        if result.missed_load_below_kept_load_fps is not None:
            yield (
                f"for a loss of at most {format_exact_share(result.goal)}, "
                f"{format_nonmonotonic_loss_note(result.missed_load_below_kept_load_fps)}"
            )
