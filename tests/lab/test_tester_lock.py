"""Testers of frames on one machine: a second one is told to wait, until the first has ended somehow."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab import registry
from vnetbench.lab.tester_lock import hold_tester_lock

OTHER = """\
import sys, time
from pathlib import Path
from vnetbench.lab import registry
from vnetbench.lab.tester_lock import only_tester
registry.DIRECTORY = Path(sys.argv[1])
with only_tester():
    print("holds it", flush=True)
    time.sleep(600)
"""


def test_a_second_tester_is_refused_until_the_first_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "DIRECTORY", tmp_path / "testbeds")
    with hold_tester_lock():
        pass
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(registry.REGISTRY_DIR)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "holds it\n"
        with pytest.raises(BenchError, match="another campaign of frames is at work"), hold_tester_lock():
            pass
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    with hold_tester_lock():
        pass
    assert list(registry.REGISTRY_DIR.iterdir()) == []
