"""A campaign beside published figures, in their form: mean, least and most, and both ways over one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.tables import Figure, Published, Spread, published
from vnetbench.quantity import Scale, format_interval, format_value, scale_for
from vnetbench.report.tables.columns import Column
from vnetbench.study.model import Level
from vnetbench.wording.estimate_text import metric_of
from vnetbench.wording.factor_text import names_of, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_DIRECTION, _ONE, _BOTH = "direction", "forward", "both"
_WAYS = {_ONE: "one way", _BOTH: "both ways"}

Ways = Mapping[str, Spread]
"""By direction: `forward` is one way, `both` is the sum of the two."""


@dataclass(frozen=True)
class Pair:
    """Treatments that differ in the direction alone, and what was published of the same."""

    treatment: str
    levels: Mapping[str, Level]
    """Of the factors that tell the pairs apart."""
    here: Ways
    there: Mapping[str, Ways]
    """By what sets several such figures apart (`Figure.setting`)."""


@dataclass(frozen=True)
class Beside:
    """A campaign beside the figures that its study names as `published`."""

    source: Published
    pairs: tuple[Pair, ...]


def beside(summary: CampaignSummary) -> Beside | None:
    """None where the study names nothing published, or nothing was measured yet."""
    if summary.published is None:
        return None
    source = published(summary.published)
    names = [n for n in names_of(varying_factors(summary.treatments, summary.factors)) if n != _DIRECTION]
    groups: dict[str, list[TreatmentSummary]] = {}
    for treatment in summary.treatments:
        if source.metric in treatment.metrics and treatment.factors.get(_DIRECTION) in _WAYS:
            groups.setdefault(treatment_phrase(treatment.factors, names), []).append(treatment)
    pairs = tuple(
        Pair(
            name,
            {each: alike[0].factors[each] for each in names if each in alike[0].factors},
            {str(t.factors[_DIRECTION]): _spread(t, source.metric) for t in alike},
            _published(alike[0].factors, source),
        )
        for name, alike in groups.items()
    )
    return Beside(source, pairs) if pairs else None


def way_of(direction: str) -> str:
    """A direction in words: `one way`, `both ways`."""
    return _WAYS[direction]


def both_over_one(ways: Ways) -> float | None:
    """The sum of both ways at once over one way alone, by their means; None where one is missing."""
    return ways[_BOTH].mean / ways[_ONE].mean if len(ways) == len(_WAYS) and ways[_ONE].mean else None


def scale_of_beside(found: Beside) -> Scale:
    """One unit for all figures, those measured here and those published."""
    ways = [each for pair in found.pairs for each in (pair.here, *pair.there.values())]
    spreads = [spread for each in ways for spread in each.values()]
    most = max((spread.mean if spread.most is None else spread.most for spread in spreads), default=0.0)
    return scale_for(metric_of(found.source.metric).unit, most)


def columns_beside(found: Beside) -> list[Column]:
    """Of each pair a row a direction, and one with the ratio of both ways over one."""
    scale = scale_of_beside(found)
    rows: list[tuple[str, str, str, tuple[str, ...], tuple[str, ...]]] = []
    for pair in found.pairs:
        settings = tuple(pair.there) or ("",)
        for direction, way in _WAYS.items():
            there = tuple(_text(ways.get(direction), scale) for ways in pair.there.values())
            name = pair.treatment if direction == _ONE else ""
            rows.append((name, way, _text(pair.here.get(direction), scale), settings, there or ("–",)))
        there = tuple(map(_ratio, pair.there.values()))
        rows.append(("", "both / one", _ratio(pair.here), settings, there or ("–",)))
    names, ways_, here, settings_, there_ = zip(*rows, strict=True)
    setting = Column("setting", found.source.setting, "", settings_, False)
    return [
        Column("treatment", "Treatment", "", tuple((name,) for name in names), False),
        Column("direction", "Direction", "", tuple((way,) for way in ways_), False),
        Column("here", "Here", scale.unit, tuple((text,) for text in here), True),
        Column("published", "Published", scale.unit, there_, True),
        *([setting] if any(map(any, settings_)) else []),
    ]


def _spread(treatment: TreatmentSummary, metric: str) -> Spread:
    values = treatment.values_of(metric)
    return Spread(statistics.fmean(values), min(values), max(values))


def _published(levels: Mapping[str, Level], source: Published) -> dict[str, Ways]:
    """What was published of a treatment's levels in each direction, by the setting."""
    alike = [name for name in source.alike if name != _DIRECTION]
    found = [f for f in source.figures if _agree(f, levels, alike)]
    same = [f for f in found if _agree(f, levels, source.closer)]
    there: dict[str, dict[str, Spread]] = {}
    for figure in same or found:
        there.setdefault(figure.setting, {})[str(figure.levels[_DIRECTION])] = figure.values[source.metric]
    return dict(there)


def _agree(figure: Figure, levels: Mapping[str, Level], names: Sequence[str]) -> bool:
    return all(figure.levels.get(name) == levels.get(name) for name in names)


def _text(spread: Spread | None, scale: Scale) -> str:
    if spread is None:
        return "–"
    text = format_interval(spread.mean, spread.least, spread.most, scale.unit, scale=scale)
    return f"{text.value} {text.interval}".rstrip()


def _ratio(ways: Ways) -> str:
    value = both_over_one(ways)
    return "–" if value is None else format_value(value, "1")
