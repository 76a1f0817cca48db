"""What a run says of a suspicion: with the suspect's setting, was the treatment surely better, or surely not?

Counters of one run cannot tell two limits that hold at once apart: both read as full, and lifting one changes
nothing while the other holds. Only a run in which one is lifted shows which of them it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.estimate.metrics import is_better_low
from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.explain.model import CONFIRMED, REFUTED, Proof, Suspect
from vnetbench.study.model import Level

WORTHWHILE = 1.05
"""Times better, that lifting what limits a treatment makes it at least."""
NOT_SHOWN = "not shown"


def proven(
    suspects: Sequence[Suspect], levels: Mapping[str, Level], experiments: Sequence[Experiment]
) -> tuple[Suspect, ...]:
    """The suspects of a treatment with these levels: what was confirmed first, what was refuted last.

    Of several that were confirmed the one that gained most is the first.
    """
    return tuple(sorted((_judged(each, levels, experiments) for each in suspects), key=_place))


def was_tried(levels: Mapping[str, Level], experiments: Sequence[Experiment]) -> bool:
    """Whether an experiment was made with a treatment of these levels."""
    return any(_is_like(each, levels) for each in experiments)


def verdict(ratio: Ratio, metric: str) -> str:
    """`confirmed`, `refuted` or `not shown`, by the interval of the ratio: with the setting / without.

    Confirmed: better beyond chance, and by as much as is worthwhile. Refuted: so much better is ruled out.
    A treatment that is dead throughout with one of the two has no interval, and in blocks enough needs none.
    """
    better = _gain(ratio, metric)
    if better.p is not None and better.value in (0, math.inf):
        return CONFIRMED if better.value else REFUTED
    if better.low is None or better.high is None:
        return NOT_SHOWN
    if better.low > 1 and better.value >= WORTHWHILE:
        return CONFIRMED
    return REFUTED if better.high < WORTHWHILE else NOT_SHOWN


def _place(suspect: Suspect) -> tuple[int, float]:
    if suspect.proof is None or suspect.certainty not in (CONFIRMED, REFUTED):
        return 0, 0.0
    if suspect.certainty == REFUTED:
        return 1, 0.0
    found = suspect.proof.experiment
    return -1, -_gain(found.ratio, found.metric).value


def _judged(suspect: Suspect, levels: Mapping[str, Level], experiments: Sequence[Experiment]) -> Suspect:
    found = next((each for each in experiments if _is_of(each, suspect, levels)), None)
    if found is None:
        return suspect
    says = verdict(found.ratio, found.metric)
    certainty = suspect.certainty if says == NOT_SHOWN else says
    return replace(suspect, certainty=certainty, proof=Proof(says, found))


def _is_of(experiment: Experiment, suspect: Suspect, levels: Mapping[str, Level]) -> bool:
    setting = suspect.cause.setting
    return bool(setting) and _is_like(experiment, levels) and dict(experiment.setting) == dict(setting)


def _is_like(experiment: Experiment, levels: Mapping[str, Level]) -> bool:
    return all(experiment.levels.get(name, level) == level for name, level in levels.items())


def _gain(ratio: Ratio, metric: str) -> Ratio:
    """The same with more than 1 for the better."""
    if not is_better_low(metric):
        return ratio
    low, high = (1 / end if end else None for end in (ratio.high, ratio.low))
    return replace(ratio, value=1 / ratio.value if ratio.value else math.inf, low=low, high=high)
