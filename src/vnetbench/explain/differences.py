"""Why two treatments differ that differ in one factor: what of the evidence changed along, and what stayed.

By the laws that a limit leaves in its evidence: where packets are what costs, their rate stays while their
size changes; where a window limits, what is under way stays while round trips change (`models/`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.comparisons.words import others_of
from vnetbench.explain.limits import NO_LIMIT, UNEXPLAINED, Limit
from vnetbench.explain.model import Finding
from vnetbench.explain.models.packet_rate import fit_cost
from vnetbench.explain.phrases import figure_text, label_of
from vnetbench.study.model import Level
from vnetbench.wording.factor_text import capitalised, level_phrase

LEAST_RATIO = 1.15
"""Smaller differences are no finding of their own; what they are worth say the effects."""
_STAYED = 1.15
"""A figure that changes by less has stayed."""
_ALONG = 1.3
"""A figure has changed along with the metric where their ratios differ by less."""
_TOLD = 2
"""So many figures that changed are named where no law holds."""


@dataclass(frozen=True)
class Law:
    """What a limit leaves in the evidence of two treatments."""

    stayed: str
    changed: str
    """This one went along with the metric."""
    power: int
    """1: as the metric did; -1: the other way."""
    families: tuple[str, ...]
    """Of the causes that the slower treatment is suspected of first, where the law tells only with such."""
    so: str


LAWS = (
    Law(
        "packets_per_s",
        "segment_bytes_received",
        1,
        (),
        "so the packet rate was the limit, and larger packets carry more",
    ),
    Law(
        "calls_per_s",
        "bytes_per_call",
        1,
        (),
        "so calls to the kernel were the limit, and larger ones carry more",
    ),
    Law(
        "in_flight_bytes",
        "rtt_us",
        -1,
        ("window",),
        "so a window was the limit, and round trips decide what it carries",
    ),
    Law(
        "rtt_us",
        "in_flight_bytes",
        1,
        ("window",),
        "so a window was the limit, and a larger one carries more",
    ),
    Law(
        "stream_goodput_bps",
        "streams",
        1,
        (),
        "so each stream has a limit of its own, and more of them carry more",
    ),
)

_OF_LAWS = frozenset(name for law in LAWS for name in (law.stayed, law.changed))


@dataclass(frozen=True)
class Difference:
    """Two treatments that differ in one factor, the slower one first, and what is known of them."""

    factor: str
    slower: Limit
    faster: Limit
    ratio: float
    """Of the deciding metric, the greater over the smaller."""
    law: Law | None

    @property
    def moved(self) -> tuple[tuple[str, float], ...]:
        """Figures whose ranges over the trials are apart, with their ratios, the most changed first."""
        slower, faster = self.slower.treatment, self.faster.treatment
        ratios = _ratios(_medians(slower), _medians(faster), EVIDENCE_METRICS)
        apart = [each for each in ratios.items() if _apart(slower, faster, each[0])]
        return tuple(sorted(apart, key=lambda each: -abs(math.log(each[1]))))


def differences(summary: CampaignSummary, limits: Sequence[Limit]) -> Iterator[Finding]:
    """For each factor the pair that differs most, if it surely does; the greatest difference first."""
    greatest: dict[str, Difference] = {}
    for difference in _all(summary, limits):
        known = greatest.get(difference.factor)
        if known is None or (difference.law is not None, difference.ratio) > (
            known.law is not None,
            known.ratio,
        ):
            greatest[difference.factor] = difference
    for difference in sorted(greatest.values(), key=lambda each: -each.ratio):
        yield _finding(summary, difference)


def _all(summary: CampaignSummary, limits: Sequence[Limit]) -> Iterator[Difference]:
    metric = summary.main_metric
    medians = {limit.treatment.index: _medians(limit.treatment) for limit in limits}
    for factor, one, other in _pairs(summary, limits):
        ratio = _sure_ratio(one.treatment, other.treatment, metric)
        if ratio >= LEAST_RATIO:
            slower, faster = _ordered(one, other, metric)
            yield Difference(factor, slower, faster, ratio, _law(factor, slower, faster, ratio, medians))


def _pairs(summary: CampaignSummary, limits: Sequence[Limit]) -> Iterator[tuple[str, Limit, Limit]]:
    """A factor's name, and two treatments that differ in it alone."""
    for factor in summary.factors:
        for alike in _alike_but_for(factor.name, limits):
            for one, other in combinations(alike, 2):
                yield factor.name, one, other


def _alike_but_for(factor: str, limits: Sequence[Limit]) -> Iterable[Sequence[Limit]]:
    """Groups of treatments with the same levels of all factors but one."""
    groups: dict[frozenset[tuple[str, Level]], list[Limit]] = {}
    for limit in limits:
        if factor in limit.treatment.factors:
            groups.setdefault(limit.treatment.levels_without(factor), []).append(limit)
    return groups.values()


def _ordered(one: Limit, other: Limit, metric: str) -> tuple[Limit, Limit]:
    """The one with the smaller metric first; of what is better low, with the larger."""
    by_value = sorted((one, other), key=lambda each: _value(each.treatment, metric))
    if is_lower_better(metric):
        by_value.reverse()
    return by_value[0], by_value[1]


def _value(treatment: TreatmentSummary, metric: str) -> float:
    return treatment.metrics[metric].value


def _sure_ratio(one: TreatmentSummary, other: TreatmentSummary, metric: str) -> float:
    """How many times as much the greater one is; 1 where their trials overlap."""
    values = [each.trial_values(metric) for each in (one, other)]
    if not all(values) or min(map(min, values)) <= 0:
        return 1.0
    low, high = sorted(values, key=median)
    return median(high) / median(low) if max(low) < min(high) else 1.0


def _law(
    factor: str, slower: Limit, faster: Limit, ratio: float, medians: Mapping[int, Mapping[str, float]]
) -> Law | None:
    """The first that holds; `medians` are those of each treatment's figures."""
    ratios = _ratios(medians[slower.treatment.index], medians[faster.treatment.index], _OF_LAWS)
    before, after = (each.treatment.factors[factor] for each in (slower, faster))
    if isinstance(before, int | float) and isinstance(after, int | float) and before > 0 < after:
        ratios[factor] = after / before
    family = slower.candidates[0].cause.family if slower.candidates else ""
    return next((law for law in LAWS if _holds(law, ratios, ratio, family)), None)


def _ratios(
    before: Mapping[str, float], after: Mapping[str, float], names: Collection[str]
) -> dict[str, float]:
    """Each of these figures that both have, after over before, of medians above zero."""
    return {
        name: after[name] / before[name]
        for name in names
        if before.get(name, 0.0) > 0 and after.get(name, 0.0) > 0
    }


def _medians(treatment: TreatmentSummary) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for point in treatment.points:
        for name, value in point.evidence.items():
            values.setdefault(name, []).append(value)
    return {name: median(each) for name, each in values.items()}


def _apart(one: TreatmentSummary, other: TreatmentSummary, name: str) -> bool:
    low, high = sorted((one.evidence_values(name), other.evidence_values(name)), key=median)
    return max(low) < min(high)


def _holds(law: Law, ratios: Mapping[str, float], ratio: float, family: str) -> bool:
    if (law.families and family not in law.families) or not {law.stayed, law.changed} <= ratios.keys():
        return False
    along = ratios[law.changed] ** law.power / ratio
    return 1 / _STAYED < ratios[law.stayed] < _STAYED < ratio and 1 / _ALONG < along < _ALONG


def _finding(summary: CampaignSummary, found: Difference) -> Finding:
    slower, faster = found.slower.treatment, found.faster.treatment
    fast, slow = (level_phrase(found.factor, each.factors[found.factor]) for each in (faster, slower))
    beside = others_of(summary, faster, found.factor)
    where = f" ({beside})" if beside else ""
    metric = summary.main_metric
    after, before = (figure_text(metric, each.metrics[metric].value) for each in (faster, slower))
    return Finding(
        kind="difference",
        text=f"{fast} instead of {slow}{where}: {label_of(metric)} {after} instead of {before}. "
        f"{capitalised(_because(found))}.",
        treatments=(slower.index, faster.index),
        details={
            "factor": found.factor,
            "ratio": found.ratio,
            "limits": [found.slower.cause_name, found.faster.cause_name],
            "law": None if found.law is None else found.law.stayed,
            "moved": dict(found.moved),
            **_packet_cost(found),
        },
    )


def _packet_cost(found: Difference) -> dict[str, object]:
    """Where packets limit: what the host pays for one beside its bytes, by `models/packet_rate.py`."""
    if found.law is None or found.law.stayed != "packets_per_s":
        return {}
    medians = [_medians(each.treatment) for each in (found.slower, found.faster)]
    if not all({"cycles_per_byte", found.law.changed} <= each.keys() for each in medians):
        return {}
    sizes = [each[found.law.changed] for each in medians]
    cost = fit_cost(
        sizes, [each["cycles_per_byte"] * size for each, size in zip(medians, sizes, strict=True)]
    )
    if cost is None:
        return {}
    return {"cycles_per_packet": cost.packet, "cycles_per_further_byte": cost.byte}


def _because(found: Difference) -> str:
    if found.law is not None:
        figure = found.law.stayed
        before, after = (
            figure_text(figure, _medians(each.treatment)[figure]) for each in (found.slower, found.faster)
        )
        return f"{label_of(figure)} stayed ({before} and {after}), {found.law.so}"
    parts = []
    if found.slower.cause_name != found.faster.cause_name:
        parts.append(f"the limit went from {_limit_text(found.slower)} to {_limit_text(found.faster)}")
    if found.moved:
        parts.append(
            "what changed most is "
            + " and ".join(_moved_text(found, name) for name, _ in found.moved[:_TOLD])
        )
    return "; ".join(parts) or "nothing that was counted tells why"


def _moved_text(found: Difference, name: str) -> str:
    before, after = (
        figure_text(name, _medians(each.treatment)[name]) for each in (found.slower, found.faster)
    )
    return f"{label_of(name)} ({before} and {after})"


def _limit_text(limit: Limit) -> str:
    told = {NO_LIMIT: "none", UNEXPLAINED: "one that is not explained"}
    return told.get(limit.cause_name) or f'"{limit.candidates[0].cause.description}"'
