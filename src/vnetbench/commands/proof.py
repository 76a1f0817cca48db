"""Run experiments that test the most likely causes, and write them to a proof file next to the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from vnetbench.commands.campaign import resume_campaign, run_plan
from vnetbench.commands.summaries import proof_file_path, read_summary_without_experiments
from vnetbench.commands.treatment_selection import select_treatments
from vnetbench.errors import BenchError
from vnetbench.estimate.experiments import has_same_study, short_study_hash
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.experiment_plan import ExperimentPlan, plan_first_possible_experiment
from vnetbench.explain.explain import explain
from vnetbench.explain.interventions.series import MAX_SERIES_DURATION_S, SeriesPlan, plan_series
from vnetbench.lab import privilege
from vnetbench.quantity import format_count_with_noun
from vnetbench.results.records import FINISHED, CampaignStatus
from vnetbench.wording.factor_text import treatment_phrase


def run_proof(
    results: Path, summary: CampaignSummary, treatment_indices: Sequence[int], console: Console
) -> CampaignStatus:
    """Run the experiments, or continue interrupted ones. A finished proof file is not run again.

    Args:
        results: The results file.
        summary: Its estimates.
        treatment_indices: Indexes of the treatments to test; empty for all.
        console: Where progress is printed.

    Returns:
        The status of the proof: `finished` or `interrupted`.

    Raises:
        BenchError: No cause can be tested by an experiment.
    """
    path = proof_file_path(results)
    if path.exists():
        return _continue_proof(path, summary, console)
    findings = explain(summary).findings
    if treatment_indices:
        findings = tuple(each for each in findings if set(each.treatment_indices) & set(treatment_indices))
    series = plan_series(summary, findings, treatment_indices, privilege.has_root_outside_user_namespace())
    if series is not None:

        def announced_series_path() -> Path:
            _print_series_plan(series, path, console)
            return path

        return run_plan(series.study, series.plan, announced_series_path, console, series.series)
    planned = plan_first_possible_experiment(summary, findings)
    if planned is None:
        raise BenchError(
            "no candidate cause can be tested by an experiment from this machine",
            where=str(results),
            fix="run vnetbench explain, which lists each candidate cause and what to change by hand",
        )

    def announced_path() -> Path:
        # Without root this process restarts itself before this point, and would print the message twice.
        _print_experiment_plan(planned, path, console)
        return path

    return run_plan(planned.study, planned.plan, announced_path, console)


def run_diagnosis_experiments(results: Path, selector: str | None, console: Console) -> None:
    """Run the experiments after a campaign, and print why if there are none.

    Args:
        results: The results file of the finished campaign.
        selector: Levels or index of the treatment to change; None: the treatment of the answer.
        console: Where progress is printed.
    """
    summary = read_summary_without_experiments(results)
    treatment_indices = [] if selector is None else select_treatments(summary, selector)
    try:
        status = run_proof(results, summary, treatment_indices, console)
    except BenchError as error:
        console.print(f"No diagnosis: {error}", markup=False)
        return
    if status != FINISHED:
        console.print(
            f"The diagnosis was interrupted.\n  Continue:  vnetbench explain {results} --prove", markup=False
        )


def format_empty_proof_error(results: Path) -> str:
    """Return the message for a finished proof that has no trials to compare."""
    path = proof_file_path(results)
    reasons = [
        reason
        for treatment in read_summary_without_experiments(path).treatments
        for reason in treatment.failures
    ]
    what = f"the proof file has nothing to compare ({(reasons or ['it has no trials'])[0]})"
    fix = "correct the cause, remove the proof file, and run explain --prove again"
    return str(BenchError(what, where=str(path), fix=fix))


def _continue_proof(path: Path, summary: CampaignSummary, console: Console) -> CampaignStatus:
    proof = read_summary_without_experiments(path)
    if not has_same_study(proof, summary):
        raise BenchError(
            f"this proof file belongs to another study (SHA-256 {short_study_hash(proof)}…, "
            f"here {short_study_hash(summary)}…)",
            where=str(path),
            fix="move the proof file to another folder, then run explain --prove again",
        )
    if proof.status == FINISHED:
        console.print(
            f"{path} already has the proof. Remove it to run the experiments again.\n", markup=False
        )
        return FINISHED
    return resume_campaign(path, console)


def _print_series_plan(planned: SeriesPlan, path: Path, console: Console) -> None:
    base = planned.plan.treatments[0].factors
    changes = [
        treatment_phrase(
            each.factors, tuple(name for name, level in each.factors.items() if base[name] != level)
        )
        for each in planned.plan.treatments[1:]
    ]
    varied = tuple(planned.treatment.factors)
    console.print(
        f"Comparing {', '.join(changes)} with the original treatment "
        f"({treatment_phrase(planned.treatment.factors, varied)}) in {path}: short trials, interleaved, "
        f"{MAX_SERIES_DURATION_S:.0f} s at most.",
        markup=False,
    )


def _print_experiment_plan(planned: ExperimentPlan, path: Path, console: Console) -> None:
    settings = [
        treatment_phrase(each.cause.experiment_levels, tuple(each.cause.experiment_levels))
        for each in planned.candidates
    ]
    trials = planned.study.precision.min_trials
    console.print(
        f"Comparing {' and '.join(settings)} with the original treatment in {path}: "
        f"{format_count_with_noun(trials, 'trial')} of each treatment, interleaved.",
        markup=False,
    )
