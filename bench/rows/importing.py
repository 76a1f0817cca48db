"""Comparison of the import rate of logs with Python's own parser of the same JSON."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import agent, long_logs
from bench.binaries import Binary
from bench.comparison import ComparisonSpec, Competitor, Measure, RunValues
from bench.testbed import PeerTestbed
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.runs import Run

_RATE = Measure("MB/s", 1)
_TEXT_BYTES = 16 * 10**6
_DOCUMENT_BYTES = 16 * 10**6


def log_import(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the parsers of iperf3's text and JSON, and the whole import command for the text."""
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    text, document = Path(folder.name) / "long.log", Path(folder.name) / "long.json"
    long_logs.write_text(text, _TEXT_BYTES)
    long_logs.write_document(document, _DOCUMENT_BYTES)

    def time_work(work: Callable[[Path], None], log: Path) -> Mapping[str, Callable[[], RunValues]]:
        def run() -> RunValues:
            assert folder.name  # the reference keeps the folder until the last run
            start_s = time.monotonic()
            work(log)
            return {_RATE.name: log.stat().st_size / 1e6 / (time.monotonic() - start_s)}

        return {"": run}

    competitors = (
        Competitor(f"{agent.TOOL}, JSON read", time_work(_parse_runs, document), is_ours=True),
        Competitor("Python's json, the same JSON", time_work(_load_json, document)),
        Competitor(f"{agent.TOOL}, text read", time_work(_parse_runs, text), is_ours=True),
        Competitor(f"{agent.TOOL}, text imported", time_work(_import, text), is_ours=True),
    )
    return ComparisonSpec("import", "Logs of iperf3", (_RATE,), competitors)


def _parse_runs(log: Path) -> None:
    with log.open("rb") as stream:
        runs = sum(isinstance(item, Run) and not item.failure for item in parse_log(decode_lines(stream)))
    assert runs


def _load_json(log: Path) -> None:
    with log.open() as stream:
        assert json.load(stream)


def _import(log: Path) -> None:
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        long_logs.import_text(log, Path(folder))
