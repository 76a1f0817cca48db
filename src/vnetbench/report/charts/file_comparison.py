"""Several files on one chart: the same metric of each, where their treatments share factors."""

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
from vnetbench.report.charts.factor_layout import choose_x_factor, level_positions
from vnetbench.report.charts.file_comparison_specs import ComparisonLayout, file_comparison_spec
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.report.text.notes import legend
from vnetbench.study.factors.imported_factors import UNSPECIFIED
from vnetbench.study.model import FactorLevels, Level
from vnetbench.wording.estimate_text import format_estimate, metric_heading, measured_metrics, format_modes, metric_scale
from vnetbench.wording.factor_text import factor_noun, level_text, treatment_phrase

_MAX_PANELS, _MAX_ROWS = 9, 24
"""So many are drawn: panels where a numeric factor is on x, rows where none is."""
_FILE_OFFSET_SHARE = 0.012
"""Files are set apart by this share of the x axis, so that one's intervals don't hide another's."""


@dataclass(frozen=True)
class FileComparison:
    """What stands before the campaigns of a page that has several."""

    files: tuple[tuple[str, CampaignSummary], ...]
    """Each with the name that it has on the charts."""
    main: list[Chart]
    """A chart of the metric that decides, for each workload that several files have."""
    others: list[Chart]
    said: tuple[str, ...]
    """What the charts leave out, and why."""


@dataclass(frozen=True)
class _FileTreatment:
    """A treatment with what tells it from the others of its file."""

    file: str
    summary: CampaignSummary
    treatment: TreatmentSummary
    levels: Mapping[str, Level]


@dataclass(frozen=True)
class _MetricGroup:
    """Treatments of files with the same workload that have a metric, and what they share."""

    metric: str
    files: tuple[str, ...]
    placed: tuple[_FileTreatment, ...]
    x: FactorLevels | None
    others: tuple[FactorLevels, ...]
    """Factors with a panel (or row) for each combination of their levels."""
    apart: tuple[str, ...]
    """Factors that all tell, of which one file has no level in common: it would stand beside none."""
    rest: tuple[str, ...]
    """Factors that vary within a file and have no part in where it stands."""

    @property
    def most_places(self) -> int:
        """So many panels (or rows) are drawn."""
        return _MAX_ROWS if self.x is None else _MAX_PANELS

    def place(self, placed: _FileTreatment) -> tuple[Level | None, ...]:
        """The levels that decide which panel or row it stands in."""
        return tuple(placed.levels.get(factor.name) for factor in self.others)


def compare_files(summaries: Sequence[CampaignSummary]) -> FileComparison | None:
    """Of two files or more; else None."""
    if len(summaries) < 2:
        return None
    files = tuple(zip(_display_names(summaries), summaries, strict=True))
    by_workload: dict[str, list[tuple[str, CampaignSummary]]] = {}
    for name, summary in files:
        by_workload.setdefault(summary.workload, []).append((name, summary))
    main: list[Chart] = []
    others: list[Chart] = []
    said = list(_workload_notes(by_workload))
    shared = {workload: found for workload, found in by_workload.items() if len(found) > 1}
    for workload, found in shared.items():
        charts, sentences = _compare_same_workload(found)
        if len(shared) > 1:
            charts = [_add_workload_to_title(chart, workload) for chart in charts]
        main += charts[:1]
        others += charts[1:]
        said += sentences
    return FileComparison(files, main, others, tuple(said))


def published_charts(summary: CampaignSummary) -> list[Chart]:
    """A chart a metric of a published table alone, its own first."""
    if summary.reference is None:
        raise ValueError(f"{summary.path} is no published table")
    files, alike = [(summary.path, summary)], summary.reference.required_factors
    names = [n for n in measured_metrics(summary.treatments) if n != summary.main_metric]
    groups = [_group_by_metric(files, name, alike) for name in (summary.main_metric, *names)]
    return [_comparison_chart(group, _panel_keys(group)) for group in groups]


def _display_names(summaries: Sequence[CampaignSummary]) -> list[str]:
    """The files' names; their paths where two have one name, numbered where it is one file twice."""
    short_names = [each.path if each.reference else Path(each.path).name for each in summaries]
    names = [
        name if short_names.count(name) == 1 else each.path
        for name, each in zip(short_names, summaries, strict=True)
    ]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]


def _workload_notes(by_workload: Mapping[str, Sequence[tuple[str, CampaignSummary]]]) -> Iterator[str]:
    if len(by_workload) > 1:
        listed = "; ".join(
            f"{workload} ({', '.join(name for name, _ in files)})" for workload, files in by_workload.items()
        )
        yield f"The files have different workloads, which are not on one chart: {listed}."


def _add_workload_to_title(chart: Chart, workload: str) -> Chart:
    """One that is told from the chart of the same metric of another workload."""
    return replace(chart, name=f"{workload}-{chart.name}", title=f"{workload}: {chart.title}")


def _compare_same_workload(files: Sequence[tuple[str, CampaignSummary]]) -> tuple[list[Chart], list[str]]:
    """The charts of files with one workload, the deciding metric first, and what they leave out."""
    names = ", ".join(name for name, _ in files)
    metrics = _common_metrics([summary for _, summary in files])
    groups = [_group_by_metric(files, metric) for metric in metrics]
    drawn = [(group, places) for group in groups if (places := _panel_keys(group, least=2))]
    if not drawn:
        lacks = "share the levels of the factors that all tell" if metrics else "have a metric in common"
        return [], [f"No two of {names} {lacks}, so there is no chart of them together."]
    return [_comparison_chart(*each) for each in drawn], list(_omission_notes(*drawn[0]))


def _common_metrics(summaries: Sequence[CampaignSummary]) -> list[str]:
    """Metrics that two files have, the one that decides in the first measured campaign before others."""
    main = next((s.main_metric for s in summaries if s.reference is None), summaries[0].main_metric)
    having = [set(measured_metrics(summary.treatments)) for summary in summaries]
    shared = [
        name
        for name in measured_metrics([t for summary in summaries for t in summary.treatments])
        if sum(name in names for names in having) > 1
    ]
    return sorted(shared, key=lambda name: name != main)


def _group_by_metric(files: Sequence[tuple[str, CampaignSummary]], metric: str, only: Sequence[str] = ()) -> _MetricGroup:
    """The treatments that have the metric, and what is done with each factor.

    Those that all of their files tell (`only` these, where any are given) decide where a treatment stands.
    """
    placed = tuple(
        _FileTreatment(name, summary, treatment, _known_levels(summary, treatment))
        for name, summary in files
        for treatment in summary.treatments
        if metric in treatment.metrics
    )
    having = tuple(dict.fromkeys(each.file for each in placed))
    levels: dict[str, dict[str, dict[Level, None]]] = {}
    for each in placed:
        for factor, level in each.levels.items():
            levels.setdefault(factor, {}).setdefault(each.file, {})[level] = None
    shared = [
        name
        for name, of_files in levels.items()
        if len(of_files) == len(having) and (not only or name in only)
    ]
    apart = tuple(name for name in shared if len(having) > 1 and _has_disjoint_file(levels[name]))
    varying = [
        FactorLevels(name, _sort_levels(level for of_file in levels[name].values() for level in of_file))
        for name in shared
        if name not in apart
    ]
    varying = [factor for factor in varying if len(factor.levels) > 1]
    x = choose_x_factor(varying)
    return _MetricGroup(
        metric=metric,
        files=having,
        placed=placed,
        x=x,
        others=tuple(factor for factor in varying if factor is not x),
        apart=apart,
        rest=tuple(
            name
            for name, of_files in levels.items()
            if (name not in shared or name in apart)
            and any(len(of_file) > 1 for of_file in of_files.values())
        ),
    )


def _known_levels(summary: CampaignSummary, treatment: TreatmentSummary) -> dict[str, Level]:
    return {name: level for name, level in all_levels(summary, treatment).items() if level != UNSPECIFIED}


def _has_disjoint_file(of_files: Mapping[str, Mapping[Level, None]]) -> bool:
    """Whether one file has no level in common with any other."""
    having = Counter(level for of_file in of_files.values() for level in of_file)
    return any(all(having[level] == 1 for level in of_file) for of_file in of_files.values())


def _sort_levels(levels: Iterator[Level]) -> tuple[Level, ...]:
    """Each once; numbers ascending, then words."""
    seen = dict.fromkeys(levels)
    numbers = sorted(level for level in seen if not isinstance(level, str))
    return (*numbers, *(level for level in seen if isinstance(level, str)))


def _panel_keys(group: _MetricGroup, least: int = 1) -> list[tuple[Level | None, ...]]:
    """Panels (or rows) that so many files have a treatment in, in the order of the levels."""
    files: dict[tuple[Level | None, ...], set[str]] = {}
    for each in group.placed:
        files.setdefault(group.place(each), set()).add(each.file)
    found = [place for place, having in files.items() if len(having) >= least]
    levels = [(None, *factor.levels) for factor in group.others]
    found.sort(key=lambda place: [known.index(each) for known, each in zip(levels, place, strict=True)])
    return found


def _comparison_chart(group: _MetricGroup, places: Sequence[tuple[Level | None, ...]]) -> Chart:
    metric = group.metric
    drawn = places[: group.most_places]
    placed = [each for each in group.placed if group.place(each) in drawn]
    scale = metric_scale([each.treatment for each in placed], metric)
    rows = [row for each in placed for row in _treatment_rows(group, each, scale)]
    summaries = {each.file: each.summary for each in group.placed}
    files = tuple(name for name in group.files if any(each.file == name for each in placed))
    frame = ComparisonLayout(
        x=group.x,
        places=tuple(_panel_name(group, place) for place in drawn),
        files=files,
        published=tuple(summaries[name].reference is not None for name in files),
    )
    title = metric_heading(metric, scale)
    caption = " ".join(_caption_sentences([summaries[name] for name in files], rows))
    return Chart(metric, title, caption, file_comparison_spec(frame, title), rows)


def _caption_sentences(summaries: Sequence[CampaignSummary], rows: Sequence[ChartRow]) -> Iterator[str]:
    shares = {format_exact_share(each.precision.confidence) for each in summaries if each.reference is None}
    if shares:
        yield f"Circles: medians of the trials with their intervals ({' or '.join(sorted(shares))})."
    if any(row["kind"] == "mode" for row in rows):
        yield "Two diamonds: the trials fall into two modes, with these shares of them."
    for summary in summaries:
        if summary.reference is not None:
            yield f"Triangles, {summary.reference.title}: {legend(summary)[:1].lower()}{legend(summary)[1:]}"
    yield from dict.fromkeys(
        f"{Path(each.path).name}: {said}" for each in summaries for said in emulation_warnings(each)
    )


def _treatment_rows(group: _MetricGroup, placed: _FileTreatment, scale: Scale) -> Iterator[ChartRow]:
    metric = group.metric
    estimate = placed.treatment.metrics[metric]
    names = [*([group.x.name] if group.x else []), *(factor.name for factor in group.others), *group.rest]
    base: ChartRow = {
        "file": placed.file,
        "place": _panel_name(group, group.place(placed)),
        "rest": treatment_phrase(placed.levels, group.rest),
        "treatment": treatment_phrase(placed.levels, names),
        "x": _x_position(group, placed),
        "kind": "published" if estimate.is_published else "measured",
        "figure": f"{format_estimate(estimate, metric, scale)} {scale.unit}".rstrip(),
    }
    if estimate.modes:
        for mode, text in zip(estimate.modes, format_modes(estimate, metric, scale), strict=True):
            value = round_for_chart(mode.value / scale.divisor)
            yield {**base, "kind": "mode", "value": value, "share": f"{mode.share:.0%}", "figure": text}
        return
    ends = {"low": estimate.low, "high": estimate.high}
    yield {
        **base,
        "value": round_for_chart(estimate.value / scale.divisor),
        **{name: None if end is None else round_for_chart(end / scale.divisor) for name, end in ends.items()},
    }


def _x_position(group: _MetricGroup, placed: _FileTreatment) -> float | None:
    if group.x is None:
        return None
    places = level_positions(group.x)
    width = max(places.values()) - min(places.values())
    aside = group.files.index(placed.file) - (len(group.files) - 1) / 2
    return places[placed.levels[group.x.name]] + aside * _FILE_OFFSET_SHARE * width


def _panel_name(group: _MetricGroup, place: tuple[Level | None, ...]) -> str:
    levels = {f.name: level for f, level in zip(group.others, place, strict=True) if level is not None}
    return treatment_phrase(levels, [factor.name for factor in group.others]) if levels else ""


def _omission_notes(group: _MetricGroup, places: Sequence[tuple[Level | None, ...]]) -> Iterator[str]:
    for name in group.apart:
        files: dict[str, dict[str, None]] = {}
        for each in group.placed:
            if name in each.levels:
                files.setdefault(level_text(name, each.levels[name]), {})[each.file] = None
        listed = "; ".join(f"{level} ({', '.join(having)})" for level, having in files.items())
        yield f"The files differ in {factor_noun(name)}, which the chart does not tell apart: {listed}."
    drawn = places[: group.most_places]
    if len(places) > len(drawn):
        yield f"Drawn are the first {len(drawn)} of {len(places)} combinations that two files have."
    alone = [place for place in _panel_keys(group) if place not in places]
    if alone:
        names = [_panel_name(group, place) for place in alone]
        more = f"; and {len(names) - 4} more" if len(names) > 4 else ""
        yield f"Not drawn, since only one file has it: {'; '.join(names[:4])}{more}."
    if group.rest:
        rest = ", ".join(map(factor_noun, group.rest))
        yield f"Several marks of a file at one place differ in {rest}: point at them."
