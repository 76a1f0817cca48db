"""Read netperf: its classic tables, and the named results of its omni tests."""

from __future__ import annotations

from vnetbench.importers.line_report import make_report_reader
from vnetbench.importers.tools.netperf.text_report import NetperfReport

READERS = (make_report_reader(NetperfReport),)
