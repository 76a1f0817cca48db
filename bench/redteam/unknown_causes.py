"""Scores runs as if nobody had written a rule for their cause.

A cause that no rule names is the hardest test of honesty: the right answer is then "not explained", a low
confidence, or a state that is true all the same. So each run is explained twice, with all rules and without
those of its accepted names. The second explanation must not be wrong and confident.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from bench.redteam import effects
from bench.redteam.intervals import format_share
from bench.redteam.model import Label
from bench.redteam.scoring import CONFIDENT, IGNORED_CAUSES, Named, is_disturbed, with_present_names
from vnetbench.errors import BenchError
from vnetbench.estimate.stored_summary import read_or_compute_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain import explain, limits, rules, sample_size
from vnetbench.explain.rules import CauseRule
from vnetbench.results.file import ResultsFile


@dataclass(frozen=True)
class UnknownRun:
    """What the explanation of a run names first without the rules of its cause; None for nothing."""

    label: Label
    first: Named | None

    @property
    def is_confident(self) -> bool:
        """Whether that name is confident, and therefore most likely misleads."""
        return self.first is not None and self.first.confidence in CONFIDENT


def judge_runs(folder: Path, labels: Iterable[Label]) -> Iterator[UnknownRun]:
    """Explain each run whose fault had an effect, without the rules of its accepted names."""
    for label in map(with_present_names, labels):
        is_fault = label.effect in (effects.EFFECT, effects.FAILED) and not label.is_control
        if not is_fault or label.error or is_disturbed(label):
            continue
        try:
            summary = read_or_compute_summary(ResultsFile.open_to_read(folder / label.results))
        except BenchError:
            continue
        yield UnknownRun(label, first_cause_without_rules(summary, label.accepted))


def first_cause_without_rules(summary: CampaignSummary, causes: Collection[str]) -> Named | None:
    """Return the first cause that an explanation names if these causes have no patterns of evidence."""
    known = rules.load_rules()

    def load_other_rules() -> Mapping[str, CauseRule]:
        return {name: replace(rule, patterns=()) if name in causes else rule for name, rule in known.items()}

    with ExitStack() as stack:
        for module in (limits, sample_size):
            stack.enter_context(patch.object(module, "load_rules", load_other_rules))
        candidates = [each for finding in explain.explain(summary).findings for each in finding.candidates]
    for each in candidates:
        if each.cause.name not in IGNORED_CAUSES and each.confidence != "refuted":
            return Named(each.cause.name, each.confidence, each.cause.is_fault)
    return None


def format_scores(runs: Iterable[UnknownRun]) -> Iterator[str]:
    """Yield the share of confident names, apart for failed trials, and what these names are."""
    judged = list(runs)
    yield "Without the rules of the run's own cause: the first name is confident"
    for title, effect in (("of runs with an effect", effects.EFFECT), ("of failed trials", effects.FAILED)):
        own = [run for run in judged if run.label.effect == effect]
        yield f"  {title:44} {format_share(sum(run.is_confident for run in own), len(own))}"
    names = Counter(run.first.cause for run in judged if run.first and run.is_confident)
    yield "  these names: " + (", ".join(f"{name} {count}" for name, count in names.most_common()) or "none")
