"""One self-contained page for one campaign or several: answer, charts, table, method, environment."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from vnetbench import __version__
from vnetbench.errors import BenchError
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.chart_rows import ChartRow
from vnetbench.report.charts.chart_specs import DATASET_NAME
from vnetbench.report.charts.file_comparison import FileComparison, compare_files
from vnetbench.report.charts.theme import vega_config
from vnetbench.report.page.sections import (
    CampaignSection,
    SettingsSection,
    build_section,
    limit_other_metric_charts,
    to_image_url,
)
from vnetbench.report.tables.team_table import TEAM_TABLE_NOTE, TEAM_TABLE_TITLE

_COMPARISON_ID = "comparison"
"""The id of the section that compares several files."""
MAX_PAGE_BYTES = 3_000_000
"""A larger page omits the charts of the least useful metrics and lists them."""


@dataclass(frozen=True)
class PagePreface:
    """What a page says about all its campaigns together, before them."""

    title: str
    lead: str
    table: Sequence[Sequence[str]]
    """Rows of cells, the heading first."""
    findings: Sequence[tuple[str, Sequence[str], str]]
    """Headline, paragraphs and command of each finding; the command may be empty."""
    notes: Sequence[str]
    settings: SettingsSection | None = None
    """The audit of the settings, which the campaigns below then do not repeat."""
    requirements: Sequence[Sequence[str]] = ()
    """Rows of cells: the requirement, its verdict and the reason."""


def write_html(summaries: Sequence[CampaignSummary], path: Path, preface: PagePreface | None = None) -> None:
    """Write the page completely or not at all.

    Raises:
        BenchError: The file cannot be written.
    """
    page = render_page(summaries, preface)
    try:
        if path.exists() and not path.is_file():
            path.write_text(page, encoding="utf-8")  # such as /dev/null or a pipe, which must stay what it is
        else:
            _replace_file(path, page)
    except OSError as error:
        raise BenchError(
            f"cannot write the page: {error.strerror}",
            where=str(path),
            fix="use -o with a path in an existing folder that has free space",
        ) from error


def _replace_file(path: Path, page: str) -> None:
    # An unforeseeable name and "x": nobody can prepare a link or a file there in a shared folder.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(page)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def render_page(summaries: Sequence[CampaignSummary], preface: PagePreface | None = None) -> str:
    """Return the page, with as many charts as fit into MAX_PAGE_BYTES."""
    comparison = compare_files(summaries)
    if preface is not None and comparison is not None and not comparison.main_charts:
        comparison = None  # The preface takes its place.
    sections = [build_section(f"c{number}", summary) for number, summary in enumerate(summaries, 1)]
    chart_count = max((len(section.other_metric_charts) for section in sections), default=0)
    page = _render_sections(comparison, sections, preface)
    while len(page.encode()) > MAX_PAGE_BYTES and chart_count > 0:
        chart_count -= 1
        limited = [limit_other_metric_charts(section, chart_count) for section in sections]
        page = _render_sections(comparison, limited, preface)
    return page


def _render_sections(
    comparison: FileComparison | None, sections: Sequence[CampaignSection], preface: PagePreface | None
) -> str:
    charts = {
        f"{section.id}-{chart.name}": {"spec": chart.spec, "rows": _to_columns_with_shared_texts(chart.rows)}
        for section in sections
        for chart in section.charts
    }
    comparison_image = ""
    if comparison is not None:
        for chart in (*comparison.main_charts, *comparison.other_metric_charts):
            rows = _to_columns_with_shared_texts(chart.rows)
            charts[f"{_COMPARISON_ID}-{chart.name}"] = {"spec": chart.spec, "rows": rows}
        if comparison.main_charts:
            comparison_image = to_image_url(comparison.main_charts[0])
    data = {
        "dataset": DATASET_NAME,
        "configs": {"light": vega_config(dark=False), "dark": vega_config(dark=True)},
        "charts": charts,
    }
    return _load_template().render(
        preface=preface,
        sections=sections,
        comparison=comparison,
        comparison_id=_COMPARISON_ID,
        comparison_image=comparison_image,
        version=__version__,
        team_table_title=TEAM_TABLE_TITLE,
        team_table_note=TEAM_TABLE_NOTE,
        data=_to_json_script(data),
        style=Markup(_read_asset("page.css")),
        script=Markup(_read_asset("page.js")),
        vega=_load_vega_scripts() if charts else Markup(),
    )


def _to_columns_with_shared_texts(rows: Sequence[ChartRow]) -> dict[str, object]:
    """Return the rows as columns that store each text once.

    Most texts repeat in every row, so this needs a fifth of the bytes.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    text_indices: dict[str, int] = {}
    columns: dict[str, object] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            indices = [
                None if value is None else text_indices.setdefault(str(value), len(text_indices))
                for value in values
            ]
            columns[name] = {"texts": indices}
        else:
            columns[name] = {"numbers": values}
    return {"count": len(rows), "columns": columns, "texts": list(text_indices)}


def _to_json_script(value: object) -> Markup:
    """Return JSON for a script element, escaped so that no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@lru_cache(maxsize=1)
def _load_vega_scripts() -> Markup:
    """Return Vega, Vega-Lite and vega-embed, which vl-convert contains."""
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub lacks the default
    return Markup(bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


@lru_cache(maxsize=1)
def _load_template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_read_asset("page.html.j2"))


def _read_asset(name: str) -> str:
    return resources.files("vnetbench.report.page").joinpath(name).read_text(encoding="utf-8")
