"""netperf: its tables, and its omni tests' results by name."""

from __future__ import annotations

from vnetbench.importers.netperf import text
from vnetbench.importers.reader import TextReader

READERS = (TextReader("netperf", text.begins, text.read),)
