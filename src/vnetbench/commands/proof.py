"""Running what proves the first suspicions of a results file, into a file of its own beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from vnetbench.commands.campaign import begin_plan, go_on
from vnetbench.commands.summaries import proof_path, read_file
from vnetbench.errors import BenchError
from vnetbench.estimate.experiments import belongs, study_hash
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.experiment_plan import PlannedProof, plan_proof
from vnetbench.results.records import FINISHED
from vnetbench.wording.factor_text import counted, treatment_phrase


def prove(results: Path, summary: CampaignSummary, chosen: Sequence[int], console: Console) -> str:
    """Run the proof, or go on with one that was interrupted; returns how it ended. Raises BenchError.

    Only of the treatments that were chosen, where any were. A proof that is finished is not run again.
    """
    path = proof_path(results)
    if path.exists():
        return _again(path, summary, console)
    findings = explain(summary).findings
    if chosen:
        findings = tuple(each for each in findings if set(each.treatments) & set(chosen))
    asked = plan_proof(summary, findings)
    if asked is None:
        raise BenchError(
            "no suspicion in it can be proved by a run from here",
            where=str(results),
            fix="vnetbench explain shows each suspicion, and what to change by hand where no setting can",
        )

    def begun() -> Path:
        # Not before: without root this process is started again, and would say it twice.
        _announce(asked, path, console)
        return path

    return begin_plan(asked.study, asked.plan, begun, console)


def why_nothing_is_proved(results: Path) -> str:
    """What is told of a proof that is over, and has nothing beside the treatment as it was."""
    path = proof_path(results)
    reasons = [reason for treatment in read_file(path).treatments for reason in treatment.failures]
    told = f"the proof has nothing to compare: {(reasons or ['it has no trials'])[0]}"
    return str(BenchError(told, where=str(path), fix="mend what stopped it, remove it, prove again"))


def _again(path: Path, summary: CampaignSummary, console: Console) -> str:
    proof = read_file(path)
    if not belongs(proof, summary):
        raise BenchError(
            f"it is of another study (SHA-256 {study_hash(proof)}…, here {study_hash(summary)}…)",
            where=str(path),
            fix="move it away, and prove again",
        )
    if proof.status == FINISHED:
        console.print(f"{path} has the proof already; remove it to prove anew\n", markup=False)
        return FINISHED
    return go_on(path, console)


def _announce(asked: PlannedProof, path: Path, console: Console) -> None:
    settings = [treatment_phrase(each.cause.setting, tuple(each.cause.setting)) for each in asked.suspects]
    trials = asked.study.precision.fewest_trials
    console.print(
        f"proving with {' and with '.join(settings)}, beside the treatment as it was: "
        f"{counted(trials, 'trial')} each, interleaved, into {path}",
        markup=False,
    )
