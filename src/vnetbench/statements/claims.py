"""What an interval says to a claim: it holds, it does not, or the interval is too wide to tell.

A difference counts when it is beyond chance, however small. That there is none can be told only within a
margin: by an interval that lies in it altogether.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.statements.selection import TreatmentComparison, TreatmentSelection, MeasuredTreatment, compared
from vnetbench.statements.statement import CANNOT_TELL, REFUTED, SHOWN, StatementEvidence, StatementPart, combine_all

MARGIN = 0.05
"""Of a ratio: less than this is no difference that matters."""

Rule = Callable[[Sequence[str]], str]
"""From the states of several figures to that of the part: `every`, `any_of`."""


@dataclass(frozen=True)
class Claim:
    """Something said of a value."""

    judge: Callable[[float, float], str]
    """From the ends of the value's interval to a state."""
    is_difference: bool = False
    """Of a ratio that it differs from 1: many such are judged by their adjusted p values too."""


def at_least(least: float) -> Claim:
    """That the value is no less than this."""
    return Claim(lambda low, high: SHOWN if low >= least else REFUTED if high < least else CANNOT_TELL)


def same(margin: float) -> Claim:
    """That a ratio is 1 within a margin."""

    def judge(low: float, high: float) -> str:
        if 1 - margin < low and high < 1 + margin:
            return SHOWN
        return REFUTED if low > 1 + margin or high < 1 - margin else CANNOT_TELL

    return Claim(judge)


LOWER = Claim(
    lambda low, high: SHOWN if high < 1 else REFUTED if low > 1 - MARGIN else CANNOT_TELL, is_difference=True
)
"""That a ratio is below 1; refuted where it is not, or by less than MARGIN."""
HIGHER = Claim(
    lambda low, high: SHOWN if low > 1 else REFUTED if high < 1 + MARGIN else CANNOT_TELL, is_difference=True
)
"""That a ratio is above 1; refuted where it is not, or by less than MARGIN."""


def _differs(low: float, high: float) -> str:
    if low > 1 or high < 1:
        return SHOWN
    return REFUTED if low > 1 - MARGIN and high < 1 + MARGIN else CANNOT_TELL


DIFFERENT = Claim(_differs, is_difference=True)
"""That a ratio is not 1; refuted where it is 1 within MARGIN."""


def judged(figure: Estimate | Ratio, claim: Claim, divisor: float = 1.0) -> str:
    """What the figure's interval, divided by `divisor`, says to the claim; without one it cannot tell."""
    if figure.low is None or figure.high is None:
        return CANNOT_TELL
    state = claim.judge(figure.low / divisor, figure.high / divisor)
    if state == SHOWN and claim.is_difference and isinstance(figure, Ratio) and not _is_sure(figure):
        return CANNOT_TELL
    return state


def contrasts(
    found: TreatmentSelection, pairs: Sequence[tuple[MeasuredTreatment, MeasuredTreatment]], metric: str, claim: Claim, note: str = ""
) -> tuple[StatementEvidence, ...]:
    """The ratio of each pair (base, level) and what it says to the claim."""
    return tuple(
        as_evidence(each, metric, judged(each.ratio, claim), note)
        for each in compared(found.summary, pairs, metric)
    )


def as_evidence(each: TreatmentComparison, metric: str, says: str, note: str = "") -> StatementEvidence:
    """A ratio with the levels that its treatments share, and those that they do not."""
    one, other = each.base.levels, each.level.levels
    shared = {name: level for name, level in one.items() if other.get(name) == level}
    return StatementEvidence(
        levels=shared,
        metric=metric,
        value=each.ratio,
        state=says,
        base={name: level for name, level in one.items() if name not in shared},
        level={name: level for name, level in other.items() if name not in shared},
        note="; ".join(filter(None, (note, _mixed(each, metric)))),
    )


def _mixed(each: TreatmentComparison, metric: str) -> str:
    sides = (each.base.treatment, each.level.treatment)
    has_modes = any(side.metrics[metric].modes for side in sides)
    return "trials of one of them fall into two modes, which the ratio mixes" if has_modes else ""


def measured(tested: MeasuredTreatment, metric: str, says: str = "", note: str = "") -> StatementEvidence:
    """A treatment's own figure."""
    return StatementEvidence(tested.levels, metric, tested.treatment.metrics[metric], says, note=note)


def part(
    what: str, evidence: Sequence[StatementEvidence], missing: str, rule: Rule = combine_all, undecided: str = ""
) -> StatementPart:
    """A part that rests on evidence; `missing` is why there is none, `undecided` what would decide it."""
    if not evidence:
        return StatementPart(what, CANNOT_TELL, (), missing)
    state = rule([each.state for each in evidence])
    return StatementPart(
        what, state, tuple(evidence), (undecided or _too_wide(evidence)) if state == CANNOT_TELL else ""
    )


def _is_sure(ratio: Ratio) -> bool:
    return ratio.p_value is not None and ratio.p_value <= 1 - ratio.confidence + 1e-12


def _too_wide(evidence: Sequence[StatementEvidence]) -> str:
    if any(each.value.low is None for each in evidence):
        return "more trials: there are too few for an interval"
    return "more trials: the intervals leave it open"
