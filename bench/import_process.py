"""Import logs with the command: `python -m bench.import_process LOGS RESULTS` prints CPU s and peak KiB."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

from vnetbench.cli import cli
from vnetbench.study.workloads import TCP_STREAM

if __name__ == "__main__":
    logs, results = sys.argv[1:]
    cli.main(["import", logs, "-o", results, "--workload", TCP_STREAM], standalone_mode=False)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # `ru_maxrss` would include the memory of the process that started this one.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak
    print(used.ru_utime + used.ru_stime, peak[1])
