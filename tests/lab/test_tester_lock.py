"""Tests of the tester lock: a second tester is refused until the first has ended in any way."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab import registry
from vnetbench.lab.tester_lock import hold_tester_lock

HOLDER = """\
import sys, time
from pathlib import Path
from vnetbench.lab import registry
from vnetbench.lab.tester_lock import hold_tester_lock
registry.REGISTRY_FOLDER = Path(sys.argv[1])
with hold_tester_lock():
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_second_tester_is_refused_until_the_first_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "REGISTRY_FOLDER", tmp_path / "testbeds")
    with hold_tester_lock():
        pass
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(registry.REGISTRY_FOLDER)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        with pytest.raises(BenchError, match="another campaign with frames runs"), hold_tester_lock():
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with hold_tester_lock():
        pass
    assert list(registry.REGISTRY_FOLDER.iterdir()) == []
