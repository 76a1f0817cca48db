"""Real injections: they have an effect, and nothing of them stays, even after a kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.redteam import campaign, groups
from bench.redteam.causes import BY_ID
from bench.redteam.model import Run, Shape
from bench.redteam.target import descendants, testbed_namespaces

pytestmark = [
    pytest.mark.lab,
    pytest.mark.alone,
    pytest.mark.usefixtures("real_root"),
    pytest.mark.skipif(shutil.which("tc") is None, reason="needs tc"),
]
BACKLOG = Path("/proc/sys/net/core/netdev_max_backlog")
COMMAND = (sys.executable, "-m", "bench.redteam")
START_TIMEOUT_S = 60
END_TIMEOUT_S = 60
NEEDED_REAL_TIME_US = 750_000
"""The injected real-time program runs for 700,000 µs of each second."""
"""The kernel ends the processes of a killed parent; they stay visible until they are reaped."""


def _own_groups() -> list[Path]:
    return [
        path for path in groups.CGROUPS.glob(f"*/{groups.PREFIX}{os.getpid()}*") if path.is_dir()
    ]  # fmt: skip


def _skip_without_real_time_scheduling() -> None:
    """Skip where the machine refuses it, such as in a CPU control group with `cpu.rt_runtime_us` 0."""
    tried = subprocess.run(("chrt", "-f", "30", "true"), capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"this machine refuses real-time scheduling: {tried.stderr.strip()}")
    free_us = groups.free_real_time_us()
    if free_us is not None and free_us < NEEDED_REAL_TIME_US:
        pytest.skip(f"other control groups leave {free_us} µs of real-time budget")


@pytest.mark.parametrize("cause", ["tbf-sender", "quota-sender", "hog-realtime"])
def test_an_injection_has_an_effect_and_goes_away(cause: str, tmp_path: Path) -> None:
    if cause == "hog-realtime":
        _skip_without_real_time_scheduling()
    before = set(descendants(os.getpid()))
    lines: list[str] = []
    runs = campaign.Campaign(tmp_path, "check", lines.append, time.monotonic() + 120, trials=1)
    chosen = BY_ID[cause]
    assert runs.run_block([Run(chosen, 2, Shape(1), chosen.loads[0], chosen.vswitches[0])])
    (label,) = [each for each in campaign.read_labels(tmp_path / "check") if not each.is_control]
    assert label.error == ""
    assert label.injected
    assert label.effect == "effect", lines
    assert testbed_namespaces() == {}
    assert _own_groups() == []
    assert set(descendants(os.getpid())) <= before


def test_clean_undoes_what_a_killed_run_left(tmp_path: Path) -> None:
    before = BACKLOG.read_text()
    part = BY_ID["backlog"].part
    arguments = ("run", "--cause", "backlog", "--part", part, "--shapes", "1", "--store", str(tmp_path))
    killed = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while BACKLOG.read_text() == before:
            assert killed.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        left = descendants(killed.pid)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    cleaned = subprocess.run([*COMMAND, "clean"], capture_output=True, text=True, check=True)
    assert "netdev_max_backlog" in cleaned.stdout
    assert BACKLOG.read_text() == before
    assert testbed_namespaces() == {}
    deadline = time.monotonic() + END_TIMEOUT_S
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if Path(f"/proc/{pid}").exists()]
        time.sleep(0.05)
    assert left == []
