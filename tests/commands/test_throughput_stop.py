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

from tests import fixtures
from vnetbench.commands.exit_codes import INTERRUPTED

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root in a namespace (tools/in-lab)")
STEPS_WITHIN_S, END_WITHIN_S = 300.0, 300.0


def has_range(path: Path) -> bool:
    """Return whether the stored steps give the throughput a range; False before the file exists."""
    if not path.exists():
        return False
    (treatment,) = fixtures.read_summary(path).treatments
    return "throughput_fps" in treatment.metrics


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
        # A generator that a busy machine slows down needs more steps.
        while not has_range(path):
            assert process.poll() is None and time.monotonic() - started_s < STEPS_WITHIN_S
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=END_WITHIN_S)

    assert process.returncode == INTERRUPTED
    assert re.search(r"64 .*frame/s +\[.*(stopped early|device)", output), output
    assert "the throughput so far is" in output and f"vnetbench resume {path}" in " ".join(output.split())
