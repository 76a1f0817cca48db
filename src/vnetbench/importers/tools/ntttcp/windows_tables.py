"""The tables of NTttcp for Windows as titles, rulers and numbers, however their lines are broken."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COLUMNS = {
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
"""Titles as the versions print them, and one name for each: `Total Buffers` of 3.0 is `Buffers` of 5.x."""

LAST = "Avg. CPU %"
"""The last column of the last table, in every version."""

_NAMES = {title.lower(): name for title, name in _COLUMNS.items()}


def _words(title: str) -> str:
    return r"\s+".join(map(re.escape, title.split()))


_TITLES = "|".join(_words(title) for title in sorted(_COLUMNS, key=len, reverse=True))
OPENING = re.compile(
    r"(?<!\S)(?:Thread\s+(?:Real)?time\(s\)|(?:Total\s+)?Bytes\(MEG\)|Total\s+Buffers\s|Throughput\(Buffers/s\)"
    r"|DPCs\(count/s\)|Packets\s+Sent\s+Packets|Avg\s+Min\s+Max)",
    re.IGNORECASE,
)
"""The first titles of each table: single words of them stand in sentences, too."""
_HEADING = r"\#{3,}\s*Totals:\s*\#{3,}|Latency\(ns\)"
_TOKEN = re.compile(
    rf"\s*(?:(?P<title>(?:{_TITLES})(?![\w(]))|(?P<ruler>[=-]{{3,}})|(?P<heading>{_HEADING})"
    r"|(?P<number>[-+]?\d[\d.,]*))(?=\s|$)",
    re.IGNORECASE,
)
"""A piece of `Thread  Time(s) Throughput(KB/s) ======  ======= ================ 0  300.006  29617.328`."""


@dataclass
class Tables:
    """What the tables of one run have told so far."""

    totals: dict[str, str] = field(default_factory=dict)
    """Each number as it is printed, by the name of its column."""
    threads: list[dict[str, str]] = field(default_factory=list)
    """The rows of the table of threads."""
    _titles: list[str] = field(default_factory=list)
    _rulers: int = 0
    _row: list[str] = field(default_factory=list)
    _has_rows: bool = False

    def take(self, text: str) -> str | None:
        """Takes what is of tables at the beginning of a text, and returns the rest; None where none is.

        It ends with the last number of the last table: what follows on the same line is of another run.
        """
        at = 0
        while (token := _TOKEN.match(text, at)) and not self.is_whole:
            at = token.end()
            if token["title"]:
                self._title(_NAMES[" ".join(token["title"].split()).lower()])
            elif token["ruler"]:
                self._rulers += 1
            elif token["number"]:
                self._number(token["number"])
        return text[at:] if at else None

    @property
    def is_whole(self) -> bool:
        """Whether the last number has been read."""
        return LAST in self.totals

    @property
    def is_open(self) -> bool:
        """Whether a table has titles and may have (further) rows."""
        return bool(self._titles)

    def _title(self, name: str) -> None:
        if self._has_rows or self._row:
            self._titles, self._rulers, self._row, self._has_rows = [], 0, [], False
        self._titles.append(name)

    def _number(self, text: str) -> None:
        # As many rulers as titles, or one of them was damaged and the numbers are other columns'.
        if not self._titles or self._rulers not in (0, len(self._titles)):
            return
        self._row.append(text)
        if len(self._row) < len(self._titles):
            return
        row = dict(zip(self._titles, self._row, strict=True))
        if self._titles[0] == "thread":
            self.threads.append(row)
        else:
            self.totals |= row
        self._row, self._has_rows = [], True
