"""Write the results file of an import: which runs are trials of which treatment, and in which order."""

from __future__ import annotations

import glob
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vnetbench.importers.endpoint_matching import (
    SenderRunIdByReceiverRunId,
    match_sender_runs_to_receiver_runs,
    merge_endpoint_runs,
)
from vnetbench.importers.imported_study import collect_factors, format_study_text, treatment_levels
from vnetbench.importers.run_store import RunStore, RunSummary
from vnetbench.importers.trial_records import TrialPosition, build_trial
from vnetbench.results.file import ResultsFile, check_output_path
from vnetbench.results.records import FINISHED, TrialRecord
from vnetbench.results.writer_lock import is_locked_by_writer
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import IMPORTED_LAB
from vnetbench.study.model import FactorLevels, Level, Plan, Treatment

TOOL_LABEL_FACTOR = "label_tool"
"""The label that separates runs of several tools: they are not trials of one treatment."""


@dataclass(frozen=True)
class ImportSummary:
    """What a results file contains after an import."""

    results_path: Path
    workload: str
    trial_count: int
    treatment_count: int
    merged_trial_count: int
    """Number of trials that combine the logs of both endpoints."""
    run_count_by_missing_factor: Mapping[str, int]
    """Factors that some runs have, each with the number of runs that lack it."""


def write_results(store: RunStore, workload: str, results_path: Path, title: str) -> ImportSummary:
    """Write a results file with the runs of one workload. After an error the file does not exist.

    Raises:
        BenchError: The file exists or cannot be written.
    """
    runs, matches = _collect_runs_and_matches(store, workload)
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
    study = parse_study(
        format_study_text(title, workload, factors, store.count_runs_by_metric(workload)), None
    )
    check_output_path(results_path)
    _remove_remains_of_killed_imports(results_path)
    # An unforeseeable name: nobody can prepare a file there in a shared folder.
    unfinished = results_path.with_name(f".{results_path.name}.{secrets.token_hex(8)}.part")
    file = ResultsFile.create(unfinished, study, plan)
    try:
        file.add_facts(IMPORTED_LAB, _describe_import(store, workload))
        treatment_numbers = {each: number for number, each in enumerate(treatments)}
        file.add_trials(_build_trials(store, runs, [treatment_numbers[each] for each in levels], matches))
        for number in range(len(treatments)):
            file.set_treatment_state(number, IMPORTED_LAB)
        file.close(FINISHED)
        check_output_path(results_path)  # again: another import may have written it meanwhile
        unfinished.rename(results_path)
    except BaseException:
        file.close()
        unfinished.unlink(missing_ok=True)
        raise
    unspecified = Counter(name for run in runs for name in names if name not in run.factors)
    return ImportSummary(results_path, workload, len(runs), len(treatments), len(matches), dict(unspecified))


def _remove_remains_of_killed_imports(results_path: Path) -> None:
    """Remove unfinished results files of this path that no process writes to and this user may remove."""
    for remains in results_path.parent.glob(f".{glob.escape(results_path.name)}.*.part"):
        with suppress(OSError):  # another user's file in a shared folder
            if remains.is_file() and not remains.is_symlink() and not is_locked_by_writer(remains):
                remains.unlink(missing_ok=True)


def _collect_runs_and_matches(
    store: RunStore, workload: str
) -> tuple[list[RunSummary], SenderRunIdByReceiverRunId]:
    """Return the runs that become trials, and the ids of the senders' runs that are merged into them.

    The runs are in the order of their start times if all have one, otherwise in the order of the logs.
    """
    runs = store.run_summaries(workload)
    matches = match_sender_runs_to_receiver_runs(runs)
    merged_ids = set(matches.values())
    sender_factors = {run.run_id: run.factors for run in runs if run.run_id in merged_ids}
    runs = [
        replace(run, factors={**sender_factors[matches[run.run_id]], **run.factors})
        if run.run_id in matches
        else run
        for run in runs
        if run.run_id not in merged_ids
    ]
    if len({run.tool for run in runs}) > 1:
        # The labelled factors are shared, as they were before.
        labelled = {(id(run.factors), run.tool): {**run.factors, TOOL_LABEL_FACTOR: run.tool} for run in runs}
        runs = [replace(run, factors=labelled[id(run.factors), run.tool]) for run in runs]
    if all(run.started_at for run in runs):
        runs.sort(key=lambda run: run.started_at or "")
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
    store: RunStore,
    runs: Sequence[RunSummary],
    treatment_by_run: Sequence[int],
    sender_run_by_receiver_run: SenderRunIdByReceiverRunId,
) -> Iterator[TrialRecord]:
    blocks: Counter[int] = Counter()
    started_s = 0.0
    for summary, treatment in zip(runs, treatment_by_run, strict=True):
        log, run = store.load_log_name_and_run(summary.run_id)
        if summary.run_id in sender_run_by_receiver_run:
            log_of_sender, sent = store.load_log_name_and_run(sender_run_by_receiver_run[summary.run_id])
            run = merge_endpoint_runs(run, sent, log_of_sender)
        yield build_trial(run, log, TrialPosition(treatment, blocks[treatment], started_s))
        blocks[treatment] += 1
        started_s += run.omitted_s + (run.measured_duration_s or 0.0)


def _describe_import(store: RunStore, workload: str) -> dict[str, object]:
    """Return the facts that the results file keeps about the import."""
    return {
        "fixed_factors": dict(store.fixed_factors),
        "read": {
            "logs": store.log_names,
            "duplicate_logs": [
                {"name": log, "original": original}
                for log, original in store.original_by_duplicate_log.items()
            ],
            "runs": store.complete_run_count + store.incomplete_run_count_by_failure.total(),
            "incomplete_runs": store.incomplete_run_count_by_failure.total(),
            "skipped": [asdict(each) for each in store.skipped_sections],
            "unrecognized_lines": store.unrecognized_line_count,
            "other_workloads": {
                name: count for name, count in store.count_runs_by_workload().items() if name != workload
            },
        },
    }
