"""iperf3, all its versions and forms."""

from __future__ import annotations

from vnetbench.importers.iperf3 import document, log
from vnetbench.importers.iperf3.text import TOOL
from vnetbench.importers.reader import DocumentReader, TextReader

MOST_LINES = 1_200_000
"""Of a run: its intervals are packed, some 80 bytes each."""

READERS = (
    TextReader(TOOL, log.begins, log.read, MOST_LINES),
    DocumentReader(TOOL, "json", document.claims, document.read),
)
