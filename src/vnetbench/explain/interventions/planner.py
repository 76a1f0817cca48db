"""The series of interventions: which treatments each block has, and when the answer is clear.

A block has the unchanged treatment and a few interventions. Each intervention is analysed after the numbers
of blocks that `analysis_block_counts` returns. The analyses of one intervention together keep the study's
confidence (Bonferroni). That holds for each intervention by itself: the chance that a verdict on any of them
is wrong grows with their number. The series depends only on the trials of earlier blocks, so that it can be
resumed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vnetbench.estimate.model import Ratio
from vnetbench.estimate.paired_ratios import (
    combine_paired_ratios,
    estimate_paired_ratio,
    min_blocks_for_paired_ratio,
)
from vnetbench.explain.experiment_verdicts import ratio_of_improvement
from vnetbench.explain.interventions.elasticity import (
    CONTRIBUTES,
    GAIN,
    LIMITS,
    NO_LIMIT,
    UNDECIDED,
    estimate_elasticity,
    intervention_verdict,
)
from vnetbench.explain.interventions.resources import RESOURCES
from vnetbench.results.records import mapping_or_empty

BASE_TREATMENT_INDEX = 0
"""Index of the unchanged treatment in the plan of a series."""
_ANALYSES_PER_INTERVENTION = 2
"""Number of analyses of one intervention."""
_BLOCK_COUNT_GROWTH = 1.5
"""Number of blocks at the second analysis, as a multiple of that at the first one."""
MAX_INTERVENTIONS_PER_BLOCK = 4
"""With more, too much time would pass between a change and the unchanged treatment of its block."""
ValuesByBlock = Mapping[int, float]


@dataclass(frozen=True)
class PlannedIntervention:
    """One intervention of a series."""

    treatment_index: int
    """Index of its treatment in the plan."""
    resource: str
    """Name of its resource (`RESOURCES`); empty for an advised change that belongs to no resource."""
    resource_ratio: float | None
    """Amount of the resource after the change / before it; None for a switch."""
    time_share: float
    """Share of the time that depends on the resource, 0 to 1."""
    is_advice: bool = False
    """Whether the advice of a candidate cause names this change. Such a change is always tried."""

    @property
    def is_decrease(self) -> bool:
        """Whether there is less of the resource."""
        return self.resource_ratio is not None and self.resource_ratio < 1


@dataclass(frozen=True)
class InterventionSeries:
    """The interventions of one treatment, most informative first."""

    interventions: tuple[PlannedIntervention, ...]
    metric: str
    """Name of the deciding metric."""
    confidence: float
    """Confidence of the interval of one analysis."""

    def choose_treatments(
        self, block: int, values: Mapping[int, ValuesByBlock], open_treatments: Collection[int]
    ) -> tuple[int, ...]:
        """Return the treatments of the next block, unchanged one first; empty if the series has ended."""
        if BASE_TREATMENT_INDEX not in open_treatments or self.is_answer_clear(values):
            return ()
        waiting, running = [], []
        verdicts = self._verdicts_by_resource(values)
        for each in self.interventions:
            if each.treatment_index not in open_treatments:
                continue
            if values.get(each.treatment_index):
                if not self._needs_no_more_blocks(each, values):
                    running.append(each.treatment_index)
            elif not _is_superfluous(each, verdicts.get(each.resource, [])):
                waiting.append(each.treatment_index)
        chosen = [*running, *waiting][: max(MAX_INTERVENTIONS_PER_BLOCK, len(running))]
        return (BASE_TREATMENT_INDEX, *chosen) if chosen else ()

    def is_answer_clear(self, values: Mapping[int, ValuesByBlock]) -> bool:
        """Return whether one resource limits more than every other one, and nothing larger is untested.

        The interval of its elasticity excludes those of all other resources, or its removal gains more than
        every other change. Each intervention that is not analysed yet concerns less of the time, and none
        of them tests advice.
        """
        ratios = {
            each.treatment_index: ratio
            for each in self.interventions
            if (ratio := self._analysed_ratio(each, values)) is not None
        }
        analysed = [each for each in self.interventions if each.treatment_index in ratios]
        missing = [each for each in self.interventions if each.treatment_index not in ratios]
        return not any(each.is_advice for each in missing) and any(
            self._is_clear_leader(leader, analysed, ratios)
            and all(
                each.time_share < leader.time_share for each in missing if each.resource != leader.resource
            )
            for leader in analysed
        )

    def _is_clear_leader(
        self,
        leader: PlannedIntervention,
        analysed: Sequence[PlannedIntervention],
        ratios: Mapping[int, Ratio],
    ) -> bool:
        """Return whether an intervention shows that its resource limits more than each other one."""
        others = [each for each in analysed if each.resource != leader.resource]
        verdict = intervention_verdict(ratios[leader.treatment_index], self.metric, leader.resource_ratio)
        if verdict == LIMITS:
            intervals = {each.treatment_index: self._elasticity_interval(each, ratios) for each in analysed}
            rivals = [each for each in others if each.resource_ratio is not None]
        elif verdict == GAIN and leader.resource in RESOURCES and RESOURCES[leader.resource].causes:
            intervals = {each.treatment_index: self._improvement_interval(each, ratios) for each in analysed}
            rivals = others
        else:
            return False
        low = intervals[leader.treatment_index][0]
        return bool(rivals) and all(intervals[each.treatment_index][1] < low for each in rivals)

    def _elasticity_interval(
        self, planned: PlannedIntervention, ratios: Mapping[int, Ratio]
    ) -> tuple[float, float]:
        ratio = ratios[planned.treatment_index]
        elasticity = estimate_elasticity(ratio, self.metric, planned.resource_ratio)
        return (
            _interval_or_all_numbers(elasticity.low, elasticity.high)
            if elasticity
            else _interval_or_all_numbers(None, None)
        )

    def _improvement_interval(
        self, planned: PlannedIntervention, ratios: Mapping[int, Ratio]
    ) -> tuple[float, float]:
        improvement = ratio_of_improvement(ratios[planned.treatment_index], self.metric)
        return _interval_or_all_numbers(improvement.low, improvement.high)

    def to_facts(self) -> dict[str, Any]:
        """Return the series as facts of its results file, from which `from_facts` restores it."""
        planned = {
            f"treatment_{each.treatment_index}": {
                "resource": each.resource,
                "resource_ratio": each.resource_ratio,
                "time_share": each.time_share,
                "is_advice": each.is_advice,
            }
            for each in self.interventions
        }
        return {"metric": self.metric, "confidence": self.confidence, **planned}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> InterventionSeries:
        """Return the series that a results file describes."""
        return cls(tuple(_interventions_from_facts(facts)), str(facts["metric"]), float(facts["confidence"]))

    def _verdicts_by_resource(self, values: Mapping[int, ValuesByBlock]) -> dict[str, list[str]]:
        verdicts: dict[str, list[str]] = {}
        for each in self.interventions:
            verdict = self._verdict_on_intervention(each, values)
            if each.resource and verdict != UNDECIDED:
                verdicts.setdefault(each.resource, []).append(verdict)
        return verdicts

    def _needs_no_more_blocks(
        self, planned: PlannedIntervention, values: Mapping[int, ValuesByBlock]
    ) -> bool:
        """Return whether an intervention needs no more blocks: it is decided, or has had all of them."""
        if len(_shared_blocks(planned, values)) >= analysis_block_counts(self.confidence)[-1]:
            return True
        return self._verdict_on_intervention(planned, values) not in (UNDECIDED, CONTRIBUTES)

    def _verdict_on_intervention(
        self, planned: PlannedIntervention, values: Mapping[int, ValuesByBlock]
    ) -> str:
        ratio = self._analysed_ratio(planned, values)
        return (
            UNDECIDED if ratio is None else intervention_verdict(ratio, self.metric, planned.resource_ratio)
        )

    def _analysed_ratio(
        self, planned: PlannedIntervention, values: Mapping[int, ValuesByBlock]
    ) -> Ratio | None:
        """Return the ratio at the latest analysis; None before the first one."""
        blocks = _shared_blocks(planned, values)
        analyses = analysis_block_counts(self.confidence)
        count = max((each for each in analyses if each <= len(blocks)), default=0)
        if not count:
            return None
        base, changed = (
            {block: values[index][block] for block in blocks[:count]}
            for index in (BASE_TREATMENT_INDEX, planned.treatment_index)
        )
        if min(*base.values(), *changed.values()) < 0:
            return None  # A difference, such as an increase of latency, has no ratio.
        pair = estimate_paired_ratio(base, changed)
        return None if pair is None else combine_paired_ratios([pair], self.confidence)


def confidence_of_one_analysis(confidence: float) -> float:
    """Return the confidence of each analysis with which those of one intervention keep `confidence`."""
    return 1 - (1 - confidence) / _ANALYSES_PER_INTERVENTION


class AnalysisBlockCounts(NamedTuple):
    """Numbers of blocks after which the two analyses of an intervention take place."""

    first: int
    second: int


def analysis_block_counts(confidence: float) -> AnalysisBlockCounts:
    """Return the numbers of blocks after which an intervention is analysed.

    The first is the fewest with an interval. A study with a confidence of 95 % has 7 and 11.

    Args:
        confidence: Confidence of one analysis (`confidence_of_one_analysis`), between 0 and 1.
    """
    first = min_blocks_for_paired_ratio(confidence)
    return AnalysisBlockCounts(first, math.ceil(_BLOCK_COUNT_GROWTH * first))


def _interval_or_all_numbers(low: float | None, high: float | None) -> tuple[float, float]:
    """Return an interval; without one, that of all numbers."""
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _is_superfluous(planned: PlannedIntervention, verdicts: Sequence[str]) -> bool:
    """Return whether other interventions on the same resource make this one unnecessary.

    If less of a resource does not lower the result, more of it does not raise it. If a resource limits, only
    more of it is worth a test.
    """
    if planned.is_advice:
        return False
    return NO_LIMIT in verdicts or (LIMITS in verdicts and planned.is_decrease)


def _shared_blocks(planned: PlannedIntervention, values: Mapping[int, ValuesByBlock]) -> list[int]:
    return sorted(
        values.get(BASE_TREATMENT_INDEX, {}).keys() & values.get(planned.treatment_index, {}).keys()
    )


def _interventions_from_facts(facts: Mapping[str, Any]) -> Iterator[PlannedIntervention]:
    for name, value in facts.items():
        number = name.removeprefix("treatment_")
        if number == name:
            continue
        fields = mapping_or_empty(value)
        yield PlannedIntervention(
            int(number),
            str(fields["resource"]),
            fields["resource_ratio"],
            float(fields["time_share"]),
            bool(fields["is_advice"]),
        )
