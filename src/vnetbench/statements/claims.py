"""Evaluate claims about values by their confidence intervals.

A difference needs significance only, however small it is. The absence of a difference needs an interval that
lies within a margin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.statements.selection import (
    MeasuredTreatment,
    TreatmentComparison,
    TreatmentSelection,
    compare_pairs,
)
from vnetbench.statements.statement import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    StatementEvidence,
    StatementPart,
    supported_if_all,
)

MIN_RELEVANT_RATIO_DIFFERENCE = 0.05
"""Smallest relevant difference of a ratio from 1."""

StateRule = Callable[[Sequence[str]], str]
"""Combines the states of several values: `supported_if_all` or `supported_if_any`."""


@dataclass(frozen=True)
class Claim:
    """A claim about a value."""

    evaluate: Callable[[float, float], str]
    """Returns a state for both ends of the value's interval."""
    needs_significance: bool = False
    """True for a difference of a ratio from 1: support then also needs a significant adjusted p value."""


def claim_at_least(least: float) -> Claim:
    """Claim that the value is at least this."""
    return Claim(lambda low, high: SUPPORTED if low >= least else REFUTED if high < least else INCONCLUSIVE)


def claim_at_most(most: float) -> Claim:
    """Claim that the value is at most this."""
    return Claim(lambda low, high: SUPPORTED if high <= most else REFUTED if low > most else INCONCLUSIVE)


def claim_within_margin(margin: float) -> Claim:
    """Claim that a ratio is 1 within a margin."""

    def evaluate(low: float, high: float) -> str:
        if 1 - margin < low and high < 1 + margin:
            return SUPPORTED
        return REFUTED if low > 1 + margin or high < 1 - margin else INCONCLUSIVE

    return Claim(evaluate)


CLAIM_LOWER = Claim(
    lambda low, high: (
        SUPPORTED if high < 1 else REFUTED if low > 1 - MIN_RELEVANT_RATIO_DIFFERENCE else INCONCLUSIVE
    ),
    needs_significance=True,
)
"""Claim that a ratio is below 1. An interval above 1 - MIN_RELEVANT_RATIO_DIFFERENCE refutes it."""
CLAIM_HIGHER = Claim(
    lambda low, high: (
        SUPPORTED if low > 1 else REFUTED if high < 1 + MIN_RELEVANT_RATIO_DIFFERENCE else INCONCLUSIVE
    ),
    needs_significance=True,
)
"""Claim that a ratio is above 1. An interval below 1 + MIN_RELEVANT_RATIO_DIFFERENCE refutes it."""


def _difference_state(low: float, high: float) -> str:
    if low > 1 or high < 1:
        return SUPPORTED
    return (
        REFUTED
        if low > 1 - MIN_RELEVANT_RATIO_DIFFERENCE and high < 1 + MIN_RELEVANT_RATIO_DIFFERENCE
        else INCONCLUSIVE
    )


CLAIM_DIFFERENT = Claim(_difference_state, needs_significance=True)
"""Claim that a ratio is not 1. An interval within MIN_RELEVANT_RATIO_DIFFERENCE of 1 refutes it."""


def evaluate_claim(value: Estimate | Ratio, claim: Claim, divisor: float = 1.0) -> str:
    """Return the claim's state for the value's interval, divided by `divisor`; inconclusive without one."""
    if value.low is None or value.high is None:
        return INCONCLUSIVE
    state = claim.evaluate(value.low / divisor, value.high / divisor)
    if (
        state == SUPPORTED
        and claim.needs_significance
        and isinstance(value, Ratio)
        and not value.has_significant_p_value
    ):
        return INCONCLUSIVE
    return state


def ratio_evidence(
    selection: TreatmentSelection,
    base_and_compared_pairs: Sequence[tuple[MeasuredTreatment, MeasuredTreatment]],
    metric: str,
    claim: Claim,
    note: str = "",
) -> tuple[StatementEvidence, ...]:
    """Return the ratio of each pair, compared / base, with the claim's state for it."""
    return tuple(
        build_evidence(each, metric, evaluate_claim(each.ratio, claim), note)
        for each in compare_pairs(selection.summary, base_and_compared_pairs, metric)
    )


def build_evidence(
    comparison: TreatmentComparison, metric: str, state: str, note: str = ""
) -> StatementEvidence:
    """Return a ratio as evidence, with the shared and the differing levels of its treatments."""
    one, other = comparison.base_treatment.levels, comparison.compared_treatment.levels
    shared = {name: level for name, level in one.items() if other.get(name) == level}
    return StatementEvidence(
        levels=shared,
        metric=metric,
        value=comparison.ratio,
        state=state,
        differing_base_levels={name: level for name, level in one.items() if name not in shared},
        differing_compared_levels={name: level for name, level in other.items() if name not in shared},
        note="; ".join(filter(None, (note, _modes_note(comparison, metric)))),
    )


def _modes_note(comparison: TreatmentComparison, metric: str) -> str:
    treatments = (comparison.base_treatment.treatment, comparison.compared_treatment.treatment)
    has_modes = any(treatment.metrics[metric].modes for treatment in treatments)
    return "one treatment has two modes, and the ratio mixes them" if has_modes else ""


def value_evidence(
    treatment: MeasuredTreatment, metric: str, state: str = "", note: str = ""
) -> StatementEvidence:
    """Return a treatment's own value as evidence."""
    value = treatment.treatment.metrics[metric]
    return StatementEvidence(treatment.levels, metric, value, state, note=note)


def build_statement_part(
    claim: str,
    evidence: Sequence[StatementEvidence],
    missing: str,
    rule: StateRule = supported_if_all,
    missing_precision: str = "",
) -> StatementPart:
    """Return a part with its evidence and state.

    Args:
        claim: the claim as a clause.
        evidence: values with states.
        missing: what the campaign lacks if there is no evidence.
        rule: combines the states of the evidence.
        missing_precision: what the campaign lacks if the evidence is inconclusive; empty for more trials.
    """
    if not evidence:
        return StatementPart(claim, INCONCLUSIVE, (), missing)
    state = rule([each.state for each in evidence])
    lacking = (missing_precision or _missing_precision(evidence)) if state == INCONCLUSIVE else ""
    return StatementPart(claim, state, tuple(evidence), lacking)


def _missing_precision(evidence: Sequence[StatementEvidence]) -> str:
    if any(each.value.low is None for each in evidence):
        return "more trials, because a treatment has too few trials for an interval"
    return "more trials, because the intervals are too wide"
