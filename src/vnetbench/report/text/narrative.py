"""Build the sentences about a campaign from its estimates and its explanation."""

from __future__ import annotations

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.explain import explain
from vnetbench.explain.model import Explanation
from vnetbench.report.one_at_a_time import merge_sparse_design_into_one_factor
from vnetbench.report.text.answer import answer_question
from vnetbench.report.text.effect_text import choose_headline_effect
from vnetbench.report.text.first_sentence import build_first_sentence
from vnetbench.report.text.narrative_model import Narrative
from vnetbench.report.text.outage_text import KINDS_OF_COMPARISONS, outage_sentences


def build_narrative(summary: CampaignSummary) -> Narrative:
    """Return the narrative of a measured or imported campaign; a published table has an empty one."""
    if summary.represented_table is not None:
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
    if outages := outage_sentences(summary):
        # A comparison of outages has no best treatment: the events are different things.
        return Narrative(
            question=answer.question,
            answer=_join_answer(outages, explanation, without_limit=True),
            findings=tuple(each for each in explanation.findings if each.kind not in KINDS_OF_COMPARISONS),
            further_results=(),
            effects_without_finding=(),
            caveats=answer.caveat_sentences,
        )
    first = build_first_sentence(summary, effect, explanation, answer.best_treatment_sentences[0])
    return Narrative(
        question=answer.question,
        answer=_join_answer(
            (first.text, *(answer.best_treatment_sentences[:1] if effect else ())),
            explanation,
            without_limit=first.names_main_limit,
        ),
        findings=explanation.findings,
        further_results=() if "best" in finding_kinds else answer.best_treatment_sentences[1:],
        effects_without_finding=() if "factors" in finding_kinds else answer.other_effect_sentences,
        caveats=answer.caveat_sentences,
    )
