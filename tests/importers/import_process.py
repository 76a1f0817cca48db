"""Imports a log by the command, and prints the most memory that took, in KiB: `python -m … LOG RESULTS`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vnetbench.cli import cli
from vnetbench.study.workloads import TCP_STREAM


def peak_kib() -> int:
    """The most memory that this process had; `getrusage` would tell that of the one that started it, too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


if __name__ == "__main__":
    log, results = sys.argv[1:]
    cli.main(["import", log, "-o", results, "--workload", TCP_STREAM], standalone_mode=False)
    print(peak_kib())
