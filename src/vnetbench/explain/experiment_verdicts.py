"""What a run says of a suspicion: with the suspect's setting, was the treatment surely better, or surely not?

Counters of one run cannot tell two limits that hold at once apart: both read as full, and lifting one changes
nothing while the other holds. Only a run in which one is lifted shows which of them it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import Experiment, Ratio
from vnetbench.explain.model import CONFIRMED, REFUTED, ExperimentResult, CandidateCause
from vnetbench.study.model import Level

MIN_GAIN = 1.05
"""Times better, that lifting what limits a treatment makes it at least."""
INCONCLUSIVE = "not shown"


def apply_experiments(
    suspects: Sequence[CandidateCause], levels: Mapping[str, Level], experiments: Sequence[Experiment]
) -> tuple[CandidateCause, ...]:
    """The suspects of a treatment with these levels: what was confirmed first, what was refuted last.

    Of several that were confirmed the one that gained most is the first.
    """
    return tuple(sorted((_with_verdict(each, levels, experiments) for each in suspects), key=_sort_key))


def has_experiment(levels: Mapping[str, Level], experiments: Sequence[Experiment]) -> bool:
    """Whether an experiment was made with a treatment of these levels."""
    return any(_has_same_levels(each, levels) for each in experiments)


def experiment_verdict(ratio: Ratio, metric: str) -> str:
    """`confirmed`, `refuted` or `not shown`, by the interval of the ratio: with the setting / without.

    Confirmed: better beyond chance, and by as much as is worthwhile. Refuted: so much better is ruled out.
    A treatment that is dead throughout with one of the two has no interval, and in blocks enough needs none.
    """
    better = _improvement(ratio, metric)
    if better.p_value is not None and better.value in (0, math.inf):
        return CONFIRMED if better.value else REFUTED
    if better.low is None or better.high is None:
        return INCONCLUSIVE
    if better.low > 1 and better.value >= MIN_GAIN:
        return CONFIRMED
    return REFUTED if better.high < MIN_GAIN else INCONCLUSIVE


def _sort_key(suspect: CandidateCause) -> tuple[int, float]:
    if suspect.experiment_result is None or suspect.confidence not in (CONFIRMED, REFUTED):
        return 0, 0.0
    if suspect.confidence == REFUTED:
        return 1, 0.0
    found = suspect.experiment_result.experiment
    return -1, -_improvement(found.ratio, found.metric).value


def _with_verdict(suspect: CandidateCause, levels: Mapping[str, Level], experiments: Sequence[Experiment]) -> CandidateCause:
    found = next((each for each in experiments if _is_for_candidate(each, suspect, levels)), None)
    if found is None:
        return suspect
    says = experiment_verdict(found.ratio, found.metric)
    certainty = suspect.confidence if says == INCONCLUSIVE else says
    return replace(suspect, confidence=certainty, experiment_result=ExperimentResult(says, found))


def _is_for_candidate(experiment: Experiment, suspect: CandidateCause, levels: Mapping[str, Level]) -> bool:
    setting = suspect.cause.setting
    return bool(setting) and _has_same_levels(experiment, levels) and dict(experiment.changed_levels) == dict(setting)


def _has_same_levels(experiment: Experiment, levels: Mapping[str, Level]) -> bool:
    return all(experiment.base_levels.get(name, level) == level for name, level in levels.items())


def _improvement(ratio: Ratio, metric: str) -> Ratio:
    """The same with more than 1 for the better."""
    if not is_lower_better(metric):
        return ratio
    low, high = (1 / end if end else None for end in (ratio.high, ratio.low))
    return replace(ratio, value=1 / ratio.value if ratio.value else math.inf, low=low, high=high)
