"""The command `explain`: findings of a results file with their evidence, and experiments that test them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from vnetbench.commands import exit_codes
from vnetbench.results.records import INTERRUPTED

if TYPE_CHECKING:
    from vnetbench.estimate.summary import CampaignSummary
    from vnetbench.report.text.narrative_model import Narrative

RESULTS_FILE_TYPE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("results", type=RESULTS_FILE_TYPE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (see docs/show-json.md).")
@click.option(
    "--treatment",
    "treatments",
    multiple=True,
    metavar="LEVELS",
    help="Explain only this treatment: its levels (streams=4,mtu=1500) or its index. A level may contain "
    "commas: thread_cpus=0,2,mtu=1500. Repeat the option for several treatments.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="Before explaining, run experiments that test the most likely causes, if this machine can.",
)
def explain(results: Path, as_json: bool, treatments: Sequence[str], prove: bool) -> int:
    """Explain what limits each treatment of RESULTS: causes, evidence and what to change."""
    from vnetbench.commands.summaries import read_summary_with_experiments
    from vnetbench.commands.treatment_selection import select_treatments
    from vnetbench.report.export.campaign_json import explanation_json

    summary = read_summary_with_experiments(results)
    treatment_indices = [index for selector in treatments for index in select_treatments(summary, selector)]
    is_interrupted, empty_proof_message = False, ""
    if prove:
        from vnetbench.commands.proof import format_empty_proof_error, run_proof

        console = Console(highlight=False, emoji=False, stderr=as_json)
        status = run_proof(results, summary, treatment_indices, console)
        is_interrupted = status == INTERRUPTED
        summary = read_summary_with_experiments(results)
        if not (is_interrupted or summary.experiments):
            empty_proof_message = format_empty_proof_error(results)
    narrative = _build_narrative_of_treatments(summary, treatment_indices)
    if as_json:
        click.echo(explanation_json(summary, narrative, treatment_indices))
    else:
        _print_explanation(summary, narrative, treatment_indices)
    if is_interrupted:
        click.echo(f"\nInterrupted.\n  Continue:  vnetbench explain {results} --prove", err=as_json)
        return exit_codes.INTERRUPTED
    if empty_proof_message:
        click.echo(f"\n{empty_proof_message}", err=True)
        return exit_codes.NOTHING_MEASURED
    return 0


def _build_narrative_of_treatments(summary: CampaignSummary, treatment_indices: Sequence[int]) -> Narrative:
    """Return the narrative, limited to the chosen treatments and to what affects every treatment."""
    from dataclasses import replace

    from vnetbench.report.text.stored_narrative import read_or_build_narrative

    narrative = read_or_build_narrative(summary)
    if not treatment_indices:
        return narrative
    # Effects of factors name no treatment either, but instability of all trials affects each of them.
    kept = tuple(
        each
        for each in narrative.findings
        if set(each.treatment_indices) & set(treatment_indices)
        or (each.kind == "unstable" and not each.treatment_indices)
    )
    return replace(narrative, answer=(), findings=kept)


def _print_explanation(
    summary: CampaignSummary, narrative: Narrative, treatment_indices: Sequence[int]
) -> None:
    from vnetbench.report.tables.text_table import TrimmedLines
    from vnetbench.report.text.explanation_text import ExplanationText
    from vnetbench.report.text.time_text import time_lines

    notes, lines = (
        tuple(_explanation_notes(summary, narrative)),
        tuple(time_lines(summary, treatment_indices)),
    )
    text = ExplanationText(narrative.findings_as_explanation, notes, lines)
    Console(highlight=False, emoji=False).print(TrimmedLines(text), crop=False)


def _explanation_notes(summary: CampaignSummary, narrative: Narrative) -> Iterator[str]:
    """Yield notes about the explanation itself."""
    from vnetbench.explain.experiment_command import study_placeholder_note

    if not narrative.findings:
        yield (
            "Published results have no trials, so they cannot be explained."
            if summary.represented_table is not None
            else "There are no findings."
        )
    notes = (
        study_placeholder_note(candidate.command)
        for finding in narrative.findings
        for candidate in finding.candidates
    )
    yield from set(filter(None, notes))
    if summary.proof_file_note:
        yield f"{summary.proof_file_note}."
