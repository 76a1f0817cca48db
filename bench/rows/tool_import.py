"""The rate at which text logs of each tool are imported, and the cost of a thousand short logs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import agent, long_runs, tool_logs
from bench.binaries import Binary
from bench.comparison import ComparisonSpec, Competitor, Measure, RunValues
from bench.testbed import PeerTestbed
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.runs import Run

_CPU_RATE = Measure("MB/s of CPU time", 2)
_LOG_BYTES = 4 * 10**6
_LONG_LOG_BYTES = 10**7
_LOG_COUNT = 1000
_FEW_LOGS_TOOL = "iperf3"


def tool_import(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the rates of reading logs of each tool, as MB of log for each second of CPU time."""
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    competitors = []
    for tool in tool_logs.list_tools():
        log = Path(folder.name) / f"{tool}.log"
        tool_logs.write_long_log(log, tool, _LOG_BYTES)
        competitors.append(
            Competitor(f"{agent.TOOL}, {tool}", {"": _time_reading(log, folder)}, is_ours=True)
        )
    return ComparisonSpec("import-tools", "Logs of each tool, read", (_CPU_RATE,), tuple(competitors))


def long_import(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the rates of reading logs of long runs, as MB of log for each second of CPU time."""
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    competitors = []
    for number, name in enumerate(long_runs.NAMES):
        log = Path(folder.name) / f"{number}.log"
        long_runs.write_log(log, name, _LONG_LOG_BYTES)
        competitors.append(
            Competitor(f"{agent.TOOL}, {name}", {"": _time_reading(log, folder)}, is_ours=True)
        )
    return ComparisonSpec("import-long", "Logs of long runs, read", (_CPU_RATE,), tuple(competitors))


def thousand_logs(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Measure the import of a thousand logs of iperf3 with the command: CPU time and peak memory."""
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    logs = Path(folder.name) / "logs"
    logs.mkdir()
    tool_logs.write_many_logs(logs, _FEW_LOGS_TOOL, _LOG_COUNT)

    def run() -> RunValues:
        with tempfile.TemporaryDirectory(dir=folder.name) as output:
            return _import_folder(logs, Path(output))

    measures = (
        Measure("CPU s", 2, higher_is_better=False),
        Measure("MiB of memory", 0, higher_is_better=False),
    )
    competitor = Competitor(f"{agent.TOOL}, {_LOG_COUNT} logs", {"": run}, is_ours=True)
    return ComparisonSpec("import-1000", "A thousand logs of iperf3, imported", measures, (competitor,))


def _time_reading(log: Path, folder: tempfile.TemporaryDirectory[str]) -> Callable[[], RunValues]:
    def run() -> RunValues:
        assert folder.name  # the reference keeps the folder until the last run
        start_s = time.process_time()
        with log.open("rb") as stream:
            runs = sum(isinstance(item, Run) for item in parse_log(decode_lines(stream)))
        assert runs
        return {_CPU_RATE.name: log.stat().st_size / 1e6 / (time.process_time() - start_s)}

    return run


def _import_folder(logs: Path, output: Path) -> RunValues:
    """Import a folder in a child process that reports its own CPU time and memory."""
    command = [sys.executable, "-m", "bench.import_process", str(logs), str(output / "imported.vnb")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cpu_s, peak_kib = map(float, done.stdout.split()[-2:])
    return {"CPU s": cpu_s, "MiB of memory": peak_kib / 1024}
