"""From a results file to a campaign as estimated: every figure that is shown comes through here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vnetbench.estimate import imported_trials
from vnetbench.estimate.time_series import (
    TimeSeries,
    metric_time_series,
    idle_samples,
    merged_histogram,
    steady_latency_histogram,
    find_warmups,
)
from vnetbench.estimate.datagrams import SHARE_METRICS, zero_count_upper_bound_percent
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.estimate.evidence.trial_data import build_trial_data
from vnetbench.estimate.evidence.time_series import evidence_time_series
from vnetbench.estimate.frames import outstanding_frames, search_intervals, search_result
from vnetbench.estimate.interim_analyses import interim_analyses
from vnetbench.estimate.latency import merge_histograms
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate, Warmup
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.estimate.trial_metrics import steady_metrics
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import INTERRUPTED, RUNNING, Histogram, TreatmentRecord, TrialRecord
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import Precision, Study
from vnetbench.study.workloads import deciding_metric

COMPARED_FACTS = (
    ("bench", "vnetbench", ""),
    ("bench", "agent_sha256", ""),
    ("bench", "privilege", ""),
    ("host", "kernel", "release"),
    ("host", "cpu", "model"),
    ("host", "perf", "system_cycles"),
)
"""Place, fact and its part: where sessions of one campaign differ in these, its trials are not alike."""

FINAL_STATES = ("precision", "most trials", "time limit", "refused", "failed", IMPORTED)


@dataclass
class _Gathered:
    """What the trials of one treatment brought."""

    points: list[TrialPoint] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    effective: Mapping[str, Any] = field(default_factory=dict)
    latencies: Histogram = ()
    idle_latencies: Histogram = ()


def summarize(file: ResultsFile) -> CampaignSummary:
    """Estimate every treatment of a results file; raises BenchError for a file that cannot be read."""
    campaign = file.campaign()
    study = parse_study(campaign.study_text, campaign.study_path, campaign.overrides)
    treatments = file.treatments()
    testbeds = file.testbeds()
    testbed = next(iter(testbeds.values()), {})
    gathered = _gather(file, study, treatments, testbeds)
    points = [each.points for each in gathered.values()]
    return CampaignSummary(
        path=str(file.path),
        title=campaign.title,
        question=study.question,
        workload=study.workload,
        study_text=campaign.study_text,
        overrides=campaign.overrides,
        seed=campaign.seed,
        status=campaign.status,
        started=campaign.started_at,
        elapsed_s=campaign.elapsed_s,
        precision=study.precision,
        timing=study.timing,
        factors=study.factors,
        treatments=tuple(_treatment(t, gathered[t.index], campaign.status, study) for t in treatments),
        kind=study.testbed.backend,
        testbed=testbed,
        facts=file.facts(),
        warnings=(
            *_lacking(testbed),
            *imported_trials.describe_sources([p for of_treatment in points for p in of_treatment]),
            *_warnings(points, file.facts_of_sessions(), deciding_metric(study)),
        ),
        combine=study.combine,
        published=study.published,
        main_metric=deciding_metric(study),
        study_path=study.path,
    )


def estimate_metrics(
    trial_values: Sequence[Mapping[str, float]], precision: Precision, *, has_interim_analyses: bool = True
) -> dict[str, Estimate]:
    """Metric to estimate, from the metrics of each trial of a treatment; metrics that a trial lacks count
    only the others. `looked`: the bench decided from the trials how many there are."""
    judged_at = interim_analyses(precision) if has_interim_analyses else ()
    found = {}
    for name in METRICS:
        measured = [each[name] for each in trial_values if name in each]
        if measured:
            found[name] = estimate_median(measured, precision.confidence, judged_at)
    for counted, shares in SHARE_METRICS.items():
        count = sum(each.get(counted, 0.0) for each in trial_values)
        for name in shares:
            if name in found and count and not any(each.get(name) for each in trial_values):
                # Not one of them: an interval of no width would claim that there never is one.
                most = zero_count_upper_bound_percent(count, precision.confidence)
                found[name] = replace(found[name], low=0.0, high=most)
    return found


def _gather(
    file: ResultsFile,
    study: Study,
    treatments: Sequence[TreatmentRecord],
    testbeds: Mapping[str, Mapping[str, Any]],
) -> dict[int, _Gathered]:
    """Treatment's index to what its trials brought."""
    cuts = _find_warmups(file, study)
    levels = {t.index: t.factors for t in treatments}
    gathered = {t.index: _Gathered() for t in treatments}
    for trial in file.trials():
        of_treatment = gathered[trial.treatment]
        if trial.failure:
            of_treatment.failures.append(trial.failure)
            continue
        if trial.id not in cuts:
            continue  # of a campaign at work, finished since the first look
        warmup, of_trial = cuts[trial.id]
        if study.testbed.lab == IMPORTED:
            of_treatment.points.append(
                imported_trials.trial_point(trial, warmup, of_trial, deciding_metric(study), levels[trial.treatment])
            )
            continue
        of_treatment.effective = dict(trial.effective)
        of_treatment.points.append(_point(trial, warmup, of_trial, testbeds.get(trial.shape or "", {})))
        latencies = steady_latency_histogram(trial, warmup.samples)
        of_treatment.latencies = merge_histograms((of_treatment.latencies, latencies))
        idle = merged_histogram(idle_samples(trial), "latency")
        of_treatment.idle_latencies = merge_histograms((of_treatment.idle_latencies, idle))
    return gathered


def _find_warmups(file: ResultsFile, study: Study) -> dict[int, tuple[Warmup, TimeSeries]]:
    """Trial id to its warm-up, found from all trials of its treatment together."""
    courses: dict[int, dict[int, TimeSeries]] = {}
    is_imported = study.testbed.lab == IMPORTED
    course_of: Callable[[TrialRecord, str], TimeSeries] = imported_trials.metric_time_series if is_imported else metric_time_series
    warmups_of = imported_trials.find_imported_warmups if is_imported else find_warmups
    for trial in file.trials(counted=is_imported):
        if not trial.failure:
            courses.setdefault(trial.treatment, {})[trial.id] = course_of(trial, deciding_metric(study))
    return {
        trial: (warmup, of_treatment[trial])
        for of_treatment in courses.values()
        for trial, warmup in zip(
            of_treatment, warmups_of(list(of_treatment.values()), study.timing), strict=True
        )
    }


def _point(trial: TrialRecord, warmup: Warmup, of_trial: TimeSeries, testbed: Mapping[str, Any]) -> TrialPoint:
    part = select_steady_part(trial, warmup.samples)
    values = steady_metrics(part)
    case = build_trial_data(part, values, of_trial, testbed)
    evidence = collect_evidence(case)
    return TrialPoint(
        trial=trial.id,
        block=trial.block,
        started_s=trial.started_s,
        duration_s=trial.duration_s,
        warmup_s=sum(of_trial.interval_lengths_s[: warmup.samples]),
        has_steady_state=warmup.has_steady_state,
        values=values,
        time_series=of_trial.values,
        idle_time_series=of_trial.idle_values,
        notes=trial.notes,
        outstanding_frames=outstanding_frames(part.load_intervals),
        steps=trial.steps,
        search=search_result(trial),
        evidence=evidence,
        evidence_time_series=evidence_time_series(case, evidence),
    )


def _treatment(record: TreatmentRecord, gathered: _Gathered, status: str, study: Study) -> TreatmentSummary:
    points = gathered.points
    reasons = (*gathered.failures, *((record.reason,) if record.reason else ()))
    was_planned = study.testbed.lab != IMPORTED
    metrics = imported_trials.widen_intervals(
        estimate_metrics([p.values for p in points], study.precision, has_interim_analyses=was_planned), points
    )
    if len(points) == 1:
        metrics |= _of_one_search(metrics, points[0])
    return TreatmentSummary(
        index=record.index,
        factors=record.factors,
        effective=gathered.effective,
        stopped_by=record.state if record.state in FINAL_STATES else _unfinished(status),
        metrics=metrics,
        points=tuple(points),
        failures=tuple(dict.fromkeys(reasons)),
        notes=tuple(dict.fromkeys(note for p in points for note in p.notes)),
        latency_histogram=gathered.latencies,
        idle_latency_histogram=gathered.idle_latencies,
    )


def _of_one_search(metrics: Mapping[str, Estimate], point: TrialPoint) -> dict[str, Estimate]:
    """The throughputs of a treatment that was searched once, with the interval that the search gave."""
    return {
        name: replace(
            metrics[name], low=own.low, high=own.high, confidence=own.confidence or 0.0, is_single_search=True
        )
        for name, own in search_intervals(point.search).items()
        if name in metrics
    }


def _unfinished(status: str) -> str:
    """How an open treatment stands, by how its campaign stands."""
    return RUNNING if status == RUNNING else INTERRUPTED


def _lacking(testbed: Mapping[str, Any]) -> Iterator[str]:
    """What is not known of endpoints without an agent."""
    for endpoint in testbed.get("endpoints") or ():
        if endpoint.get("speaks") == "iperf3":
            name = endpoint["name"]
            yield (
                f"{name} speaks only iperf3: it has no samples, no counters, no known settings of its own. "
                "Goodput towards it is what it acknowledged; CPU, cycles, packets and retransmits are those "
                f"of this side alone, but for what {name} tells of itself at the end of each trial"
            )


def _warnings(
    points: Iterable[Sequence[TrialPoint]], sessions: Sequence[Mapping[str, Mapping[str, Any]]], main: str
) -> Iterator[str]:
    trials = [p for of_treatment in points for p in of_treatment]
    every = f"{len(trials)} trial{'' if len(trials) == 1 else 's'}"
    untold = sum(main not in p.values for p in trials)
    if untold and trials[0].imported:
        yield f"{METRICS[main].label} is not told of {untold} of {every}: they count for other metrics only"
    elif untold:
        yield (
            f"{METRICS[main].label} is missing from {untold} of {every}, too short for it: set a longer "
            f"timing.duration{' and timing.idle' if 'increase' in main else ''}, or another precision.metric"
        )
    if unsteady := sum(not p.has_steady_state for p in trials):
        yield f"no steady state in {unsteady} of {every}: they still moved in their second half"
    for place, fact, part in COMPARED_FACTS:
        values = [_text(of_session[place].get(fact), part) for of_session in sessions if place in of_session]
        if len(distinct := list(dict.fromkeys(values))) > 1:
            name = f"{place}: {fact} {part}".rstrip()
            yield f"the campaign was resumed on another footing, {name}: {' then '.join(distinct)}"
    perf = [of_session.get("host", {}).get("perf") or {} for of_session in sessions]
    if estimated := [each for each in perf if each.get("system_cycles") == "estimated"]:
        yield f"cycles are estimated from CPU time and clock: {estimated[-1].get('reason')}"
    if noted := sum(bool(p.notes) for p in trials if not p.imported):
        yield f"a note of the instrument in {noted} of {every}"


def _text(fact: object, part: str) -> str:
    return str(fact.get(part) if part and isinstance(fact, Mapping) else fact)
