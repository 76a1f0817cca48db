"""`vnetbench throughput` on a real bridge, stopped by Ctrl-C: it prints the throughput so far."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vnetbench.commands.exit_codes import INTERRUPTED
from vnetbench.results.file import ResultsFile

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root in a namespace (tools/in-lab)")
STEPS_WITHIN_S, END_WITHIN_S = 300.0, 300.0


def count_steps(path: Path) -> int:
    """Return the number of stored steps; 0 before the file exists."""
    if not path.exists():
        return 0
    file = ResultsFile.open_to_read(path)
    try:
        return len(file.steps(0, 0))
    finally:
        file.close()


def test_ctrl_c_prints_the_throughput_so_far(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    command = [
        "throughput",
        "--vswitch",
        "bridge",
        "--time-limit",
        # The search must not end by itself, also if its first steps take long on a busy machine.
        "10 min",
        "--width",
        "0.1 %",
        "-o",
        str(path),
    ]
    started_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "vnetbench", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        # The first step measures the generator, and the second one gives the throughput a range.
        while count_steps(path) < 2:
            assert process.poll() is None and time.monotonic() - started_s < STEPS_WITHIN_S
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=END_WITHIN_S)

    assert process.returncode == INTERRUPTED
    assert re.search(r"64 .*frame/s +\[.*(stopped early|device)", output), output
    assert "the throughput so far is" in output and f"vnetbench resume {path}" in " ".join(output.split())
