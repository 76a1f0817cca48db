"""All readers there are: each tool's module adds one line here."""

from __future__ import annotations

from vnetbench.importers import flent, iperf2, ntttcp
from vnetbench.importers.reader import DocumentReader, TextReader

READERS: tuple[TextReader | DocumentReader, ...] = (
    *flent.READERS,
    *iperf2.READERS,
    *ntttcp.READERS,
)
"""In the order in which they are asked."""
