"""How fast the logs of other tools are read, beside Python's own reading of the same JSON."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import agent, long_logs
from bench.binaries import Binary
from bench.comparison import Competitor, RunValues, Measure, ComparisonSpec
from bench.testbed import PeerTestbed
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.runs import Run

_RATE = Measure("MB/s", 1)
_TEXT_BYTES = 16 * 10**6
_DOCUMENT_BYTES = 16 * 10**6


def importing(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Text and JSON of iperf3: read into runs, and the text by the whole command, into a results file."""
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    text, document = Path(folder.name) / "long.log", Path(folder.name) / "long.json"
    long_logs.write_text(text, _TEXT_BYTES)
    long_logs.write_document(document, _DOCUMENT_BYTES)

    def timed(work: Callable[[Path], None], log: Path) -> Mapping[str, Callable[[], RunValues]]:
        def run() -> RunValues:
            assert folder.name  # there for as long as there are entrants
            began = time.monotonic()
            work(log)
            return {_RATE.name: log.stat().st_size / 1e6 / (time.monotonic() - began)}

        return {"": run}

    entrants = (
        Competitor(f"{agent.TOOL}, JSON read", timed(_read, document), is_ours=True),
        Competitor("Python's json, the same JSON", timed(_parse, document)),
        Competitor(f"{agent.TOOL}, text read", timed(_read, text), is_ours=True),
        Competitor(f"{agent.TOOL}, text imported", timed(_import, text), is_ours=True),
    )
    return ComparisonSpec("import", "Logs of iperf3", (_RATE,), entrants)


def _read(log: Path) -> None:
    with log.open("rb") as stream:
        runs = sum(isinstance(item, Run) and not item.failure for item in parse_log(decode_lines(stream)))
    assert runs


def _parse(log: Path) -> None:
    with log.open() as stream:
        assert json.load(stream)


def _import(log: Path) -> None:
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        long_logs.import_text(log, Path(folder))
