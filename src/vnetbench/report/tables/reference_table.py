"""A published table in a terminal: where it comes from, under which conditions, and every figure of it."""

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
from vnetbench.report.tables.text_table import COLUMN_GAP, draw_table, columns_width
from vnetbench.report.text.notes import legend, campaign_notes
from vnetbench.wording.factor_text import treatment_phrase

_MAX_TEXT_WIDTH = 100


@dataclass(frozen=True)
class ReferenceTable:
    """A rich renderable; where it is narrow the first factors become headings, each over its own table."""

    summary: CampaignSummary
    source: PublishedTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield Text(self.source.title, style="bold")
        for text in (f"{self.source.source}.", self.source.conditions, legend(self.summary)):
            yield _paragraph(text, width)
        rows = self.summary.treatments
        factors = factor_columns(rows, self.summary.factors)
        metrics = metric_columns(rows, self.summary.main_metric)
        over = 0
        while over < len(factors) and columns_width([*factors[over:], *metrics]) > width:
            over += 1
        above = [column.key for column in factors[:over]]
        headings = [treatment_phrase(row.factors, above) if above else "" for row in rows]
        for heading, group in itertools.groupby(range(len(rows)), key=lambda i: headings[i]):
            shown = list(group)
            yield Text("")
            if heading:
                yield Text(heading, style="bold")
            yield draw_table([*_blank_repeated_cells(factors[over:], shown), *metrics], [""] * len(rows), shown)
        yield Text("")
        for note in campaign_notes(self.summary):
            yield _paragraph(note, width)


def reference_table(summary: CampaignSummary) -> ReferenceTable:
    """Of a published table's summary; raises ValueError for a campaign that was measured."""
    if summary.reference is None:
        raise ValueError(f"{summary.path} is no published table")
    return ReferenceTable(summary, summary.reference)


def reference_list() -> Iterator[Text]:
    """Each published table: what a command calls it, what it is, how much is in it."""
    wide = max(map(len, TABLE_NAMES)) + COLUMN_GAP
    for name in TABLE_NAMES:
        source = load_table(name)
        what = f"{source.title}: {format_count(len(source.rows))} figures"
        yield Text(name.ljust(wide), style="bold").append(what, style="not bold")


def _paragraph(text: str, width: int) -> Text:
    return Text("\n".join(textwrap.wrap(text, min(width, _MAX_TEXT_WIDTH))))


def _blank_repeated_cells(columns: Sequence[Column], shown: Sequence[int]) -> list[Column]:
    """The columns with a cell left blank where it and all to its left are as in the row shown above."""
    cells = [list(column.cells) for column in columns]
    for above, here in itertools.pairwise(shown):
        for place, column in enumerate(columns):
            if column.cells[above] != column.cells[here]:
                break
            cells[place][here] = ("",)
    return [replace(column, cells=tuple(each)) for column, each in zip(columns, cells, strict=True)]
