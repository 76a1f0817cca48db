"""Parse the tables of NTttcp for Windows into titles, rulers and numbers, however their lines are broken."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME_BY_TITLE = {
    "Thread": "thread",
    "Time(s)": "time",
    "Realtime(s)": "realtime",
    "Throughput(KB/s)": "Throughput(KB/s)",
    "Avg B / Compl": "Avg B / Compl",
    "Avg Frame Size": "Avg Frame Size",
    "Ave Frame Size": "Avg Frame Size",
    "Average Frame Size": "Avg Frame Size",
    "Avg. CPU %": "Avg. CPU %",
    "Avg": "Avg latency (ns)",
    "Min": "Min latency (ns)",
    "Max": "Max latency (ns)",
    "Total Bytes(MEG)": "Bytes(MEG)",
    "Bytes(MEG)": "Bytes(MEG)",
    "Total Throughput(Mbit/s)": "Throughput(Mbit/s)",
    "Throughput(Mbit/s)": "Throughput(Mbit/s)",
    "Throughput(MB/s)": "Throughput(MB/s)",
    "Throughput(Buffers/s)": "Throughput(Buffers/s)",
    "Cycles/Byte": "Cycles/Byte",
    "Total Buffers": "Buffers",
    "Buffers": "Buffers",
    "DPCs(count/s)": "DPCs(count/s)",
    "Pkts(num/DPC)": "Pkts(num/DPC)",
    "Pkts(num/intr)": "Pkts(num/intr)",
    "Pkts(sent/intr)": "Pkts(sent/intr)",
    "Pkts(recv/intr)": "Pkts(recv/intr)",
    "Intr(count/s)": "Intr(count/s)",
    "Packets Sent": "Packets Sent",
    "Packets Received": "Packets Received",
    "Total Retransmits": "Retransmits",
    "Retransmits": "Retransmits",
    "Total Errors": "Errors",
    "Errors": "Errors",
}
"""One name for the titles of all versions: `Total Buffers` of 3.0 is `Buffers` of 5.x."""

LAST_COLUMN_TITLE = "Avg. CPU %"
"""The last column of the last table, in every version."""

_NAME_BY_LOWERCASE_TITLE = {title.lower(): name for title, name in _NAME_BY_TITLE.items()}


def _make_title_pattern(title: str) -> str:
    return r"\s+".join(map(re.escape, title.split()))


_TITLES_PATTERN = "|".join(
    _make_title_pattern(title) for title in sorted(_NAME_BY_TITLE, key=len, reverse=True)
)
TABLE_OPENING_PATTERN = re.compile(
    r"(?<!\S)(?:Thread\s+(?:Real)?time\(s\)|(?:Total\s+)?Bytes\(MEG\)|Total\s+Buffers\s|Throughput\(Buffers/s\)"
    r"|DPCs\(count/s\)|Packets\s+Sent\s+Packets|Avg\s+Min\s+Max)",
    re.IGNORECASE,
)
"""The first titles of each table. Single words of them occur in sentences, too."""
_TABLE_HEADING_PATTERN = r"\#{3,}\s*Totals:\s*\#{3,}|Latency\(ns\)"
_TABLE_TOKEN_PATTERN = re.compile(
    rf"\s*(?:(?P<title>(?:{_TITLES_PATTERN})(?![\w(]))|(?P<ruler>[=-]{{3,}})|(?P<heading>{_TABLE_HEADING_PATTERN})"
    r"|(?P<number>[-+]?\d[\d.,]*))(?=\s|$)",
    re.IGNORECASE,
)
"""A piece of `Thread  Time(s) Throughput(KB/s) ======  ======= ================ 0  300.006  29617.328`."""


@dataclass
class WindowsTables:
    """The numbers in the tables of one run."""

    totals: dict[str, str] = field(default_factory=dict)
    """Each number as printed, by the name of its column."""
    threads: list[dict[str, str]] = field(default_factory=list)
    """The rows of the table of threads."""
    _column_titles: list[str] = field(default_factory=list)
    _ruler_count: int = 0
    _current_row_cells: list[str] = field(default_factory=list)
    _has_rows: bool = False

    def add_leading_tables_and_return_rest(self, text: str) -> str | None:
        """Add the tables at the start of a text and return the rest; None if there is no table.

        It stops after the last number of the last table: the rest of that line belongs to another run.
        """
        at = 0
        while (token := _TABLE_TOKEN_PATTERN.match(text, at)) and not self.is_complete:
            at = token.end()
            if token["title"]:
                self._add_column_title(_NAME_BY_LOWERCASE_TITLE[" ".join(token["title"].split()).lower()])
            elif token["ruler"]:
                self._ruler_count += 1
            elif token["number"]:
                self._add_number(token["number"])
        return text[at:] if at else None

    @property
    def is_complete(self) -> bool:
        """Whether the last number was added."""
        return LAST_COLUMN_TITLE in self.totals

    @property
    def is_open(self) -> bool:
        """Whether a table has titles and may get more rows."""
        return bool(self._column_titles)

    def _add_column_title(self, name: str) -> None:
        if self._has_rows or self._current_row_cells:
            self._column_titles, self._ruler_count, self._current_row_cells, self._has_rows = [], 0, [], False
        self._column_titles.append(name)

    def _add_number(self, text: str) -> None:
        # With other counts of rulers and titles, a line is damaged and the columns do not match.
        if not self._column_titles or self._ruler_count not in (0, len(self._column_titles)):
            return
        self._current_row_cells.append(text)
        if len(self._current_row_cells) < len(self._column_titles):
            return
        row = dict(zip(self._column_titles, self._current_row_cells, strict=True))
        if self._column_titles[0] == "thread":
            self.threads.append(row)
        else:
            self.totals |= row
        self._current_row_cells, self._has_rows = [], True
