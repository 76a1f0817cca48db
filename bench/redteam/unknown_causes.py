"""Scores runs as if nobody had written a rule for their cause.

A cause that no rule names is the hardest test of honesty: the right answer is then "not explained", a low
confidence, or a state that is true all the same. So each run is explained without the rules of its accepted
names. That explanation must not be wrong and confident.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.redteam import effects
from bench.redteam.intervals import format_share
from bench.redteam.model import Label
from bench.redteam.scoring import (
    Named,
    Verdict,
    format_counts,
    format_run,
    is_disturbed,
    named_causes,
    with_present_names,
)
from vnetbench.errors import BenchError
from vnetbench.estimate.stored_summary import read_or_compute_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.rules import load_rules
from vnetbench.report.export.explanation_fields import explanation_fields
from vnetbench.results.file import ResultsFile


def judge_runs(folder: Path, labels: Iterable[Label], with_disturbed: bool = False) -> list[Verdict]:
    """Explain each run with a fault without the rules of its accepted names."""
    present = map(with_present_names, labels)
    return [_judge_run(folder, label, with_disturbed) for label in present if not label.is_control]


def _judge_run(folder: Path, label: Label, with_disturbed: bool) -> Verdict:
    disturbed = not with_disturbed and is_disturbed(label)
    if label.error:
        return Verdict(label, (), disturbed)
    try:
        summary = read_or_compute_summary(ResultsFile.open_to_read(folder / label.results))
    except BenchError as error:
        return Verdict(label, (), disturbed, str(error))
    return Verdict(label, named_without_rules(summary, label.accepted), disturbed)


def named_without_rules(summary: CampaignSummary, causes: Collection[str]) -> tuple[Named, ...]:
    """Return the causes that an explanation names if these causes have no patterns of evidence.

    A comparison of trials or an error can still name one of them.
    """
    rules = {
        name: replace(rule, patterns=()) if name in causes else rule for name, rule in load_rules().items()
    }
    return named_causes(explanation_fields(explain(summary, rules)))


def format_scores(verdicts: Sequence[Verdict], with_details: bool) -> Iterator[str]:
    """Yield how often the first name is wrong and confident, apart for failed trials, and these names."""
    scored = [verdict for verdict in verdicts if verdict.is_scored_fault]
    if with_details:
        yield from map(format_run, scored)
    yield from format_counts(verdicts)
    yield "Without the rules of the run's own cause: the first name is confident, and not accepted"
    for title, effect in (("of runs with an effect", effects.EFFECT), ("of failed trials", effects.FAILED)):
        group = [each for each in scored if each.label.effect == effect]
        yield f"  {title:44} {format_share(sum(each.is_confidently_wrong for each in group), len(group))}"
    names = Counter(each.first.cause for each in scored if each.first and each.is_confidently_wrong)
    yield "  these names: " + (", ".join(f"{name} {count}" for name, count in names.most_common()) or "none")
    named = sum(each.is_right for each in scored)
    yield f"  {'accepted first without its rules':44} {format_share(named, len(scored))}"
