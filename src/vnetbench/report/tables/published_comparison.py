"""A campaign compared with a published table: mean, minimum, maximum, and the bidirectional ratio."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.published.tables import PublishedRow, PublishedTable, ValueWithRange, load_table
from vnetbench.quantity import Scale, choose_scale, format_interval, format_value
from vnetbench.report.tables.columns import Column
from vnetbench.study.factors.directions import BOTH, FORWARD
from vnetbench.study.model import Level
from vnetbench.wording.estimate_text import find_metric
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import varying_factors

_DIRECTION = "direction"
_DIRECTION_LABELS = {FORWARD: "unidirectional", BOTH: "bidirectional"}

ValuesByDirection = Mapping[str, ValueWithRange]
"""Values by direction: `forward` is unidirectional, `both` is the sum of the two directions."""


@dataclass(frozen=True)
class ComparedTreatment:
    """Treatments that differ in their direction only, with the published values of the same levels."""

    treatment_name: str
    varying_levels_without_direction: Mapping[str, Level]
    """The varying factors except the direction."""
    measured_by_direction: ValuesByDirection
    published_by_non_factor_cells: Mapping[str, ValuesByDirection]
    """Published values by setting (`PublishedRow.non_factor_cells`)."""


@dataclass(frozen=True)
class PublishedComparison:
    """A campaign compared with the table that its study names as `published`."""

    source: PublishedTable
    treatments: tuple[ComparedTreatment, ...]


def compare_with_published(summary: CampaignSummary) -> PublishedComparison | None:
    """Return the comparison; None if the study names no published table or nothing was measured yet."""
    if summary.published_table_named_by_study is None:
        return None
    source = load_table(summary.published_table_named_by_study)
    varying = factor_names(varying_factors(summary.treatments, summary.factors))
    names = [name for name in varying if name != _DIRECTION]
    groups: dict[str, list[TreatmentSummary]] = {}
    for treatment in summary.treatments:
        if source.metric in treatment.metrics and treatment.factors.get(_DIRECTION) in _DIRECTION_LABELS:
            groups.setdefault(treatment_phrase(treatment.factors, names), []).append(treatment)
    compared = tuple(
        ComparedTreatment(
            name,
            {factor: group[0].factors[factor] for factor in names if factor in group[0].factors},
            {str(each.factors[_DIRECTION]): _trial_mean_with_range(each, source.metric) for each in group},
            _published_values_by_non_factor_cells(group[0].factors, source),
        )
        for name, group in groups.items()
    )
    return PublishedComparison(source, compared) if compared else None


def direction_label(direction: str) -> str:
    """Return `unidirectional` or `bidirectional`."""
    return _DIRECTION_LABELS[direction]


def bidirectional_ratio(values_by_direction: ValuesByDirection) -> float | None:
    """Return the bidirectional mean over the unidirectional mean; None if one of them is missing."""
    if len(values_by_direction) < len(_DIRECTION_LABELS) or not values_by_direction[FORWARD].value:
        return None
    return values_by_direction[BOTH].value / values_by_direction[FORWARD].value


def measured_and_published_scale(comparison: PublishedComparison) -> Scale:
    """Return one unit for all measured and published values."""
    by_direction = [
        ranges
        for each in comparison.treatments
        for ranges in (each.measured_by_direction, *each.published_by_non_factor_cells.values())
    ]
    values = [each for ranges in by_direction for each in ranges.values()]
    largest = max((each.value if each.maximum is None else each.maximum for each in values), default=0.0)
    return choose_scale(find_metric(comparison.source.metric).unit, largest)


def measured_and_published_columns(comparison: PublishedComparison) -> list[Column]:
    """Return the columns of a table with a row per direction and a row for the bidirectional ratio."""
    scale = measured_and_published_scale(comparison)
    names: list[str] = []
    directions: list[str] = []
    measured: list[str] = []
    published: list[tuple[str, ...]] = []
    settings: list[tuple[str, ...]] = []
    for each in comparison.treatments:
        for direction, label in _DIRECTION_LABELS.items():
            names.append(each.treatment_name if direction == FORWARD else "")
            directions.append(label)
            measured.append(_value_with_range_text(each.measured_by_direction.get(direction), scale))
            texts = (
                _value_with_range_text(ranges.get(direction), scale)
                for ranges in each.published_by_non_factor_cells.values()
            )
            published.append(tuple(texts) or ("–",))
        names.append("")
        directions.append("ratio")
        measured.append(_bidirectional_ratio_text(each.measured_by_direction))
        published.append(
            tuple(map(_bidirectional_ratio_text, each.published_by_non_factor_cells.values())) or ("–",)
        )
        settings += [tuple(each.published_by_non_factor_cells) or ("",)] * (len(_DIRECTION_LABELS) + 1)
    columns = [
        Column("treatment", "Treatment", "", tuple((name,) for name in names), False),
        Column("direction", "Direction", "", tuple((label,) for label in directions), False),
        Column("measured", "Measured", scale.unit, tuple((text,) for text in measured), True),
        Column("published", "Published", scale.unit, tuple(published), True),
    ]
    if any(map(any, settings)):
        columns.append(
            Column("setting", comparison.source.non_factor_column_titles, "", tuple(settings), False)
        )
    return columns


def _trial_mean_with_range(treatment: TreatmentSummary, metric: str) -> ValueWithRange:
    values = treatment.values_of_trials_with_metric(metric)
    return ValueWithRange(statistics.fmean(values), min(values), max(values))


def _published_values_by_non_factor_cells(
    levels: Mapping[str, Level], source: PublishedTable
) -> dict[str, ValuesByDirection]:
    """Return the published values for these levels by setting and direction."""
    required = [name for name in source.required_factors if name != _DIRECTION]
    matching = [row for row in source.rows if _has_same_levels(row, levels, required)]
    preferred = [row for row in matching if _has_same_levels(row, levels, source.preferred_factors)]
    by_setting: dict[str, dict[str, ValueWithRange]] = {}
    for row in preferred or matching:
        by_setting.setdefault(row.non_factor_cells, {})[str(row.levels[_DIRECTION])] = row.values[
            source.metric
        ]
    return dict(by_setting)


def _has_same_levels(row: PublishedRow, levels: Mapping[str, Level], names: Sequence[str]) -> bool:
    return all(row.levels.get(name) == levels.get(name) for name in names)


def _value_with_range_text(value_range: ValueWithRange | None, scale: Scale) -> str:
    if value_range is None:
        return "–"
    low, high = value_range.minimum, value_range.maximum
    text = format_interval(value_range.value, low, high, scale.unit, scale=scale)
    return f"{text.value} {text.interval}".rstrip()


def _bidirectional_ratio_text(values_by_direction: ValuesByDirection) -> str:
    value = bidirectional_ratio(values_by_direction)
    return "–" if value is None else format_value(value, "1")
