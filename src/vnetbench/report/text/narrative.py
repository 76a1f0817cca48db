"""The sentences about a campaign in reading order: answer, findings, measurements, effects and caveats."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.model import Explanation, Finding
from vnetbench.report.one_at_a_time import merge_sparse_design_into_one_factor
from vnetbench.report.text.answer import answer_question
from vnetbench.report.text.effect_text import choose_headline_effect
from vnetbench.report.text.first_sentence import build_first_sentence


@dataclass(frozen=True)
class Narrative:
    """All sentences about a campaign, one or two sentences per string. No sentence appears twice."""

    question: str
    answer: tuple[str, ...]
    """The answer: the effect, the best treatment, and what limits it."""
    findings: tuple[Finding, ...]
    further_results: tuple[str, ...]
    """Treatments tied with the best, latency under load, and cycle costs, unless a finding reports them."""
    effects_without_finding: tuple[str, ...]
    """The effects of the factors, unless a finding reports them."""
    caveats: tuple[str, ...]
    """The precision reached, and the results that are missing."""

    @property
    def findings_as_explanation(self) -> Explanation:
        """The findings with the answer, as an explanation."""
        return Explanation(self.answer, self.findings)


def build_narrative(summary: CampaignSummary) -> Narrative:
    """Return the narrative of a measured or imported campaign; a published table has an empty one."""
    if summary.reference_table is not None:
        return Narrative(summary.title, (), (), (), (), ())
    return combine_narrative(merge_sparse_design_into_one_factor(summary), explain(summary))


def _join_answer(
    results: tuple[str, ...], explanation: Explanation, *, without_limit: bool
) -> tuple[str, ...]:
    """Return the answer. The sentence about failed trials is the second one.

    Args:
        results: The first sentence, and the best treatment.
        explanation: The explanation with its own answer.
        without_limit: Whether the first sentence names the limit already.
    """
    failures = explanation.failures
    limit = () if without_limit else explanation.answer[len(failures) :]
    return (*results[:1], *failures, *results[1:], *limit)


def combine_narrative(summary: CampaignSummary, explanation: Explanation) -> Narrative:
    """Combine the answer from the estimates with the explanation.

    The sentences about the best treatment and about effects are left out if a finding contains them.
    """
    finding_kinds = {finding.kind for finding in explanation.findings}
    answer = answer_question(summary)
    effect = choose_headline_effect(summary)
    first = build_first_sentence(summary, effect, explanation, answer.best[0])
    return Narrative(
        question=answer.question,
        answer=_join_answer(
            (first.text, *(answer.best[:1] if effect else ())),
            explanation,
            without_limit=first.names_main_limit,
        ),
        findings=explanation.findings,
        further_results=() if "best" in finding_kinds else answer.best[1:],
        effects_without_finding=() if "factors" in finding_kinds else answer.other_effects,
        caveats=answer.caveats,
    )
