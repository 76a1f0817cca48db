"""Charts that compare several results files: one metric, for treatments that share factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import Scale, format_exact_share
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import ChartRow, round_for_chart
from vnetbench.report.charts.factor_layout import axis_position_by_level, choose_x_factor
from vnetbench.report.charts.file_comparison_specs import ComparisonLayout, file_comparison_spec
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.report.text.notes import table_values_legend
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.estimate_text import (
    choose_metric_scale,
    format_estimate,
    format_modes,
    measured_metrics,
    metric_heading,
)
from vnetbench.wording.factor_text import factor_noun, level_text, treatment_phrase

_MAX_PANELS, _MAX_ROWS = 9, 24
"""Maximum number of panels with a numeric factor on the x axis, and of rows without one."""
_MAX_PANELS_LISTED_IN_NOTE = 4
_FILE_OFFSET_SHARE_OF_X_RANGE = 0.012
"""Offset between files as a share of the x axis, so that their intervals do not overlap."""

PanelKey = tuple[Level | None, ...]
"""The levels of the panel factors; they decide the panel, or the row of a dot plot."""


@dataclass(frozen=True)
class FileComparison:
    """The part of a page that compares several results files."""

    files: tuple[tuple[str, CampaignSummary], ...]
    """Each file with its name on the charts."""
    main_charts: list[Chart]
    """A chart of the deciding metric for each workload that several files share."""
    other_metric_charts: list[Chart]
    notes: tuple[str, ...]
    """What the charts omit, and why."""


@dataclass(frozen=True)
class _TreatmentOfFile:
    """A treatment with its file and its known levels."""

    file: str
    summary: CampaignSummary
    treatment: TreatmentSummary
    levels: Mapping[str, Level]


@dataclass(frozen=True)
class _ComparedMetric:
    """The treatments of files with the same workload that have a metric, with the roles of the factors."""

    metric: str
    files: tuple[str, ...]
    treatments: tuple[_TreatmentOfFile, ...]
    x_factor: FactorLevels | None
    panel_factors: tuple[FactorLevels, ...]
    """Each combination of their levels is a panel, or a row of a dot plot."""
    disjoint_factors: tuple[str, ...]
    """Factors that all files specify, but of which one file has no level in common with the others."""
    unplotted_factors: tuple[str, ...]
    """Factors that vary within a file but do not affect the position on the chart."""

    @property
    def max_panels_or_rows(self) -> int:
        """Maximum number of panels or rows on the chart."""
        return _MAX_ROWS if self.x_factor is None else _MAX_PANELS

    def panel_key(self, treatment: _TreatmentOfFile) -> PanelKey:
        """Return the key of the treatment's panel or row."""
        return tuple(treatment.levels.get(factor.name) for factor in self.panel_factors)


def compare_files(summaries: Sequence[CampaignSummary]) -> FileComparison | None:
    """Return the comparison of two or more files; None for a single file."""
    if len(summaries) < 2:
        return None
    files = tuple(zip(_display_names_of_files(summaries), summaries, strict=True))
    by_workload: dict[str, list[tuple[str, CampaignSummary]]] = {}
    for name, summary in files:
        by_workload.setdefault(summary.workload, []).append((name, summary))
    main_charts: list[Chart] = []
    other_metric_charts: list[Chart] = []
    notes = list(_differing_workloads_note(by_workload))
    shared = {workload: group for workload, group in by_workload.items() if len(group) > 1}
    for workload, group in shared.items():
        charts, group_notes = _compare_same_workload(group)
        if len(shared) > 1:
            charts = [_distinguish_by_workload(chart, workload) for chart in charts]
        main_charts += charts[:1]
        other_metric_charts += charts[1:]
        notes += group_notes
    return FileComparison(files, main_charts, other_metric_charts, tuple(notes))


def charts_of_published_table(summary: CampaignSummary) -> list[Chart]:
    """Return a chart for each metric of a published table, its own metric first.

    Raises:
        ValueError: The summary is not a published table.
    """
    if summary.represented_table is None:
        raise ValueError(f"{summary.path} is not a published table")
    files, factors = [(summary.path, summary)], summary.represented_table.required_factors
    other_metrics = [n for n in measured_metrics(summary.treatments) if n != summary.deciding_metric]
    groups = [
        _collect_treatments_with_metric(files, name, factors)
        for name in (summary.deciding_metric, *other_metrics)
    ]
    return [_comparison_chart(group, _panel_keys(group)) for group in groups]


def _display_names_of_files(summaries: Sequence[CampaignSummary]) -> list[str]:
    """Return file names; paths if names are equal, and numbered paths if a file appears twice."""
    file_names = [each.path if each.represented_table else Path(each.path).name for each in summaries]
    names = [
        name if file_names.count(name) == 1 else each.path
        for name, each in zip(file_names, summaries, strict=True)
    ]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})"
        for index, name in enumerate(names)
    ]


def _differing_workloads_note(
    by_workload: Mapping[str, Sequence[tuple[str, CampaignSummary]]],
) -> Iterator[str]:
    if len(by_workload) > 1:
        workloads = "; ".join(
            f"{workload} ({', '.join(name for name, _ in files)})" for workload, files in by_workload.items()
        )
        yield f"A chart compares files with the same workload only. The workloads are: {workloads}."


def _distinguish_by_workload(chart: Chart, workload: str) -> Chart:
    """Distinguish the chart from the chart of the same metric of another workload."""
    return replace(chart, name=f"{workload}-{chart.name}", title=f"{workload}: {chart.title}")


def _compare_same_workload(
    files: Sequence[tuple[str, CampaignSummary]],
) -> tuple[list[Chart], list[str]]:
    """Return the charts of files with one workload, deciding metric first, and notes on omissions."""
    metrics = _metrics_of_several_files([summary for _, summary in files])
    groups = [_collect_treatments_with_metric(files, metric) for metric in metrics]
    drawn = [(group, keys) for group in groups if (keys := _panel_keys(group, min_files=2))]
    if not drawn:
        names = ", ".join(name for name, _ in files)
        reason = "share levels of the factors that all of them specify" if metrics else "share a metric"
        return [], [f"There is no comparison chart: no two files of {names} {reason}."]
    return [_comparison_chart(group, keys) for group, keys in drawn], list(_omission_notes(*drawn[0]))


def _metrics_of_several_files(summaries: Sequence[CampaignSummary]) -> list[str]:
    """Return the metrics of at least two files, the first measured campaign's deciding metric first."""
    measured = (each.deciding_metric for each in summaries if each.represented_table is None)
    deciding_metric = next(measured, summaries[0].deciding_metric)
    metrics_by_file = [set(measured_metrics(summary.treatments)) for summary in summaries]
    all_metrics = measured_metrics([t for summary in summaries for t in summary.treatments])
    shared = [name for name in all_metrics if sum(name in metrics for metrics in metrics_by_file) > 1]
    return sorted(shared, key=lambda name: name != deciding_metric)


def _collect_treatments_with_metric(
    files: Sequence[tuple[str, CampaignSummary]], metric: str, factors: Sequence[str] = ()
) -> _ComparedMetric:
    """Return the treatments that have the metric, with the role of each factor.

    The factors that all files specify decide the position of a treatment; `factors` restricts them.
    """
    treatments = tuple(
        _TreatmentOfFile(name, summary, treatment, _specified_levels(summary, treatment))
        for name, summary in files
        for treatment in summary.treatments
        if metric in treatment.metrics
    )
    file_names = tuple(dict.fromkeys(each.file for each in treatments))
    levels: dict[str, dict[str, dict[Level, None]]] = {}
    for each in treatments:
        for factor, level in each.levels.items():
            levels.setdefault(factor, {}).setdefault(each.file, {})[level] = None
    shared = [
        name
        for name, by_file in levels.items()
        if len(by_file) == len(file_names) and (not factors or name in factors)
    ]
    disjoint = tuple(name for name in shared if len(file_names) > 1 and _has_disjoint_file(levels[name]))
    positioning = [name for name in shared if name not in disjoint]
    candidates = [
        FactorLevels(
            name, _sort_distinct_levels(level for by_file in levels[name].values() for level in by_file)
        )
        for name in positioning
    ]
    varying = [factor for factor in candidates if len(factor.levels) > 1]
    x_factor = choose_x_factor(varying)
    return _ComparedMetric(
        metric=metric,
        files=file_names,
        treatments=treatments,
        x_factor=x_factor,
        panel_factors=tuple(factor for factor in varying if factor is not x_factor),
        disjoint_factors=disjoint,
        unplotted_factors=tuple(
            name
            for name, by_file in levels.items()
            if name not in positioning and any(len(file_levels) > 1 for file_levels in by_file.values())
        ),
    )


def _specified_levels(summary: CampaignSummary, treatment: TreatmentSummary) -> dict[str, Level]:
    levels = all_levels(summary, treatment)
    return {name: level for name, level in levels.items() if level != UNSPECIFIED}


def _has_disjoint_file(levels_by_file: Mapping[str, Mapping[Level, None]]) -> bool:
    """Return whether one file has no level in common with any other file."""
    file_counts = Counter(level for levels in levels_by_file.values() for level in levels)
    return any(all(file_counts[level] == 1 for level in levels) for levels in levels_by_file.values())


def _sort_distinct_levels(levels: Iterator[Level]) -> tuple[Level, ...]:
    """Return each level once: numbers ascending, then words."""
    distinct = dict.fromkeys(levels)
    numbers = sorted(level for level in distinct if not isinstance(level, str))
    return (*numbers, *(level for level in distinct if isinstance(level, str)))


def _panel_keys(group: _ComparedMetric, min_files: int = 1) -> list[PanelKey]:
    """Return the panels or rows that at least `min_files` files share, in the order of the levels."""
    files_by_key: dict[PanelKey, set[str]] = {}
    for each in group.treatments:
        files_by_key.setdefault(group.panel_key(each), set()).add(each.file)
    keys = [key for key, files in files_by_key.items() if len(files) >= min_files]
    level_order = [(None, *factor.levels) for factor in group.panel_factors]
    keys.sort(key=lambda key: [known.index(level) for known, level in zip(level_order, key, strict=True)])
    return keys


def _comparison_chart(group: _ComparedMetric, panel_keys: Sequence[PanelKey]) -> Chart:
    drawn_keys = panel_keys[: group.max_panels_or_rows]
    drawn = [each for each in group.treatments if group.panel_key(each) in drawn_keys]
    scale = choose_metric_scale([each.treatment for each in drawn], group.metric)
    rows = [row for each in drawn for row in _treatment_rows(group, each, scale)]
    summaries = {each.file: each.summary for each in drawn}
    files = tuple(name for name in group.files if name in summaries)
    layout = ComparisonLayout(
        x_factor=group.x_factor,
        panels=tuple(_panel_name(group, key) for key in drawn_keys),
        files=files,
        is_published=tuple(summaries[name].represented_table is not None for name in files),
    )
    title = metric_heading(group.metric, scale)
    caption = " ".join(_caption_sentences([summaries[name] for name in files], rows))
    return Chart(group.metric, title, caption, file_comparison_spec(layout, title), rows)


def _caption_sentences(summaries: Sequence[CampaignSummary], rows: Sequence[ChartRow]) -> Iterator[str]:
    measured = [each for each in summaries if each.represented_table is None]
    shares = sorted({format_exact_share(each.required_precision.confidence) for each in measured})
    if shares:
        yield f"A circle is the median of the trials with its {' or '.join(shares)} confidence interval."
    if any(row["kind"] == "mode" for row in rows):
        yield "Two diamonds show two modes, with their shares of the trials."
    for summary in summaries:
        if summary.represented_table is not None:
            title = summary.represented_table.title
            yield f"A triangle is a published value from the table “{title}”. {table_values_legend(summary)}"
    yield from dict.fromkeys(
        f"{Path(each.path).name}: {warning}" for each in summaries for warning in emulation_warnings(each)
    )


def _treatment_rows(group: _ComparedMetric, item: _TreatmentOfFile, scale: Scale) -> Iterator[ChartRow]:
    estimate = item.treatment.metrics[group.metric]
    x_name = [group.x_factor.name] if group.x_factor else []
    names = [*x_name, *(factor.name for factor in group.panel_factors), *group.unplotted_factors]
    base: ChartRow = {
        "file": item.file,
        "panel": _panel_name(group, group.panel_key(item)),
        "unplotted_levels": treatment_phrase(item.levels, group.unplotted_factors),
        "treatment": treatment_phrase(item.levels, names),
        "x": _x_position(group, item),
        "kind": "published" if estimate.is_published else "measured",
        "estimate_text": f"{format_estimate(estimate, group.metric, scale)} {scale.unit}".rstrip(),
    }
    if estimate.modes:
        for mode, text in zip(estimate.modes, format_modes(estimate, group.metric, scale), strict=True):
            yield {
                **base,
                "kind": "mode",
                "value": round_for_chart(mode.value / scale.divisor),
                "share": f"{mode.share:.0%}",
                "estimate_text": text,
            }
        return
    yield {
        **base,
        "value": round_for_chart(estimate.value / scale.divisor),
        "low": None if estimate.low is None else round_for_chart(estimate.low / scale.divisor),
        "high": None if estimate.high is None else round_for_chart(estimate.high / scale.divisor),
    }


def _x_position(group: _ComparedMetric, item: _TreatmentOfFile) -> float | None:
    """Return the position on the x axis, with a small offset for each file."""
    if group.x_factor is None:
        return None
    level_to_position = axis_position_by_level(group.x_factor)
    axis_length = max(level_to_position.values()) - min(level_to_position.values())
    offset = group.files.index(item.file) - (len(group.files) - 1) / 2
    position = level_to_position[item.levels[group.x_factor.name]]
    return position + offset * _FILE_OFFSET_SHARE_OF_X_RANGE * axis_length


def _panel_name(group: _ComparedMetric, key: PanelKey) -> str:
    pairs = zip(group.panel_factors, key, strict=True)
    levels = {factor.name: level for factor, level in pairs if level is not None}
    return treatment_phrase(levels, [factor.name for factor in group.panel_factors]) if levels else ""


def _omission_notes(group: _ComparedMetric, panel_keys: Sequence[PanelKey]) -> Iterator[str]:
    for factor in group.disjoint_factors:
        files_by_level: dict[str, dict[str, None]] = {}
        for each in group.treatments:
            if factor in each.levels:
                files_by_level.setdefault(level_text(factor, each.levels[factor]), {})[each.file] = None
        levels = "; ".join(f"{level} ({', '.join(files)})" for level, files in files_by_level.items())
        yield f"The files differ in {factor_noun(factor)}, which the chart does not show: {levels}."
    if len(panel_keys) > group.max_panels_or_rows:
        shown, shared = group.max_panels_or_rows, len(panel_keys)
        yield f"The chart shows the first {shown} of {shared} shared combinations."
    unshared = [_panel_name(group, key) for key in _panel_keys(group) if key not in panel_keys]
    if unshared:
        more_count = len(unshared) - _MAX_PANELS_LISTED_IN_NOTE
        more = f"; and {more_count} more" if more_count > 0 else ""
        listed = "; ".join(unshared[:_MAX_PANELS_LISTED_IN_NOTE])
        yield f"The chart does not show levels that only one file has: {listed}{more}."
    if group.unplotted_factors:
        names = ", ".join(map(factor_noun, group.unplotted_factors))
        yield f"Marks of one file at the same position differ in {names}. Point at a mark to see its levels."
