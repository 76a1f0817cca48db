"""Read all logs of a file to their ends: `python -m tests.importers.archive_process FILE MIB SECONDS`.

The process has so much memory and CPU time on top of what its modules need. It prints what it found, or the
error of the importer.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.importers.archives import LogSource, find_logs
from vnetbench.importers.unpack_budget import UnpackBudget

TEST_BUDGET = UnpackBudget(remaining_bytes=2**30, remaining_lines=5_000_000)
"""A part of what the command allows, so that a test is short."""


def limit_process(mebibytes: int, seconds: int) -> None:
    """Limit memory and CPU time from now on. Beyond the time the kernel ends the process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + mebibytes * 2**20
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    limit = round(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))


def read_all(path: Path) -> list[str]:
    """Return the names of all logs and why any was not read."""
    found = []
    for log in find_logs([path], TEST_BUDGET):
        if isinstance(log, LogSource):
            while log.stream.read(2**18):
                pass
            found.append(f"{log.display_path}: {log.damage_description or 'read'}")
        else:
            found.append(f"{log.display_path}: {log.reason}")
    return found


if __name__ == "__main__":
    limit_process(int(sys.argv[2]), int(sys.argv[3]))
    try:
        names = read_all(Path(sys.argv[1]))
        print("found", len(names), *names[:5], sep="\n")
    except BenchError as error:
        print("refused", error, sep="\n")
