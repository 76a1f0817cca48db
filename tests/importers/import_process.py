"""Import a log with the command and print two peaks of its memory in KiB: `python -m … LOG RESULTS`.

The first is the peak before the command stores estimates and the narrative, the second that of all its work.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from unittest import mock

from vnetbench.cli import cli
from vnetbench.commands import import_logs
from vnetbench.commands.stored_results import store_estimates_and_narrative
from vnetbench.study.workloads import TCP_STREAM


def peak_kib() -> int:
    """Return the peak memory of this process. `getrusage` would include its parent."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak
    return int(peak[1])


def import_and_print_peaks(log: str, results: str) -> None:
    """Run the command. It must store estimates and the narrative once, after reading and writing."""
    peaks = []

    def note_peak_and_store(path: Path) -> None:
        peaks.append(peak_kib())
        store_estimates_and_narrative(path)

    with mock.patch.object(import_logs, "store_estimates_and_narrative", note_peak_and_store):
        cli.main(["import", log, "-o", results, "--workload", TCP_STREAM], standalone_mode=False)
    (before_estimates,) = peaks
    print(before_estimates, peak_kib())


if __name__ == "__main__":
    import_and_print_peaks(*sys.argv[1:])
