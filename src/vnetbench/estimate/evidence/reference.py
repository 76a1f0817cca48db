"""Generator of the documentation page `docs/evidence.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from vnetbench.estimate.evidence import METRICS_BY_FAMILY
from vnetbench.estimate.evidence.metric import EvidenceMetric

PAGE_FILE_NAME = "evidence.md"

_PAGE_HEAD = """\
# Evidence

Evidence is a value from a trial that supports or contradicts a cause. This page lists the metrics that
`vnetbench explain` uses as evidence. Each metric is a function of counters of the trial.
`vnetbench explain FILE --json` contains the values that a finding uses.

- **Time.** Unless stated otherwise, a metric covers the steady part of a trial: from the end of the warm-up
  to the end of the load.
- **Missing counters.** A metric whose counters are missing is absent. The bench guesses nothing. Trials of
  other tools have only the metrics that their logs contain.
- **Endpoints.** *Sending* endpoints send data or requests. *Receiving* endpoints receive data or answer
  requests. With a bidirectional load, each endpoint is both. With several endpoints, a metric is that of
  the worst one.
- **CPUs.** *CPUs* are those of the kernels that carry the load. These are the bench's own machine, if
  endpoints are namespaces or guests on it, and endpoints with their own kernels. A share is at most 100 %;
  what several CPUs do together is a number of CPUs.
- **Streams.** *Streams* are the connections that carry the load. Windows, buffers and round-trip times are
  medians of a stream's samples, then medians of the streams. Some are means of the samples, as their
  meaning states. Shares of time are means of the streams. Connections for one request have no samples, so
  these metrics are absent.
- **Settings.** Settings are those that were read back, not those that were requested.

Counters are described in [protocol.md](protocol.md), "Events". `x[].y` is `y` of each element of `x`.

This page is generated from the same tables as the metrics (`python -m vnetbench.estimate.evidence.reference
docs`).
"""
_TITLE_BY_FAMILY = {
    "time": "Where the time of a stream or request goes",
    "cpu": "CPUs and threads",
    "window": "Windows, latency and calls",
    "packets": "Packets",
    "links": "Links and the path",
    "teams": "Teams of links",
    "frames": "Frames",
    "placement": "CPU placement",
    "instrument": "The instrument",
}


def evidence_page() -> str:
    """Return the page in Markdown."""
    return (
        "\n".join([_PAGE_HEAD, *(line for family in METRICS_BY_FAMILY for line in _family_lines(family))])
        + "\n"
    )


def _family_lines(family: str) -> Iterator[str]:
    yield f"## {_TITLE_BY_FAMILY[family]}\n"
    yield "| metric | name in reports | unit | meaning | counters |"
    yield "|---|---|---|---|---|"
    yield from map(_table_row, METRICS_BY_FAMILY[family])
    yield ""


def _table_row(metric: EvidenceMetric) -> str:
    counters = ", ".join(f"`{name}`" for name in metric.counters)
    return f"| `{metric.name}` | {metric.label} | {metric.unit} | {metric.meaning} | {counters} |"


def main(folder: Path) -> None:
    """Write the page into a folder."""
    (folder / PAGE_FILE_NAME).write_text(evidence_page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
