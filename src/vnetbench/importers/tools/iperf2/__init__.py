"""Read iperf 2: its text reports and its CSV, of clients and servers."""

from __future__ import annotations

from vnetbench.importers.line_report import make_report_reader
from vnetbench.importers.tools.iperf2.csv_report import CsvReport
from vnetbench.importers.tools.iperf2.text_report import TextReport

READERS = (make_report_reader(CsvReport), make_report_reader(TextReport))
