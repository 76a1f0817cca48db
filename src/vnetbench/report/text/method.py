"""How a campaign was measured, in the words of its own settings: load, order, warm-up, stopping, estimate."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.imported_trials import list_sources
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.quantity import format_count, format_duration, format_exact_duration, format_exact_share
from vnetbench.study.labs import IMPORTED
from vnetbench.wording.estimate_text import metric_noun


def describe_method(summary: CampaignSummary) -> tuple[tuple[str, str], ...]:
    """Pairs of a heading and what is to be said under it."""
    return tuple(_imported_method(summary) if summary.kind == IMPORTED else _campaign_method(summary))


def _imported_method(summary: CampaignSummary) -> Iterator[tuple[str, str]]:
    points = [point for treatment in summary.treatments for point in treatment.points]
    yield (
        "Load",
        f"{summary.workload}, {_trial_length_text([point.duration_s for point in points])}, run by another tool. "
        f"Imported from its logs: {'; '.join(list_sources(points))}.",
    )
    yield (
        "Order",
        "As the logs tell it. Nothing was drawn at random: a machine that drifts may look like an effect.",
    )
    yield (
        "Warm-up",
        "What the tool omitted; where it omitted nothing, what the bench finds in its intervals is cut, and "
        "figures that the intervals tell are those of the rest. Where nothing was cut they are the tool's.",
    )
    yield (
        "Estimate",
        "The median of the trials, with an interval made of ordered trials. What rounding hid in the figures "
        "widens it. Outliers are marked and kept. Two modes are looked for from 20 trials on, and shown as "
        "two.",
    )
    yield "Trials", f"{format_count(len(points))}, as the logs have them."


def _campaign_method(summary: CampaignSummary) -> Iterator[tuple[str, str]]:
    points = [point for treatment in summary.treatments for point in treatment.points]
    confidence = format_exact_share(summary.precision.confidence)
    yield (
        "Load",
        f"{summary.workload}, {_trial_length_text([point.duration_s for point in points])}. "
        + _duration_sentence(summary)
        + _idle_sentence(summary),
    )
    yield (
        "Order",
        "Every treatment once in each block, the order within a block drawn at random "
        f"(seed {summary.seed}), so that a machine that drifts does not look like an effect.",
    )
    yield "Warm-up", _warmup_text(summary)
    limit = summary.precision.time_limit_s
    yield (
        "Stopping",
        f"A treatment is repeated until the {confidence} interval of its "
        f"{metric_noun(summary.main_metric)} is as narrow as ± {format_exact_share(summary.precision.half_width)}: "
        f"at least {summary.precision.fewest_trials} trials, "
        f"at most {summary.precision.most_trials}"
        + (f", and no longer than {format_duration(limit)} for the campaign." if limit else "."),
    )
    yield (
        "Estimate",
        "The median of the trials, with an interval made of ordered trials that allows for having looked "
        "at them repeatedly. Outliers are marked and kept. Two modes are looked for from 20 trials on, and "
        "shown as two.",
    )
    yield "Trials", f"{format_count(len(points))} finished in {format_duration(summary.elapsed_s)}."


def _trial_length_text(durations: list[float]) -> str:
    if not durations:
        return "no trial finished"
    low, high = format_duration(min(durations)), format_duration(max(durations))
    return f"trials of {low}" if low == high else f"trials of {low} to {high}"


def _duration_sentence(summary: CampaignSummary) -> str:
    interval = format_exact_duration(summary.timing.interval_s)
    if summary.timing.duration_s is None:
        return f"The bench chose their length from the first ones; sampled every {interval}."
    return f"Their length was set by the study; sampled every {interval}."


def _idle_sentence(summary: CampaignSummary) -> str:
    intervals = {len(point.idle_time_series) for treatment in summary.treatments for point in treatment.points}
    if not any(intervals):
        return ""
    low, high = (
        format_duration(count * summary.timing.interval_s) for count in (min(intervals), max(intervals))
    )
    return f" Before each there were only requests, for {low}{'' if low == high else f' to {high}'}."


def _warmup_text(summary: CampaignSummary) -> str:
    if summary.timing.warmup_s == 0:
        return "None: all of each trial counts."
    if summary.timing.warmup_s is not None:
        return f"The first {format_exact_duration(summary.timing.warmup_s)} of each trial, as set by the study."
    points = [point for treatment in summary.treatments for point in treatment.points]
    words = "Found in the samples of each treatment's trials, where the level changes for the last time"
    if not points:
        return f"{words}."
    cut = sorted(point.warmup_s for point in points)
    unsteady = sum(not point.has_steady_state for point in points)
    middle, most = (format_duration(each) if each else "nothing" for each in (cut[len(cut) // 2], cut[-1]))
    text = f"{words}: {middle} was cut off a typical trial, {most} where it was most."
    if unsteady:
        text += f" {format_count(unsteady)} of {format_count(len(points))} trials reached no steady state."
    return text
