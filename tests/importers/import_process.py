"""Import a log with the command and print the peak memory in KiB: `python -m … LOG RESULTS`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vnetbench.cli import cli
from vnetbench.study.workloads import TCP_STREAM


def peak_kib() -> int:
    """Return the peak memory of this process. `getrusage` would include its parent."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak
    return int(peak[1])


if __name__ == "__main__":
    log, results = sys.argv[1:]
    cli.main(["import", log, "-o", results, "--workload", TCP_STREAM], standalone_mode=False)
    print(peak_kib())
