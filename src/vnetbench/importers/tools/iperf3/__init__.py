"""iperf3, all its versions and forms."""

from __future__ import annotations

from vnetbench.importers.reader import DocumentReader, TextReader
from vnetbench.importers.tools.iperf3 import json_document, log_reader
from vnetbench.importers.tools.iperf3.text_report import TOOL

MOST_LINES = 1_200_000
"""Of a run: its intervals are packed, some 80 bytes each."""

READERS = (
    TextReader(TOOL, log_reader.begins, log_reader.read, MOST_LINES),
    DocumentReader(TOOL, "json", json_document.claims, json_document.read),
)
