"""The page of evidence figures; run as a module, it writes it to `docs/`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from vnetbench.estimate.evidence import FAMILIES
from vnetbench.estimate.evidence.metric import EvidenceMetric

PAGE = "evidence.md"

_HEAD = """\
# Evidence

What a finding rests on: figures of a trial that tell one cause from another. Each is a function of counters
that the trial kept, over its steady part (what comes after the warm-up and before the end of the load),
unless it says otherwise. A figure whose counters are missing is absent; none is guessed. `vnetbench explain
FILE --json` has those that a finding rests on.

- *Sending* are the endpoints that send, with requests those that ask; *receiving* are those that take or
  answer. Where each does both, each is of both kinds. Of several endpoints a figure is that of the worst.
- *CPUs* are those of the kernels that carry the load: of the bench's own machine where endpoints are
  namespaces or guests of it, and of endpoints with kernels of their own. "% of one CPU" may be more than
  100 where several are added up.
- *Streams* are the connections that carry the load. Levels (windows, buffers, round trips) are medians of a
  stream's samples, which no single sample moves, and then of the streams (some are means of the samples, and
  say so); shares of time are means of the streams. Connections that live for one request leave no samples, so
  there are no such figures.
- Settings are those that were read back, never those that were asked for.
- Of trials that other tools ran there are the figures that their logs tell.

Counters are described in [protocol.md](protocol.md), "Events". `x[].y` is `y` of each element of `x`.

This page is made from the same tables as the figures (`python -m vnetbench.estimate.evidence.reference
docs`).
"""
_TITLES = {
    "cpu": "CPUs and threads",
    "window": "Windows, latency and calls",
    "packets": "Packets",
    "links": "Links and the path",
    "frames": "Frames",
    "placement": "Where threads and packets were",
    "instrument": "The instrument",
}


def evidence_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_HEAD, *(line for family in FAMILIES for line in _family(family))]) + "\n"


def _family(family: str) -> Iterator[str]:
    yield f"## {_TITLES[family]}\n"
    yield "| figure | unit | is | from |"
    yield "|---|---|---|---|"
    yield from map(_row, FAMILIES[family])
    yield ""


def _row(figure: EvidenceMetric) -> str:
    counters = ", ".join(f"`{name}`" for name in figure.counters)
    return f"| `{figure.name}` | {figure.unit} | {figure.label}: {figure.meaning} | {counters} |"


def main(folder: Path) -> None:
    """Write the page to a folder."""
    (folder / PAGE).write_text(evidence_page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
