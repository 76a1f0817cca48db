"""iperf 2: its text and its CSV, of both ends."""

from __future__ import annotations

from vnetbench.importers.reader import TextReader
from vnetbench.importers.tools.iperf2 import csv_report, text_report
from vnetbench.importers.validation import credibly

READERS = (
    TextReader("iperf 2", csv_report.begins, credibly(csv_report.read)),
    TextReader("iperf 2", text_report.begins, credibly(text_report.read)),
)
