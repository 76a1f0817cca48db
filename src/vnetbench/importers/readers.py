"""All readers there are: each tool's module adds one line here."""

from __future__ import annotations

from vnetbench.importers import iperf2, neper, netperf, nuttcp, sockperf
from vnetbench.importers.reader import DocumentReader, TextReader

READERS: tuple[TextReader | DocumentReader, ...] = (
    *iperf2.READERS,
    *neper.READERS,
    *netperf.READERS,
    *nuttcp.READERS,
    *sockperf.READERS,
)
"""In the order in which they are asked."""
