"""netperf: its tables, and its omni tests' results by name."""

from __future__ import annotations

from vnetbench.importers.credible import credibly
from vnetbench.importers.netperf import text
from vnetbench.importers.reader import TextReader

READERS = (TextReader("netperf", text.begins, credibly(text.read)),)
