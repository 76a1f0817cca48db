"""iperf3, all its versions and forms."""

from __future__ import annotations

from vnetbench.importers.iperf3 import document, log
from vnetbench.importers.iperf3.text import TOOL
from vnetbench.importers.reader import DocumentReader, TextReader

READERS = (
    TextReader(TOOL, log.begins, log.read, most_lines=1_000_000),
    DocumentReader(TOOL, "json", document.claims, document.read),
)
