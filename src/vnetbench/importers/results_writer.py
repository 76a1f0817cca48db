"""Write the results file of an import: which runs are trials of which treatment, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vnetbench.importers.endpoint_matching import match_endpoint_runs, merge_endpoint_runs
from vnetbench.importers.imported_study import collect_factors, format_study, treatment_levels
from vnetbench.importers.run_store import RunStore, RunSummary
from vnetbench.importers.trial_records import TrialPosition, build_trial
from vnetbench.results.file import ResultsFile, check_output_path
from vnetbench.results.records import FINISHED, TrialRecord
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import FactorLevels, Level, Plan, Treatment

TOOL_LABEL = "label_tool"
"""The label that separates runs of several tools: they are not trials of one treatment."""


@dataclass(frozen=True)
class ImportSummary:
    """What a results file contains after an import."""

    path: Path
    workload: str
    trials: int
    treatments: int
    merged_runs: int
    """Number of trials that combine the logs of both endpoints."""
    unspecified: Mapping[str, int]
    """Factors that some runs have, each with the number of runs that lack it."""


def write_results(store: RunStore, workload: str, path: Path, title: str) -> ImportSummary:
    """Write a results file with the runs of one workload. After an error the file does not exist.

    Raises:
        BenchError: The file exists or cannot be written.
    """
    runs, matches = _collect_runs(store, workload)
    factors = collect_factors(run.factors for run in runs)
    # There may be very many runs. Those of one treatment share a factors object, so each object is read once.
    distinct = {id(run.factors): run.factors for run in runs}
    levels_by_id = {key: treatment_levels(each, factors) for key, each in distinct.items()}
    levels = [levels_by_id[id(run.factors)] for run in runs]
    treatments = _sort_treatments(set(levels), factors)
    names = [factor.name for factor in factors]
    plan = Plan(
        tuple(Treatment(i, dict(zip(names, each, strict=True))) for i, each in enumerate(treatments)), 0
    )
    study = parse_study(format_study(title, workload, factors, store.metric_counts(workload)), None)
    check_output_path(path)
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.unlink(missing_ok=True)
    file = ResultsFile.create(unfinished, study, plan)
    try:
        file.add_facts(IMPORTED, _import_facts(store, workload))
        treatment_numbers = {each: number for number, each in enumerate(treatments)}
        file.add_trials(_build_trials(store, runs, [treatment_numbers[each] for each in levels], matches))
        for number in range(len(treatments)):
            file.set_treatment_state(number, IMPORTED)
        file.close(FINISHED)
        unfinished.rename(path)
    except BaseException:
        file.close()
        unfinished.unlink(missing_ok=True)
        raise
    unspecified = Counter(name for run in runs for name in names if name not in run.factors)
    return ImportSummary(path, workload, len(runs), len(treatments), len(matches), dict(unspecified))


def _collect_runs(store: RunStore, workload: str) -> tuple[list[RunSummary], dict[int, int]]:
    """Return the runs that become trials, and the ids of the senders' runs that are merged into them.

    The runs are in the order of their start times if all have one, otherwise in the order of the logs.
    """
    runs = store.run_summaries(workload)
    matches = match_endpoint_runs(runs)
    merged_ids = set(matches.values())
    sender_factors = {run.id: run.factors for run in runs if run.id in merged_ids}
    runs = [
        replace(run, factors={**sender_factors[matches[run.id]], **run.factors}) if run.id in matches else run
        for run in runs
        if run.id not in merged_ids
    ]
    if len({run.tool for run in runs}) > 1:
        # The labelled factors are shared, as they were before.
        labelled = {(id(run.factors), run.tool): {**run.factors, TOOL_LABEL: run.tool} for run in runs}
        runs = [replace(run, factors=labelled[id(run.factors), run.tool]) for run in runs]
    if all(run.started for run in runs):
        runs.sort(key=lambda run: run.started or "")
    return runs, matches


def _sort_treatments(
    treatments: set[tuple[Level, ...]], factors: Sequence[FactorLevels]
) -> list[tuple[Level, ...]]:
    """Return treatments in the order that a study would have: the last factor varies fastest."""
    ranks = [{level: rank for rank, level in enumerate(factor.levels)} for factor in factors]
    return sorted(
        treatments, key=lambda levels: [rank[level] for rank, level in zip(ranks, levels, strict=True)]
    )


def _build_trials(
    store: RunStore, runs: Sequence[RunSummary], treatments: Sequence[int], matches: Mapping[int, int]
) -> Iterator[TrialRecord]:
    blocks: Counter[int] = Counter()
    started_s = 0.0
    for summary, treatment in zip(runs, treatments, strict=True):
        log, run = store.load_run(summary.id)
        if summary.id in matches:
            log_of_sender, sent = store.load_run(matches[summary.id])
            run = merge_endpoint_runs(run, sent, log_of_sender)
        yield build_trial(run, log, TrialPosition(treatment, blocks[treatment], started_s))
        blocks[treatment] += 1
        started_s += run.omitted_s + (run.duration_s or 0.0)


def _import_facts(store: RunStore, workload: str) -> dict[str, object]:
    """Return the facts that the results file keeps about the import."""
    return {
        "fixed_factors": dict(store.fixed_factors),
        "read": {
            "logs": store.logs,
            "duplicate_logs": [
                {"name": log, "original": original} for log, original in store.duplicate_logs.items()
            ],
            "runs": store.run_count + store.failure_counts.total(),
            "incomplete_runs": store.failure_counts.total(),
            "skipped": [asdict(each) for each in store.skipped],
            "unrecognized_lines": store.unrecognized_line_count,
            "other_workloads": {
                name: count for name, count in store.workload_counts().items() if name != workload
            },
        },
    }
