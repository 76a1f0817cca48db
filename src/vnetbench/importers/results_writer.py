"""The results file of an import: which runs are trials of which treatments, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vnetbench.importers.endpoint_matching import pairs_of, told_once
from vnetbench.importers.imported_study import factors_of, study_text, treatment_of
from vnetbench.importers.run_store import Gathered, Head
from vnetbench.importers.trial_records import Place, trial_of
from vnetbench.results.file import ResultsFile, check_free
from vnetbench.results.records import FINISHED, TrialRecord
from vnetbench.study.file.load import parse_study
from vnetbench.study.labs import IMPORTED
from vnetbench.study.model import FactorLevels, Level, Plan, Treatment

TOOL = "label_tool"
"""The label that tells runs of several tools apart: they are no trials of one treatment."""


@dataclass(frozen=True)
class Imported:
    """What became a results file."""

    path: Path
    workload: str
    trials: int
    treatments: int
    told_twice: int
    """Runs that both ends' logs told: a trial each."""
    untold: Mapping[str, int]
    """Factors that some runs tell, each with how many do not."""


def write_results(gathered: Gathered, workload: str, path: Path, title: str) -> Imported:
    """Make a results file of the runs of one workload; it is whole, or not there. Raises BenchError."""
    heads, pairs = _heads(gathered, workload)
    factors = factors_of(head.factors for head in heads)
    # Runs share what they tell (`Gathered.heads`), and so their levels: there may be very many of them.
    told = {id(head.factors): head.factors for head in heads}
    levels_of = {key: treatment_of(each, factors) for key, each in told.items()}
    levels = [levels_of[id(head.factors)] for head in heads]
    treatments = _ordered(set(levels), factors)
    names = [factor.name for factor in factors]
    plan = Plan(
        tuple(Treatment(i, dict(zip(names, each, strict=True))) for i, each in enumerate(treatments)), 0
    )
    study = parse_study(study_text(title, workload, factors, gathered.told(workload)), None)
    check_free(path)
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.unlink(missing_ok=True)
    file = ResultsFile.create(unfinished, study, plan)
    try:
        file.add_facts(IMPORTED, _facts(gathered, workload))
        index = {each: number for number, each in enumerate(treatments)}
        numbers = [index[each] for each in levels]
        file.add_trials(_trials(gathered, heads, numbers, pairs))
        for number in range(len(treatments)):
            file.set_treatment(number, IMPORTED)
        file.close(FINISHED)
        unfinished.rename(path)
    except BaseException:
        file.close()
        unfinished.unlink(missing_ok=True)
        raise
    untold = Counter(name for head in heads for name in names if name not in head.factors)
    return Imported(path, workload, len(heads), len(treatments), len(pairs), dict(untold))


def _heads(gathered: Gathered, workload: str) -> tuple[list[Head], dict[int, int]]:
    """The runs that become trials, in the order in which they ran as far as that is told; and the pairs."""
    heads = gathered.heads(workload)
    pairs = pairs_of(heads)
    second = set(pairs.values())
    sent = {head.id: head.factors for head in heads if head.id in second}
    heads = [
        replace(head, factors={**sent[pairs[head.id]], **head.factors}) if head.id in pairs else head
        for head in heads
        if head.id not in second
    ]
    if len({head.tool for head in heads}) > 1:
        labelled = {
            (id(head.factors), head.tool): {**head.factors, TOOL: head.tool} for head in heads
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
    gathered: Gathered, heads: Sequence[Head], treatments: Sequence[int], pairs: Mapping[int, int]
) -> Iterator[TrialRecord]:
    blocks: Counter[int] = Counter()
    started_s = 0.0
    for head, treatment in zip(heads, treatments, strict=True):
        log, run = gathered.run(head.id)
        if head.id in pairs:
            log_of_sender, sent = gathered.run(pairs[head.id])
            run = told_once(run, sent, log_of_sender)
        yield trial_of(run, log, Place(treatment, blocks[treatment], started_s))
        blocks[treatment] += 1
        started_s += run.omitted_s + (run.duration_s or 0.0)


def _facts(gathered: Gathered, workload: str) -> dict[str, object]:
    others = {name: count for name, count in gathered.workloads().items() if name != workload}
    return {
        "set": dict(gathered.set_factors),
        "read": {
            "logs": gathered.logs,
            "copies": [{"name": log, "of": original} for log, original in gathered.copies.items()],
            "runs": gathered.runs + gathered.faults.total(),
            "not_whole": gathered.faults.total(),
            "not_read": [asdict(each) for each in gathered.not_read],
            "lines_of_no_tool": gathered.unclaimed,
            "other_workloads": others,
        },
    }
