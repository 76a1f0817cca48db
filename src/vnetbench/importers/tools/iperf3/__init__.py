"""Read iperf3, in all of its versions and output formats."""

from __future__ import annotations

from vnetbench.importers.reader import DocumentReader, TextReader
from vnetbench.importers.tools.iperf3 import json_document, log_reader
from vnetbench.importers.tools.iperf3.text_report import TOOL

MAX_RUN_LINES = 1_200_000
"""Maximum lines of a run. Its intervals are packed into about 80 bytes each."""

READERS = (
    TextReader(TOOL, log_reader.starts_run, log_reader.read_next_report, MAX_RUN_LINES),
    DocumentReader(TOOL, "json", json_document.is_iperf3_document, json_document.read_document_as_one_run),
)
