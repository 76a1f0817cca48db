"""Summary of a results file: all estimates, evidence and warnings that reports show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vnetbench.estimate import imported_trials
from vnetbench.estimate.datagrams import SHARE_METRICS_BY_DENOMINATOR_METRIC, zero_count_upper_bound_percent
from vnetbench.estimate.event_timeline import event_length_s, event_timeline
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.estimate.evidence.packet_work import work_location_by_metric
from vnetbench.estimate.evidence.path_state import path_state_location_by_metric
from vnetbench.estimate.evidence.queue_directions import queue_location_by_metric
from vnetbench.estimate.evidence.time_series import near_limit_evidence_series
from vnetbench.estimate.evidence.trial_data import build_trial_data
from vnetbench.estimate.failures import FailedTrials, failed_attempts, group_failed_attempts
from vnetbench.estimate.frames import outstanding_frames, read_search_result, search_interval_by_metric
from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.latency import merge_histograms
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate, Warmup
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.stopped_search import (
    describe_stopped_search,
    estimate_stopped_search,
    throughput_estimates,
)
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.estimate.team_traffic import collect_team_traffic
from vnetbench.estimate.time_series import (
    TimeSeries,
    find_warmups,
    merge_sample_histograms,
    metric_time_series,
    steady_latency_histogram,
    trimmed_idle_samples,
)
from vnetbench.estimate.trial_metrics import metrics_of_steady_part
from vnetbench.failure_kinds import TESTBED_REBUILD_REASON_KEY
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import INTERRUPTED, RUNNING, Histogram, TreatmentRecord, TrialRecord
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import Precision, Study
from vnetbench.study.workloads import choose_deciding_metric

FACTS_COMPARED_BETWEEN_SESSIONS = (
    ("bench", "vnetbench", ""),
    ("bench", "agent_sha256", ""),
    ("bench", "privilege", ""),
    ("host", "kernel", "release"),
    ("host", "cpu", "model"),
    ("host", "perf", "system_cycles"),
)
"""Location, fact and its part: a campaign whose sessions differ in one of these is not homogeneous."""

FINAL_TREATMENT_STATES = (
    "precision",
    "trial limit",
    "time limit",
    "not needed",
    "refused",
    "failed",
    IMPORTED_LAB,
)


@dataclass
class _TreatmentTrials:
    """The trials of one treatment."""

    points: list[TrialPoint] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    failed_attempts: list[FailedTrials] = field(default_factory=list)
    effective: Mapping[str, Any] = field(default_factory=dict)
    latency_histogram: Histogram = ()
    idle_latency_histogram: Histogram = ()


def summarize(file: ResultsFile) -> CampaignSummary:
    """Estimate every treatment of a results file.

    Raises:
        BenchError: The file cannot be read.
    """
    campaign = file.campaign()
    study = parse_study(campaign.study_text, campaign.study_path, campaign.overrides)
    treatments = file.treatments()
    testbeds = file.testbed_descriptions_by_shape()
    testbed = next(iter(testbeds.values()), {})
    by_treatment = _collect_trials(file, study, treatments, testbeds)
    points = [point for each in by_treatment.values() for point in each.points]
    return CampaignSummary(
        path=str(file.path),
        title=campaign.title,
        question=study.question,
        workload=study.workload,
        study_text=campaign.study_text,
        overrides=campaign.overrides,
        seed=campaign.seed,
        status=campaign.status,
        started_at=campaign.started_at,
        elapsed_s=campaign.elapsed_s,
        required_precision=study.precision,
        timing=study.timing,
        factors=study.factors,
        treatments=tuple(
            _treatment_summary(
                t,
                by_treatment[t.index],
                campaign.status,
                study,
                {}
                if by_treatment[t.index].points
                else estimate_stopped_search(file.steps(t.index, 0), study, t.factors),
            )
            for t in treatments
        ),
        testbed_backend=study.testbed.backend,
        testbed=testbed,
        facts=file.facts(),
        warnings=(
            *_endpoint_without_agent_warnings(testbed),
            *imported_trials.describe_sources(points),
            *_missing_or_unsteady_warnings(points, choose_deciding_metric(study)),
            *_session_warnings(file.session_facts()),
            *_trials_with_notes_warning(points),
        ),
        level_combination_method=study.combine,
        published_table_named_by_study=study.published,
        deciding_metric=choose_deciding_metric(study),
        study_path=study.path,
    )


def estimate_metrics(
    trial_values: Sequence[Mapping[str, float]], precision: Precision, *, has_interim_analyses: bool = True
) -> dict[str, Estimate]:
    """Return the estimate of each metric over the trials of a treatment that have it.

    Args:
        trial_values: The metrics of each trial.
        precision: The study's precision.
        has_interim_analyses: Whether the stopping rule decided the number of trials.
    """
    analyses = interim_analysis_trial_counts(precision) if has_interim_analyses else ()
    estimates = {}
    for name in METRICS:
        measured = [each[name] for each in trial_values if name in each]
        if measured:
            estimates[name] = estimate_median(measured, precision.confidence, analyses)
    for count_metric, share_metrics in SHARE_METRICS_BY_DENOMINATOR_METRIC.items():
        count = sum(each.get(count_metric, 0.0) for each in trial_values)
        for name in share_metrics:
            if name in estimates and count and not any(each.get(name) for each in trial_values):
                # No event in any trial: an interval without width would claim that there never is one.
                upper_bound = zero_count_upper_bound_percent(count, precision.confidence)
                estimates[name] = replace(estimates[name], low=0.0, high=upper_bound)
    return estimates


def _collect_trials(
    file: ResultsFile,
    study: Study,
    treatments: Sequence[TreatmentRecord],
    testbeds: Mapping[str, Mapping[str, Any]],
) -> dict[int, _TreatmentTrials]:
    """Return the trials of each treatment, by its index."""
    if study.testbed.lab == IMPORTED_LAB:
        return _collect_imported_trials(file, study, treatments)
    warmups = _find_warmups(file, study)
    by_treatment = {t.index: _TreatmentTrials() for t in treatments}
    for trial in file.trials():
        treatment_trials = by_treatment[trial.treatment]
        treatment_trials.failed_attempts.extend(failed_attempts(trial))
        if trial.failure:
            treatment_trials.failures.append(trial.failure)
            continue
        if trial.id not in warmups:
            continue  # a running campaign added this trial after the first pass
        warmup, time_series = warmups[trial.id]
        treatment_trials.effective = {
            name: value for name, value in trial.effective.items() if name != TESTBED_REBUILD_REASON_KEY
        }
        treatment_trials.points.append(
            _trial_point(trial, warmup, time_series, testbeds.get(trial.testbed_shape or "", {}))
        )
        latencies = steady_latency_histogram(trial, warmup.samples)
        treatment_trials.latency_histogram = merge_histograms((treatment_trials.latency_histogram, latencies))
        idle = merge_sample_histograms(trimmed_idle_samples(trial), "latency")
        treatment_trials.idle_latency_histogram = merge_histograms(
            (treatment_trials.idle_latency_histogram, idle)
        )
    return by_treatment


def _collect_imported_trials(
    file: ResultsFile, study: Study, treatments: Sequence[TreatmentRecord]
) -> dict[int, _TreatmentTrials]:
    by_treatment = {t.index: _TreatmentTrials() for t in treatments}
    levels = {t.index: t.factors for t in treatments}
    drafts = imported_trials.PointDrafts(study.timing, choose_deciding_metric(study), levels)
    for trial in file.trials():
        treatment_trials = by_treatment[trial.treatment]
        treatment_trials.failed_attempts.extend(failed_attempts(trial))
        if trial.failure:
            treatment_trials.failures.append(trial.failure)
        else:
            drafts.add(trial)
    for treatment, points in drafts.finish(lambda ids: file.trials(only_ids=ids)).items():
        by_treatment[treatment].points.extend(points)
    return by_treatment


def _find_warmups(file: ResultsFile, study: Study) -> dict[int, tuple[Warmup, TimeSeries]]:
    """Return warm-up and time series by trial id. Trials of a treatment are analysed together."""
    by_treatment: dict[int, dict[int, TimeSeries]] = {}
    for trial in file.trials(with_counters=False):
        if not trial.failure:
            by_treatment.setdefault(trial.treatment, {})[trial.id] = metric_time_series(
                trial, choose_deciding_metric(study)
            )
    return {
        trial_id: (warmup, time_series[trial_id])
        for time_series in by_treatment.values()
        for trial_id, warmup in zip(
            time_series, find_warmups(list(time_series.values()), study.timing), strict=True
        )
    }


def _trial_point(
    trial: TrialRecord, warmup: Warmup, time_series: TimeSeries, testbed: Mapping[str, Any]
) -> TrialPoint:
    part = select_steady_part(trial, warmup.samples)
    values = metrics_of_steady_part(part)
    data = build_trial_data(part, values, time_series, testbed)
    evidence = collect_evidence(data)
    return TrialPoint(
        trial_id=trial.id,
        block=trial.block,
        since_campaign_start_s=trial.since_campaign_start_s,
        duration_s=trial.duration_s,
        warmup_s=sum(time_series.interval_lengths_s[: warmup.samples]),
        has_steady_state=warmup.has_steady_state,
        values=values,
        time_series=time_series.values,
        idle_time_series=time_series.idle_values,
        notes=trial.notes,
        outstanding_frames_at_interval_ends=outstanding_frames(part.load_intervals_with_warmup),
        arrivals_around_event=event_timeline(trial),
        event_s=event_length_s(trial),
        steps=trial.steps,
        search_result=read_search_result(trial),
        evidence=evidence,
        location_by_metric={
            **queue_location_by_metric(data),
            **path_state_location_by_metric(data),
            **work_location_by_metric(data),
        },
        near_limit_evidence_series=near_limit_evidence_series(data, evidence),
        teams=collect_team_traffic(part),
    )


def _treatment_summary(
    record: TreatmentRecord,
    trials: _TreatmentTrials,
    status: str,
    study: Study,
    stopped_search: Mapping[str, Any],
) -> TreatmentSummary:
    points = trials.points
    reasons = (*trials.failures, *((record.reason,) if record.reason else ()))
    has_interim_analyses = study.testbed.lab != IMPORTED_LAB
    metrics = imported_trials.widen_intervals_by_rounding(
        estimate_metrics(
            [p.values for p in points], study.precision, has_interim_analyses=has_interim_analyses
        ),
        points,
    )
    if len(points) == 1:
        metrics |= _single_search_estimates(metrics, points[0])
    metrics |= throughput_estimates(stopped_search)
    return TreatmentSummary(
        index=record.index,
        factors=record.factors,
        effective=trials.effective,
        stop_reason=record.state
        if record.state in FINAL_TREATMENT_STATES
        else RUNNING
        if status == RUNNING
        else INTERRUPTED,
        metrics=metrics,
        points=tuple(points),
        failures=tuple(dict.fromkeys(reasons)),
        failed_trials=group_failed_attempts(trials.failed_attempts),
        notes=(
            *dict.fromkeys(note for p in points for note in p.notes),
            *describe_stopped_search(stopped_search),
        ),
        stopped_search_result=stopped_search,
        latency_histogram=trials.latency_histogram,
        idle_latency_histogram=trials.idle_latency_histogram,
    )


def _single_search_estimates(metrics: Mapping[str, Estimate], point: TrialPoint) -> dict[str, Estimate]:
    """Return the throughputs of a treatment with a single search, with the interval of that search."""
    return {
        name: replace(
            metrics[name],
            low=interval.low,
            high=interval.high,
            confidence=interval.confidence or 0.0,
            is_from_single_search=True,
        )
        for name, interval in search_interval_by_metric(point.search_result).items()
        if name in metrics
    }


def _endpoint_without_agent_warnings(testbed: Mapping[str, Any]) -> Iterator[str]:
    for endpoint in testbed.get("endpoints") or ():
        if endpoint.get("protocol") == "iperf3":
            name = endpoint["name"]
            yield (
                f"{name} runs iperf3 without an agent, so it provides no samples, counters or settings. "
                f"Goodput towards {name} is the data that {name} acknowledged. CPU, cycles, packets and "
                "retransmits cover "
                f"the other endpoint only, except for the values that {name} reports at the end of each trial"
            )


def _missing_or_unsteady_warnings(points: Sequence[TrialPoint], metric: str) -> Iterator[str]:
    label, trials = METRICS[metric].label, _trial_count_text(len(points))
    missing = sum(metric not in point.values for point in points)
    if missing and points[0].imported_log:
        has_others = all(point.values for point in points if metric not in point.values)
        others = " and count for other metrics only" if has_others else ", nor of any other metric"
        yield f"{missing} of {trials} have no value of {label}{others}"
    elif missing:
        timing = "timing.duration and timing.idle" if "increase" in metric else "timing.duration"
        yield (
            f"{missing} of {trials} have no value of {label}, because they are too short. Increase {timing}, "
            "or set another precision.metric"
        )
    if unsteady := sum(not point.has_steady_state for point in points):
        yield (
            f"{unsteady} of {trials} have no steady state, because the level still changed in the second "
            "half of the trial"
        )


def _session_warnings(sessions: Sequence[Mapping[str, Mapping[str, Any]]]) -> Iterator[str]:
    for location, fact, part in FACTS_COMPARED_BETWEEN_SESSIONS:
        values = [
            _fact_text(session[location].get(fact), part) for session in sessions if location in session
        ]
        if len(distinct := list(dict.fromkeys(values))) > 1:
            name = f"{location}: {fact} {part}".rstrip()
            yield (
                f"the environment changed when the campaign was resumed. {name} was "
                f"{', then '.join(distinct)}"
            )
    perf = [session.get("host", {}).get("perf") or {} for session in sessions]
    if estimated := [each for each in perf if each.get("system_cycles") == "estimated"]:
        yield f"CPU cycles are estimated from CPU time and clock rate ({estimated[-1].get('reason')})"


def _trials_with_notes_warning(points: Sequence[TrialPoint]) -> Iterator[str]:
    if with_notes := sum(bool(point.notes) for point in points if not point.imported_log):
        yield f"{with_notes} of {_trial_count_text(len(points))} have notes about the measurement"


def _trial_count_text(count: int) -> str:
    return f"{count} trial{'' if count == 1 else 's'}"


def _fact_text(fact: object, part: str) -> str:
    return str(fact.get(part) if part and isinstance(fact, Mapping) else fact)
