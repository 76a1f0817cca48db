"""netperf: its tables, and its omni tests' results by name."""

from __future__ import annotations

from vnetbench.importers.reader import TextReader
from vnetbench.importers.tools.netperf import text_report
from vnetbench.importers.validation import credibly

READERS = (TextReader("netperf", text_report.begins, credibly(text_report.read)),)
