"""Scores runs with interventions: the same runs by their counters only, and with what the interventions say.

Advice misleads if an intervention on the run refutes it. So only the advice of the counters can mislead: the
explanation with interventions no longer gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.redteam import runner, scoring
from bench.redteam.intervals import format_share
from bench.redteam.model import Label
from bench.redteam.scoring import Verdict, is_disturbed, with_present_names

REFUTED, CONFIRMED, UNDECIDED, NOT_TRIED = "refuted", "confirmed", "undecided", "not tried"


@dataclass(frozen=True)
class DiagnosedRun:
    """The explanations of one run without and with its interventions.

    Attributes:
        counters_only: How the explanation from counters compares with the label.
        with_interventions: How the explanation from both does.
        has_interventions: Whether the run has a file of interventions.
        counters_advice: What the interventions say of the first cause of the counters.
        final_advice: What they say of the first cause that is left with them.
    """

    counters_only: Verdict
    with_interventions: Verdict
    has_interventions: bool
    counters_advice: str
    final_advice: str


def judge_runs(folder: Path, labels: Iterable[Label], with_disturbed: bool = False) -> list[DiagnosedRun]:
    """Explain each run without and with its interventions."""
    return [_judge_run(folder, with_present_names(label), with_disturbed) for label in labels]


def _judge_run(folder: Path, label: Label, with_disturbed: bool) -> DiagnosedRun:
    results = folder / label.results
    disturbed = not with_disturbed and is_disturbed(label)
    try:
        passive = scoring.named_causes(runner.explain_counters_only(results))
        explained = runner.explain(results)
    except runner.ReadError as error:
        failed = Verdict(label, (), disturbed, str(error))
        return DiagnosedRun(failed, failed, False, NOT_TRIED, NOT_TRIED)
    active = scoring.named_causes(explained)
    return DiagnosedRun(
        Verdict(label, passive, disturbed),
        Verdict(label, active, disturbed),
        runner.proof_file(results).exists(),
        verdict_on(explained, passive[0].cause) if passive else NOT_TRIED,
        verdict_on(explained, active[0].cause) if active else NOT_TRIED,
    )


def verdict_on(explained: dict[str, Any], cause: str) -> str:
    """Return what the interventions of an explanation say of a cause and of its advice.

    The trial of the setting that the advice names decides. Without a decision, the cause's own confidence
    does.
    """
    candidates = [
        candidate
        for finding in explained.get("findings", ())
        for candidate in finding.get("candidates", ())
        if candidate["cause"] == cause
    ]
    results = [each["experiment_result"]["verdict"] for each in candidates if each.get("experiment_result")]
    for words in (results, [each["confidence"] for each in candidates]):
        for word in (REFUTED, CONFIRMED):
            if word in words:
                return word
    return UNDECIDED if results else NOT_TRIED


def format_diagnosis(runs: Sequence[DiagnosedRun], with_details: bool) -> Iterator[str]:
    """Yield the scores of the counters, those with interventions, and how often advice misled."""
    yield "COUNTERS ONLY"
    yield from scoring.format_scores([run.counters_only for run in runs], with_details)
    yield "WITH INTERVENTIONS"
    yield from scoring.format_scores([run.with_interventions for run in runs], with_details)
    scored = [run for run in runs if run.counters_only.is_scored_fault or run.counters_only.is_scored_control]
    yield f"Runs with interventions: {sum(run.has_interventions for run in scored)} of {len(scored)}"
    yield from _format_advice("Advice of the counters", scored, lambda run: run.counters_advice)
    yield from _format_advice("Advice with interventions", scored, lambda run: run.final_advice)


def _format_advice(
    title: str, runs: Sequence[DiagnosedRun], read_verdict: Callable[[DiagnosedRun], str]
) -> Iterator[str]:
    verdicts = [read_verdict(run) for run in runs]
    decided = sum(verdict in (REFUTED, CONFIRMED) for verdict in verdicts)
    refuted = verdicts.count(REFUTED)
    yield f"{title}: the interventions decide {decided} of {len(runs)} runs"
    yield f"  {'misleading, of all runs':44} {format_share(refuted, len(runs))}"
    yield f"  {'misleading, of the decided runs':44} {format_share(refuted, decided)}"
