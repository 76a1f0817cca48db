"""A campaign beside published figures, in their form: mean, least and most, and both ways over one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.tables import PublishedRow, PublishedTable, ValueRange, load_table
from vnetbench.quantity import Scale, format_interval, format_value, choose_scale
from vnetbench.report.tables.columns import Column
from vnetbench.study.model import Level
from vnetbench.wording.estimate_text import find_metric
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_DIRECTION, _ONE, _BOTH = "direction", "forward", "both"
_DIRECTION_LABELS = {_ONE: "one way", _BOTH: "both ways"}

DirectionRanges = Mapping[str, ValueRange]
"""By direction: `forward` is one way, `both` is the sum of the two."""


@dataclass(frozen=True)
class ComparedTreatment:
    """Treatments that differ in the direction alone, and what was published of the same."""

    treatment: str
    levels: Mapping[str, Level]
    """Of the factors that tell the pairs apart."""
    here: DirectionRanges
    there: Mapping[str, DirectionRanges]
    """By what sets several such figures apart (`Figure.setting`)."""


@dataclass(frozen=True)
class PublishedComparison:
    """A campaign beside the figures that its study names as `published`."""

    source: PublishedTable
    pairs: tuple[ComparedTreatment, ...]


def compare_with_published(summary: CampaignSummary) -> PublishedComparison | None:
    """None where the study names nothing published, or nothing was measured yet."""
    if summary.published is None:
        return None
    source = load_table(summary.published)
    names = [n for n in factor_names(varying_factors(summary.treatments, summary.factors)) if n != _DIRECTION]
    groups: dict[str, list[TreatmentSummary]] = {}
    for treatment in summary.treatments:
        if source.metric in treatment.metrics and treatment.factors.get(_DIRECTION) in _DIRECTION_LABELS:
            groups.setdefault(treatment_phrase(treatment.factors, names), []).append(treatment)
    pairs = tuple(
        ComparedTreatment(
            name,
            {each: alike[0].factors[each] for each in names if each in alike[0].factors},
            {str(t.factors[_DIRECTION]): _measured_range(t, source.metric) for t in alike},
            _published_ranges(alike[0].factors, source),
        )
        for name, alike in groups.items()
    )
    return PublishedComparison(source, pairs) if pairs else None


def direction_label(direction: str) -> str:
    """A direction in words: `one way`, `both ways`."""
    return _DIRECTION_LABELS[direction]


def bidirectional_ratio(ways: DirectionRanges) -> float | None:
    """The sum of both ways at once over one way alone, by their means; None where one is missing."""
    return ways[_BOTH].mean / ways[_ONE].mean if len(ways) == len(_DIRECTION_LABELS) and ways[_ONE].mean else None


def comparison_scale(found: PublishedComparison) -> Scale:
    """One unit for all figures, those measured here and those published."""
    ways = [each for pair in found.pairs for each in (pair.here, *pair.there.values())]
    spreads = [spread for each in ways for spread in each.values()]
    most = max((spread.mean if spread.maximum is None else spread.maximum for spread in spreads), default=0.0)
    return choose_scale(find_metric(found.source.metric).unit, most)


def comparison_columns(found: PublishedComparison) -> list[Column]:
    """Of each pair a row a direction, and one with the ratio of both ways over one."""
    scale = comparison_scale(found)
    rows: list[tuple[str, str, str, tuple[str, ...], tuple[str, ...]]] = []
    for pair in found.pairs:
        settings = tuple(pair.there) or ("",)
        for direction, way in _DIRECTION_LABELS.items():
            there = tuple(_range_text(ways.get(direction), scale) for ways in pair.there.values())
            name = pair.treatment if direction == _ONE else ""
            rows.append((name, way, _range_text(pair.here.get(direction), scale), settings, there or ("–",)))
        there = tuple(map(_ratio_text, pair.there.values()))
        rows.append(("", "both / one", _ratio_text(pair.here), settings, there or ("–",)))
    names, ways_, here, settings_, there_ = zip(*rows, strict=True)
    setting = Column("setting", found.source.setting, "", settings_, False)
    return [
        Column("treatment", "Treatment", "", tuple((name,) for name in names), False),
        Column("direction", "Direction", "", tuple((way,) for way in ways_), False),
        Column("here", "Here", scale.unit, tuple((text,) for text in here), True),
        Column("published", "Published", scale.unit, there_, True),
        *([setting] if any(map(any, settings_)) else []),
    ]


def _measured_range(treatment: TreatmentSummary, metric: str) -> ValueRange:
    values = treatment.trial_values(metric)
    return ValueRange(statistics.fmean(values), min(values), max(values))


def _published_ranges(levels: Mapping[str, Level], source: PublishedTable) -> dict[str, DirectionRanges]:
    """What was published of a treatment's levels in each direction, by the setting."""
    alike = [name for name in source.required_factors if name != _DIRECTION]
    found = [f for f in source.rows if _has_same_levels(f, levels, alike)]
    same = [f for f in found if _has_same_levels(f, levels, source.preferred_factors)]
    there: dict[str, dict[str, ValueRange]] = {}
    for figure in same or found:
        there.setdefault(figure.setting, {})[str(figure.levels[_DIRECTION])] = figure.values[source.metric]
    return dict(there)


def _has_same_levels(figure: PublishedRow, levels: Mapping[str, Level], names: Sequence[str]) -> bool:
    return all(figure.levels.get(name) == levels.get(name) for name in names)


def _range_text(spread: ValueRange | None, scale: Scale) -> str:
    if spread is None:
        return "–"
    text = format_interval(spread.mean, spread.minimum, spread.maximum, scale.unit, scale=scale)
    return f"{text.value} {text.interval}".rstrip()


def _ratio_text(ways: DirectionRanges) -> str:
    value = bidirectional_ratio(ways)
    return "–" if value is None else format_value(value, "1")
