"""All readers there are: each tool's module adds one line here."""

from __future__ import annotations

from vnetbench.importers import ethr, flent, iperf2, iperf3, neper, netperf, ntttcp, nuttcp, sockperf, uperf
from vnetbench.importers.reader import DocumentReader, TextReader

READERS: tuple[TextReader | DocumentReader, ...] = (
    *ethr.READERS,
    *flent.READERS,
    *iperf2.READERS,
    *iperf3.READERS,
    *neper.READERS,
    *netperf.READERS,
    *ntttcp.READERS,
    *nuttcp.READERS,
    *sockperf.READERS,
    *uperf.READERS,
)
"""In the order in which they are asked."""
