"""Read ethr: what its client and server print, and the JSON lines of its log file.

Source: `clientui.go`, `serverui.go`, `log.go`, `utils.go` of microsoft/ethr. K, M, G, T are powers of 1000.
ethr leaves out a trailing `.0`, so `12G` is 12.0. It reports no result of a whole run, so the result here is
the mean of its seconds. The log file has latencies under shifted names: `emitLatencyResults` writes the
maximum before the percentiles and `logLatency` reads it last. So `P50` is the maximum, `P90` the median, …
`Max` the 99.99th percentile.
"""

from __future__ import annotations

from vnetbench.importers.line_report import make_report_reader
from vnetbench.importers.tools.ethr.report import EthrLogFileReport, EthrReport

READERS = (make_report_reader(EthrLogFileReport), make_report_reader(EthrReport))
