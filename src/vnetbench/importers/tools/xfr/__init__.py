"""Read xfr: what its client prints in each of its forms, and the log of its server."""

from __future__ import annotations

from vnetbench.importers.line_report import make_report_reader
from vnetbench.importers.reader import DocumentReader
from vnetbench.importers.tools.xfr.client_report import TOOL, XfrReport, is_xfr_document, read_document_runs
from vnetbench.importers.tools.xfr.server_report import XfrServerReport

READERS = (
    DocumentReader(TOOL, "json", is_xfr_document, read_document_runs),
    make_report_reader(XfrReport),
    make_report_reader(XfrServerReport),
)
