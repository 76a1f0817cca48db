"""A published table in a terminal: its source, its conditions and all of its values."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.published.catalog import TABLE_NAMES
from vnetbench.published.tables import PublishedTable, load_table
from vnetbench.quantity import format_count
from vnetbench.report.tables.columns import Column, factor_columns, metric_columns
from vnetbench.report.tables.text_table import COLUMN_GAP_CHARACTERS, columns_width, draw_table
from vnetbench.report.text.notes import campaign_notes, table_values_legend
from vnetbench.wording.factor_text import treatment_phrase

_MAX_TEXT_WIDTH = 100


@dataclass(frozen=True)
class PublishedTableView:
    """A published table as a rich renderable; on a narrow terminal the first factors become headings."""

    summary: CampaignSummary
    source: PublishedTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield Text(self.source.title, style="bold")
        for text in (f"{self.source.source}.", self.source.conditions, table_values_legend(self.summary)):
            yield _wrap_paragraph(text, width)
        rows = self.summary.treatments
        factors = factor_columns(rows, self.summary.factors)
        metrics = metric_columns(rows, self.summary.deciding_metric)
        heading_count = 0
        while heading_count < len(factors) and columns_width([*factors[heading_count:], *metrics]) > width:
            heading_count += 1
        heading_factors = [column.key for column in factors[:heading_count]]
        headings = [treatment_phrase(row.factors, heading_factors) if heading_factors else "" for row in rows]
        for heading, group in itertools.groupby(range(len(rows)), key=lambda i: headings[i]):
            indices = list(group)
            yield Text("")
            if heading:
                yield Text(heading, style="bold")
            columns = [*_blank_repeated_cells(factors[heading_count:], indices), *metrics]
            yield draw_table(columns, [""] * len(rows), indices)
        yield Text("")
        for note in campaign_notes(self.summary):
            yield _wrap_paragraph(note, width)


def published_values_table(summary: CampaignSummary) -> PublishedTableView:
    """Return the table of a published summary; raise ValueError for a measured campaign."""
    if summary.represented_table is None:
        raise ValueError(f"{summary.path} is not a published table")
    return PublishedTableView(summary, summary.represented_table)


def published_table_lines() -> Iterator[Text]:
    """Yield a line per published table: its name, its title and its number of values."""
    name_width = max(map(len, TABLE_NAMES)) + COLUMN_GAP_CHARACTERS
    for name in TABLE_NAMES:
        source = load_table(name)
        description = f"{source.title}: {format_count(len(source.rows))} values"
        yield Text(name.ljust(name_width), style="bold").append(description, style="not bold")


def _wrap_paragraph(text: str, width: int) -> Text:
    return Text("\n".join(textwrap.wrap(text, min(width, _MAX_TEXT_WIDTH))))


def _blank_repeated_cells(columns: Sequence[Column], row_indices: Sequence[int]) -> list[Column]:
    """Blank the leading cells of each row that equal those of the row above."""
    cells = [list(column.cells) for column in columns]
    for previous, current in itertools.pairwise(row_indices):
        for column_index, column in enumerate(columns):
            if column.cells[previous] != column.cells[current]:
                break
            cells[column_index][current] = ("",)
    return [replace(column, cells=tuple(each)) for column, each in zip(columns, cells, strict=True)]
