"""What a campaign says, in one order and nothing twice: the answer, the findings, the figures, the doubts."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.model import Explanation, Finding
from vnetbench.report.one_at_a_time import to_single_factor
from vnetbench.report.text.answer import answer_question


@dataclass(frozen=True)
class Narrative:
    """All sentences about a campaign, one sentence or two a string."""

    question: str
    lead: tuple[str, ...]
    """The answer: what is best, what limits it, what would change that."""
    findings: tuple[Finding, ...]
    figures: tuple[str, ...]
    """What was measured beyond the lead."""
    effects: tuple[str, ...]
    """What each factor does, where no finding says it."""
    doubts: tuple[str, ...]
    """How sure it is, and what is not known."""

    @property
    def explanation(self) -> Explanation:
        """The same as an explanation: with the lead for its answer."""
        return Explanation(self.lead, self.findings)


def build_narrative(summary: CampaignSummary) -> Narrative:
    """The story of a campaign that was measured or imported; a published table has none."""
    if summary.reference is not None:
        return Narrative(summary.title, (), (), (), (), ())
    return combine_narrative(to_single_factor(summary), explain(summary))


def combine_narrative(summary: CampaignSummary, explanation: Explanation) -> Narrative:
    """The answer to the study's question from the estimates, and why from the explanation.

    Where a finding says what is best, or what factors do, the estimates' own sentences are left out.
    """
    told = {finding.kind for finding in explanation.findings}
    measured = answer_question(summary)
    first, rest = measured.best[:1], measured.best[1:]
    return Narrative(
        question=measured.question,
        lead=(*first, *explanation.answer),
        findings=explanation.findings,
        figures=() if "best" in told else rest,
        effects=() if "factors" in told else measured.effects,
        doubts=measured.doubts,
    )
