"""The command `explain`: the answer of a results file, its findings with their evidence, and their proof."""

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
    from vnetbench.report.text.narrative import Story

RESULTS = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("results", type=RESULTS)
@click.option("--json", "as_json", is_flag=True, help="For a program; documented in docs/show-json.md.")
@click.option(
    "--treatment",
    "treatments",
    multiple=True,
    metavar="LEVELS",
    help="Only what is said of this treatment: streams=4,mtu=1500, or its index. A level may have commas in "
    "it: thread_cpus=0,2,mtu=1500. Several treatments may be named, each by a --treatment of its own.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="First run what would prove the first suspicions, where it can be; only those of --treatment.",
)
def explain(results: Path, as_json: bool, treatments: Sequence[str], prove: bool) -> int:
    """Why the figures of RESULTS are what they are: what limits them, the evidence, what would change it."""
    from vnetbench.commands.treatment_selection import indices_of
    from vnetbench.commands.summaries import read_summary
    from vnetbench.report.export.campaign_export import as_explanation_json

    summary = read_summary(results)
    chosen = [index for asked in treatments for index in indices_of(summary, asked)]
    is_interrupted, why_nothing = False, ""
    if prove:
        from vnetbench.commands.proof import prove as run_proof
        from vnetbench.commands.proof import why_nothing_is_proved

        status = run_proof(results, summary, chosen, Console(highlight=False, stderr=as_json))
        is_interrupted = status == INTERRUPTED
        summary = read_summary(results)
        if not (is_interrupted or summary.experiments):
            why_nothing = why_nothing_is_proved(results)
    told = _told(summary, chosen)
    if as_json:
        click.echo(as_explanation_json(summary, told))
    else:
        _print(summary, told)
    if is_interrupted:
        click.echo(f"\ninterrupted\n  go on:  vnetbench explain {results} --prove", err=as_json)
        return exit_codes.INTERRUPTED
    if why_nothing:
        click.echo(f"\n{why_nothing}", err=True)
        return exit_codes.NOTHING_MEASURED
    return 0


def _told(summary: CampaignSummary, chosen: Sequence[int]) -> Story:
    """The story; where treatments are chosen only what is said of one of them, or bears on all of them."""
    from dataclasses import replace

    from vnetbench.report.text.narrative import story_of

    story = story_of(summary)
    if not chosen:
        return story
    # Of none alone are effects of factors too; but what makes all trials differ is in each one's figures.
    kept = tuple(
        each
        for each in story.findings
        if set(each.treatments) & set(chosen) or (each.kind == "unstable" and not each.treatments)
    )
    return replace(story, lead=(), findings=kept)


def _print(summary: CampaignSummary, told: Story) -> None:
    from vnetbench.report.text.explanation_text import ExplanationText
    from vnetbench.report.tables.text_table import Unpadded

    text = ExplanationText(told.explanation, tuple(_remarks(summary, told)))
    Console(highlight=False).print(Unpadded(text), crop=False)


def _remarks(summary: CampaignSummary, told: Story) -> Iterator[str]:
    """What is said of the explanation itself."""
    from vnetbench.explain.experiment_command import about_study

    if not told.findings:
        yield (
            "Published figures have no trials, so nothing explains them."
            if summary.reference is not None
            else "Nothing is said of it."
        )
    remarks = (about_study(suspect.command) for each in told.findings for suspect in each.suspects)
    yield from set(filter(None, remarks))
    if summary.about_proof:
        yield f"{summary.about_proof}."
