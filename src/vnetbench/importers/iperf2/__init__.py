"""iperf 2: its text and its CSV, of both ends."""

from __future__ import annotations

from vnetbench.importers.credible import credibly
from vnetbench.importers.iperf2 import csv, text
from vnetbench.importers.reader import TextReader

READERS = (
    TextReader("iperf 2", csv.begins, credibly(csv.read)),
    TextReader("iperf 2", text.begins, credibly(text.read)),
)
