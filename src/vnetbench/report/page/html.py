"""One self-contained page for one campaign or several: answer, charts, table, environment, method."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from vnetbench import __version__
from vnetbench.errors import BenchError
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.experiment_command import study_placeholder_note
from vnetbench.explain.model import Finding, CandidateCause
from vnetbench.published.tables import PublishedTable
from vnetbench.quantity import Scale, format_duration, format_interval
from vnetbench.report.charts.campaign_charts import (
    main_charts,
    other_metric_charts,
    render_svg,
    trial_charts,
)
from vnetbench.report.charts.chart import Chart
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET_NAME
from vnetbench.report.charts.evidence_charts import evidence_chart
from vnetbench.report.charts.file_comparison import FileComparison, compare_files
from vnetbench.report.charts.theme import vega_config
from vnetbench.report.environment import Fact, list_facts
from vnetbench.report.one_at_a_time import to_single_factor, gain_column
from vnetbench.report.tables.columns import (
    Column,
    factor_columns,
    metric_columns,
    search_columns,
    stop_reason_column,
    trials_column,
)
from vnetbench.report.tables.published_comparison import compare_with_published, comparison_columns
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.report.text.evidence_text import (
    EvidenceText,
    format_evidence,
    needs_confidence_label,
    split_headline,
    is_named_in_finding,
    format_experiment_result,
)
from vnetbench.report.text.method import describe_method
from vnetbench.report.text.narrative import Narrative, build_narrative
from vnetbench.report.text.notes import legend, campaign_notes
from vnetbench.study.labs import IMPORTED
from vnetbench.wording.estimate_text import find_metric, format_modes, metric_scale, format_short_estimate
from vnetbench.wording.factor_text import pluralize

_OF_ALL = "all"
"""The part of a page that several files share, as sections have an id."""
MAX_PAGE_BYTES = 3_000_000
"""Bytes. Where a page would be larger, charts of the least useful metrics are left out, and it says so."""


@dataclass(frozen=True)
class _Cell:
    """One figure of the table: lines of a value and its spread."""

    lines: tuple[tuple[str, str], ...]
    rank: float | str
    is_number: bool


@dataclass(frozen=True)
class _Suspect:
    """One suspect with its evidence and its proof as they are written."""

    suspect: CandidateCause
    is_told: bool
    """By what the finding says."""
    has_certainty: bool
    evidence: list[EvidenceText]
    proof: str
    about_study: str
    """What the command's word for the study stands for, where it names no file."""


@dataclass(frozen=True)
class _Finding:
    """One finding with its picture."""

    kind: str
    headline: str
    rest: str
    chart: Chart | None
    suspects: list[_Suspect]


@dataclass(frozen=True)
class _Section:
    """All that the template shows of one campaign."""

    id: str
    summary: CampaignSummary
    size: str
    emulation: tuple[str, ...]
    story: Narrative
    findings: list[_Finding]
    main: list[Chart]
    others: list[Chart]
    trials: list[Chart]
    left_out: list[str]
    columns: list[Column]
    rows: list[list[_Cell]]
    notes: tuple[str, ...]
    published: str
    """Title and conditions of the published figures beside; empty without any."""
    beside: list[Column]
    facts: tuple[Fact, ...]
    method: tuple[tuple[str, str], ...]
    fallback: str
    """The first chart as an SVG, for a browser that runs no scripts."""


def write_html(summaries: Sequence[CampaignSummary], path: Path) -> None:
    """Write the page; it is there whole or not at all. Raises BenchError when it can't be written."""
    page = render_page(summaries)
    compare_with_published = path.with_name(f".{path.name}.part")
    try:
        compare_with_published.write_text(page, encoding="utf-8")
        compare_with_published.replace(path)
    except OSError as error:
        raise BenchError(
            f"the page can't be written: {error.strerror}",
            where=str(path),
            fix="name a file in a folder that exists and has room, with -o",
        ) from error


def render_page(summaries: Sequence[CampaignSummary]) -> str:
    """The page as text, below LARGEST_PAGE bytes as long as leaving out charts can make it so."""
    together = compare_files(summaries)
    sections = [_section(f"c{place + 1}", summary) for place, summary in enumerate(summaries)]
    most = max((len(section.others) for section in sections), default=0)
    page = _page(together, sections)
    while len(page.encode()) > MAX_PAGE_BYTES and most > 0:
        most -= 1
        page = _page(together, [_with_fewer_charts(section, most) for section in sections])
    return page


def _with_fewer_charts(section: _Section, most: int) -> _Section:
    left_out = [chart.title for chart in section.others[most:]]
    return replace(section, others=section.others[:most], left_out=left_out)


def _section(id_: str, summary: CampaignSummary) -> _Section:
    told = to_single_factor(summary)
    if summary.reference is not None:
        return _published(id_, told, summary.reference)
    return _measured(id_, told, build_narrative(summary))


def _published(id_: str, summary: CampaignSummary, source: PublishedTable) -> _Section:
    """Of a published table: nothing was measured, so there is no answer, no method and no environment."""
    rows = summary.treatments
    columns = [
        *factor_columns(rows, summary.factors),
        *(_with_long_title(summary, column) for column in metric_columns(rows, summary.main_metric)),
    ]
    main = main_charts(summary)
    return _Section(
        id=id_,
        summary=summary,
        size=f"Published: {pluralize(len(rows), 'figure')}, named {summary.path}",
        emulation=(),
        story=Narrative(summary.title, (f"{source.source}.",), (), (source.conditions, legend(summary)), (), ()),
        findings=[],
        main=main,
        others=other_metric_charts(summary),
        trials=[],
        left_out=[],
        columns=columns,
        rows=_cells(summary, columns),
        notes=campaign_notes(summary),
        published="",
        beside=[],
        facts=(),
        method=(),
        fallback=_as_image(render_svg(main[0])),
    )


def _measured(id_: str, summary: CampaignSummary, told: Narrative) -> _Section:
    rows = summary.treatments
    columns_of_metrics = metric_columns(rows, summary.main_metric)
    first, *others = (_with_long_title(summary, column) for column in columns_of_metrics)
    gains = gain_column(summary)
    columns = [
        *factor_columns(rows, summary.factors),
        first,
        *([gains] if gains else []),
        trials_column(rows),
        *search_columns(rows),
        stop_reason_column(rows),
        *others,
    ]
    main = main_charts(summary)
    compared = compare_with_published(summary)
    return _Section(
        id=id_,
        summary=summary,
        size=_size(summary),
        emulation=emulation_warnings(summary),
        story=told,
        findings=[_finding(each, number) for number, each in enumerate(told.findings, 1)],
        main=main,
        others=other_metric_charts(summary),
        trials=trial_charts(summary),
        left_out=[],
        columns=columns,
        rows=_cells(summary, columns),
        notes=campaign_notes(summary),
        published=f"{compared.source.title}: {compared.source.conditions}" if compared else "",
        beside=comparison_columns(compared) if compared else [],
        facts=list_facts(summary),
        method=describe_method(summary),
        fallback=_as_image(render_svg(main[0])) if main else "",
    )


def _finding(finding: Finding, number: int) -> _Finding:
    suspects = [
        _Suspect(
            suspect,
            is_named_in_finding(suspect, finding),
            needs_confidence_label(suspect, finding),
            [format_evidence(exhibit) for exhibit in suspect.evidence],
            "" if suspect.experiment_result is None else f"{suspect.experiment_result.verdict}: {format_experiment_result(suspect.experiment_result)}",
            study_placeholder_note(suspect.command),
        )
        for suspect in finding.candidates
    ]
    return _Finding(finding.kind, *split_headline(finding), evidence_chart(finding, number), suspects)


def _size(summary: CampaignSummary) -> str:
    """How much was measured, and when; of logs that is not known, but when they were imported."""
    trials = sum(treatment.trials for treatment in summary.treatments)
    counts = f"{pluralize(len(summary.treatments), 'treatment')}, {pluralize(trials, 'trial')}"
    if summary.kind == IMPORTED:
        return f"{counts}, imported {summary.started}"
    return f"{counts}, {format_duration(summary.elapsed_s)}, {summary.status}, started {summary.started}"


def _with_long_title(summary: CampaignSummary, column: Column) -> Column:
    metric = find_metric(column.key)
    return replace(column, title=metric.label, unit=metric_scale(summary.treatments, column.key).unit)


def _cells(summary: CampaignSummary, columns: Sequence[Column]) -> list[list[_Cell]]:
    return [[_cell(summary, column, i) for column in columns] for i in range(len(summary.treatments))]


def _cell(summary: CampaignSummary, column: Column, i: int) -> _Cell:
    treatment = summary.treatments[i]
    rank = column.ranks[i]
    lines = tuple((line, "") for line in column.cells[i])
    if column.key in treatment.metrics:
        lines = tuple(_figures(treatment, column.key, metric_scale(summary.treatments, column.key)))
    return _Cell(lines, rank if math.isfinite(rank) else "", column.is_number)


def _figures(treatment: TreatmentSummary, metric: str, scale: Scale) -> Iterator[tuple[str, str]]:
    estimate = treatment.metrics[metric]
    if estimate.modes:
        for mode in format_modes(estimate, metric, scale):
            value, _, share = mode.partition(" ")
            yield value, share
        return
    if estimate.is_published:
        value, _, ends = format_short_estimate(estimate, metric, scale)[0].partition(" ")
        yield value, ends
        return
    unit = find_metric(metric).unit
    told = format_interval(estimate.value, estimate.low, estimate.high, unit, scale=scale)
    yield told.value, told.interval or "no interval"


def _page(together: FileComparison | None, sections: Sequence[_Section]) -> str:
    of_all = [(_OF_ALL, chart) for chart in (*together.main, *together.others)] if together else []
    of_each = [
        (section.id, chart)
        for section in sections
        for chart in (*_of_findings(section), *section.main, *section.others, *section.trials)
    ]
    charts = {
        f"{owner}-{chart.name}": {"spec": chart.spec, "rows": _columnar(chart.rows)}
        for owner, chart in (*of_all, *of_each)
    }
    data = {"configs": {"light": vega_config(dark=False), "dark": vega_config(dark=True)}, "charts": charts}
    return _template().render(
        sections=sections,
        together=together,
        of_all=_OF_ALL,
        picture=_as_image(render_svg(together.main[0])) if together and together.main else "",
        version=__version__,
        data=_json_in_html({"dataset": DATASET_NAME, **data}),
        style=Markup(_file("page.css")),
        script=Markup(_file("page.js")),
        vega=_vega() if charts else Markup(),
    )


def _of_findings(section: _Section) -> list[Chart]:
    return [each.chart for each in section.findings if each.chart is not None]


def _columnar(rows: Sequence[ChartRow]) -> dict[str, object]:
    """Rows as columns, each text once: a fifth of the bytes, as most texts repeat in every row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts: dict[str, int] = {}
    columns: dict[str, object] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            indices = [None if v is None else texts.setdefault(str(v), len(texts)) for v in values]
            columns[name] = {"texts": indices}
        else:
            columns[name] = {"numbers": values}
    return {"count": len(rows), "columns": columns, "texts": list(texts)}


def _json_in_html(value: object) -> Markup:
    """JSON that may stand in a script element: nothing in it can end the element or open another."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _as_image(svg: str) -> str:
    """An SVG as the address of an image, where nothing in it can run."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


@lru_cache(maxsize=1)
def _vega() -> Markup:
    """Vega, Vega-Lite and vega-embed as they come with vl-convert."""
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub lacks the default
    return Markup(bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_file("page.html.j2"))


def _file(name: str) -> str:
    return resources.files("vnetbench.report.page").joinpath(name).read_text(encoding="utf-8")
