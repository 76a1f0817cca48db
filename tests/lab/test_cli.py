"""Tests of the command line: a testbed by hand, and the live display of a campaign in a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import bench_process as bench
from vnetbench.lab import netlink, registry

pytestmark = pytest.mark.lab


def test_lab_commands_create_use_and_remove_a_testbed() -> None:
    code, output = bench.run("lab", "up", "t-cli", "--set", "mtu=9000", "--set", "pairs=2")
    assert code == 0, output
    try:
        assert "(the MTU) pass in both directions" in output
        assert "10.77.2.2" in output
        assert "t-cli" in bench.run("lab", "ls")[1]
        code, output = bench.run("lab", "exec", "t-cli", "a2", "--", "ip", "-br", "address", "show", "eth0")
        assert (code, "10.77.1.2/16" in output) == (0, True)
        assert bench.run("lab", "exec", "t-cli", "a1", "--", "false")[0] == 1
        code, output = bench.run("lab", "exec", "t-cli", "c9", "true")
        assert code == 2
        assert "only a1, a2, b1, b2, sw" in output
        assert bench.run("lab", "up", "t-cli")[0] == 2
        background = bench.start("lab", "exec", "t-cli", "b1", "--", "sleep", "600")
        while not registry.testbed_pids("t-cli"):
            assert background.poll() is None
    finally:
        code, _ = bench.run("lab", "down", "t-cli")
    assert code == 0
    background.communicate(timeout=bench.PATIENCE_S)
    assert registry.testbed_pids("t-cli") == []
    assert not [n for n in netlink.list_namespaces() if n.startswith("vnb.t-cli.")]


def test_the_live_table_restores_the_terminal(tmp_path: Path) -> None:
    study = bench.write_study(tmp_path, bench.STUDY.replace("0.1 %", "60 %"))
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "vnetbench", "run", str(study), "-o", str(tmp_path / "r.vnb")],
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"},
    )  # fmt: skip
    os.close(terminal)
    display = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:
            break
        display += part
    assert process.wait(timeout=bench.PATIENCE_S) == 0
    text = display.decode()
    assert "left" in text
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "vnetbench report" in text
