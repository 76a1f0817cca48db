"""The results file of an import: which runs are trials of which treatments, in which order."""

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
"""The label that tells runs of several tools apart: they are no trials of one treatment."""


@dataclass(frozen=True)
class ImportSummary:
    """What became a results file."""

    path: Path
    workload: str
    trials: int
    treatments: int
    merged_runs: int
    """Runs that both ends' logs told: a trial each."""
    unspecified: Mapping[str, int]
    """Factors that some runs tell, each with how many do not."""


def write_results(gathered: RunStore, workload: str, path: Path, title: str) -> ImportSummary:
    """Make a results file of the runs of one workload; it is whole, or not there. Raises BenchError."""
    heads, pairs = _heads(gathered, workload)
    factors = collect_factors(head.factors for head in heads)
    # Runs share what they tell (`Gathered.heads`), and so their levels: there may be very many of them.
    told = {id(head.factors): head.factors for head in heads}
    levels_of = {key: treatment_levels(each, factors) for key, each in told.items()}
    levels = [levels_of[id(head.factors)] for head in heads]
    treatments = _ordered(set(levels), factors)
    names = [factor.name for factor in factors]
    plan = Plan(
        tuple(Treatment(i, dict(zip(names, each, strict=True))) for i, each in enumerate(treatments)), 0
    )
    study = parse_study(format_study(title, workload, factors, gathered.metric_counts(workload)), None)
    check_output_path(path)
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.unlink(missing_ok=True)
    file = ResultsFile.create(unfinished, study, plan)
    try:
        file.add_facts(IMPORTED, _facts(gathered, workload))
        index = {each: number for number, each in enumerate(treatments)}
        numbers = [index[each] for each in levels]
        file.add_trials(_trials(gathered, heads, numbers, pairs))
        for number in range(len(treatments)):
            file.set_treatment_state(number, IMPORTED)
        file.close(FINISHED)
        unfinished.rename(path)
    except BaseException:
        file.close()
        unfinished.unlink(missing_ok=True)
        raise
    untold = Counter(name for head in heads for name in names if name not in head.factors)
    return ImportSummary(path, workload, len(heads), len(treatments), len(pairs), dict(untold))


def _heads(gathered: RunStore, workload: str) -> tuple[list[RunSummary], dict[int, int]]:
    """The runs that become trials, in the order in which they ran as far as that is told; and the pairs."""
    heads = gathered.run_summaries(workload)
    pairs = match_endpoint_runs(heads)
    second = set(pairs.values())
    sent = {head.id: head.factors for head in heads if head.id in second}
    heads = [
        replace(head, factors={**sent[pairs[head.id]], **head.factors}) if head.id in pairs else head
        for head in heads
        if head.id not in second
    ]
    if len({head.tool for head in heads}) > 1:
        labelled = {
            (id(head.factors), head.tool): {**head.factors, TOOL_LABEL: head.tool} for head in heads
        }  # shared, as they were
        heads = [replace(head, factors=labelled[id(head.factors), head.tool]) for head in heads]
    if all(head.started for head in heads):
        heads.sort(key=lambda head: head.started or "")
    return heads, pairs


def _ordered(treatments: set[tuple[Level, ...]], factors: Sequence[FactorLevels]) -> list[tuple[Level, ...]]:
    """As a study that asks for them would have them: the last factor varies fastest."""
    places = [{level: place for place, level in enumerate(factor.levels)} for factor in factors]
    return sorted(
        treatments, key=lambda levels: [at[level] for at, level in zip(places, levels, strict=True)]
    )


def _trials(
    gathered: RunStore, heads: Sequence[RunSummary], treatments: Sequence[int], pairs: Mapping[int, int]
) -> Iterator[TrialRecord]:
    blocks: Counter[int] = Counter()
    started_s = 0.0
    for head, treatment in zip(heads, treatments, strict=True):
        log, run = gathered.load_run(head.id)
        if head.id in pairs:
            log_of_sender, sent = gathered.load_run(pairs[head.id])
            run = merge_endpoint_runs(run, sent, log_of_sender)
        yield build_trial(run, log, TrialPosition(treatment, blocks[treatment], started_s))
        blocks[treatment] += 1
        started_s += run.omitted_s + (run.duration_s or 0.0)


def _facts(gathered: RunStore, workload: str) -> dict[str, object]:
    others = {name: count for name, count in gathered.workload_counts().items() if name != workload}
    return {
        "set": dict(gathered.fixed_factors),
        "read": {
            "logs": gathered.logs,
            "copies": [{"name": log, "of": original} for log, original in gathered.duplicate_logs.items()],
            "runs": gathered.run_count + gathered.failure_counts.total(),
            "not_whole": gathered.failure_counts.total(),
            "not_read": [asdict(each) for each in gathered.skipped],
            "lines_of_no_tool": gathered.unrecognized_line_count,
            "other_workloads": others,
        },
    }
