"""Commands at low priority: their share of the CPUs, their exit status, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

AT_LOW_PRIORITY = str(Path(__file__).parents[2] / "tools/at_low_priority.py")
TIMEOUT_S = 60.0
WAIT_FOREVER = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"


def test_a_command_has_the_lowest_priority_and_a_session_of_its_own() -> None:
    script = "ps -o sid=,ni= -p $$; cat /proc/self/autogroup 2>/dev/null; exit 7"
    done = subprocess.run([AT_LOW_PRIORITY, "sh", "-c", script], capture_output=True, text=True)
    session, nice, *autogroup = done.stdout.split()
    assert (done.returncode, nice) == (7, "19")
    assert int(session) != os.getsid(0)
    # Kernels without autogroups have no such file.
    assert autogroup[1:] in ([], ["nice", "19"])


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 9), (signal.SIGTERM, 9), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_the_command_too(number: signal.Signals, status: int) -> None:
    command = [AT_LOW_PRIORITY, "sh", "-c", WAIT_FOREVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            process.send_signal(number)
            assert process.wait(TIMEOUT_S) == status
            # The pipe closes when the last process that may write to it has ended.
            assert process.stdout.read() == ""
        finally:
            process.kill()


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.1])
def test_a_signal_during_the_start_leaves_no_command_behind(delay_s: float) -> None:
    command = [AT_LOW_PRIORITY, "sleep", str(TIMEOUT_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            time.sleep(delay_s)
            process.send_signal(signal.SIGTERM)
            # Before the program has blocked the signal, it ends like any other program.
            assert process.wait(TIMEOUT_S / 2) in (128 + signal.SIGTERM, -signal.SIGTERM)
            assert process.stdout.read() == ""
        finally:
            process.kill()


def test_a_command_can_be_interrupted() -> None:
    done = subprocess.run([AT_LOW_PRIORITY, "sh", "-c", "kill -INT $$"], timeout=TIMEOUT_S)
    assert done.returncode == 128 + signal.SIGINT
