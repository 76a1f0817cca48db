"""The description of how a campaign was measured: load, order, warm-up, stopping rule and estimate."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.imported_trials import describe_logs_by_tool
from vnetbench.estimate.summary import CampaignSummary, TrialPoint
from vnetbench.quantity import format_count, format_duration, format_exact_duration, format_exact_share
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.wording.estimate_text import metric_noun


def describe_method(summary: CampaignSummary) -> tuple[tuple[str, str], ...]:
    """Return pairs of a heading and its text."""
    return tuple(
        _imported_method(summary) if summary.testbed_backend == IMPORTED_LAB else _campaign_method(summary)
    )


def _imported_method(summary: CampaignSummary) -> Iterator[tuple[str, str]]:
    points = _trials_of_all_treatments(summary)
    yield (
        "Load",
        f"{summary.workload}, {_trial_durations_text(points)}, run by another tool. "
        f"Imported from its logs: {'; '.join(describe_logs_by_tool(points))}.",
    )
    yield (
        "Order",
        "The order of the logs. It was not randomized, so a drift of the machine may look like an effect.",
    )
    yield (
        "Warm-up",
        "The tool leaves out the warm-up. If the tool left out nothing, vnetbench detects and leaves out "
        "the warm-up in the reported intervals, and recalculates the values that the intervals contain. If "
        "there is no warm-up, the values are the tool's own.",
    )
    yield (
        "Estimate",
        "The median of the trials with an order-statistic interval. The interval includes the rounding of "
        "the reported values. Outliers are marked and kept. With 20 trials or more, vnetbench tests for two "
        "modes and reports both.",
    )
    yield "Trials", f"{format_count(len(points))} trials in the logs."


def _campaign_method(summary: CampaignSummary) -> Iterator[tuple[str, str]]:
    points = _trials_of_all_treatments(summary)
    precision = summary.required_precision
    yield (
        "Load",
        f"{summary.workload}, {_trial_durations_text(points)}. {_trial_duration_sentence(summary)}"
        f"{_idle_phase_sentence(summary)}",
    )
    yield (
        "Order",
        f"Each block runs every treatment once in random order (seed {summary.seed}), so that a drift of the "
        "machine does not look like an effect.",
    )
    yield "Warm-up", _warmup_text(summary)
    limit = precision.campaign_time_limit_s
    time_limit = f" The time limit of the campaign is {format_duration(limit)}." if limit else ""
    yield (
        "Stopping",
        f"Each treatment runs until the {format_exact_share(precision.confidence)} interval of its "
        f"{metric_noun(summary.deciding_metric)} is within ± {format_exact_share(precision.half_width)}: "
        f"at least {precision.min_trials} trials, at most {precision.max_trials}.{time_limit}",
    )
    yield (
        "Estimate",
        "The median of the trials with an order-statistic interval, corrected for the interim analyses. "
        "Outliers are marked and kept. With 20 trials or more, vnetbench tests for two modes and reports "
        "both.",
    )
    yield "Trials", f"{format_count(len(points))} finished in {format_duration(summary.elapsed_s)}."


def _trials_of_all_treatments(summary: CampaignSummary) -> list[TrialPoint]:
    return [point for treatment in summary.treatments for point in treatment.points]


def _trial_durations_text(points: list[TrialPoint]) -> str:
    durations_s = [point.duration_s for point in points]
    if not durations_s:
        return "no trial finished"
    low, high = format_duration(min(durations_s)), format_duration(max(durations_s))
    return f"trials of {low} each" if low == high else f"trials that last {low} to {high} each"


def _trial_duration_sentence(summary: CampaignSummary) -> str:
    interval = format_exact_duration(summary.timing.interval_s)
    if summary.timing.duration_s is None:
        return f"vnetbench chose the trial length from the first trials. The sampling interval is {interval}."
    return f"The study sets the trial length. The sampling interval is {interval}."


def _idle_phase_sentence(summary: CampaignSummary) -> str:
    """Return the sentence on the idle phase before the load; empty without idle phases."""
    counts = {len(point.idle_time_series) for point in _trials_of_all_treatments(summary)}
    if not any(counts):
        return ""
    low, high = (format_duration(count * summary.timing.interval_s) for count in (min(counts), max(counts)))
    duration = low if low == high else f"{low} to {high}"
    return f" Before the load starts, each trial sends only requests for {duration}."


def _warmup_text(summary: CampaignSummary) -> str:
    if summary.timing.warmup_s == 0:
        return "None: the estimates use each trial from its start."
    if summary.timing.warmup_s is not None:
        return (
            f"The first {format_exact_duration(summary.timing.warmup_s)} of each trial, as the study sets it."
        )
    points = _trials_of_all_treatments(summary)
    method = (
        "vnetbench detects the warm-up in each treatment's samples. It ends at the last change of the level."
    )
    if not points:
        return method
    warmups_s = sorted(point.warmup_s for point in points)
    median, most = (
        format_duration(each) if each else "none" for each in (warmups_s[len(warmups_s) // 2], warmups_s[-1])
    )
    text = f"{method} The median warm-up is {median}, and the longest warm-up is {most}."
    unsteady = sum(not point.has_steady_state for point in points)
    if unsteady:
        text += f" {format_count(unsteady)} of {format_count(len(points))} trials reached no steady state."
    return text
