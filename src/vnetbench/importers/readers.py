"""All readers there are: each tool's module adds one line here."""

from __future__ import annotations

from vnetbench.importers import iperf3
from vnetbench.importers.reader import DocumentReader, TextReader

READERS: tuple[TextReader | DocumentReader, ...] = (*iperf3.READERS,)
"""In the order in which they are asked."""
