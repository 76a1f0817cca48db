"""Snapshots of a sandboxed QEMU: the bench passes open files, because QEMU may start no program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from vnetbench.lab.guest import cache
from vnetbench.lab.guest.hardware import QemuRuntimeFiles
from vnetbench.lab.guest.qemu import SANDBOX_OPTIONS, find_qemu
from vnetbench.lab.guest.qemu_process import QemuProcess
from vnetbench.lab.guest.qmp import MonitorError
from vnetbench.lab.guest.snapshot import resume_snapshot, save_snapshot


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def start_machine(folder: Path, name: str, *more: str) -> QemuProcess:
    """Start a machine without a kernel, sandboxed as guests are."""
    files = QemuRuntimeFiles(folder, name)
    command = [
        find_qemu().path, "-sandbox", SANDBOX_OPTIONS, "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", "q35", "-accel", "tcg", "-m", "64M",
        "-chardev", f"socket,id=monitor,path={files.monitor_socket},server=on,wait=off",
        "-mon", "monitor,mode=control", *more,
    ]  # fmt: skip
    return QemuProcess(command, files, "test-snapshot")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[QemuProcess]:
    process = start_machine(tmp_path, "saved")
    yield process
    process.close()


def test_a_sandboxed_machine_is_saved_and_resumed(tmp_path: Path, machine: QemuProcess) -> None:
    path = cache.cache_subfolder("snapshots") / "x.state"
    save_snapshot(machine, path)
    assert path.stat().st_size > 0 and path.stat().st_mode & 0o077 == 0
    resumed = start_machine(tmp_path, "resumed", "-incoming", "defer")
    try:
        resume_snapshot(resumed, path)
        assert resumed.query("query-status")["status"] == "running"
    finally:
        resumed.close()


def test_the_filter_is_active_and_qemu_starts_no_program(tmp_path: Path, machine: QemuProcess) -> None:
    status = Path(f"/proc/{machine.pid}/status").read_text()
    assert re.search(r"^Seccomp:\t2$", status, re.MULTILINE)  # 2: a filter (proc(5))
    proof = tmp_path / "proof"
    machine.monitor.execute("stop")
    with suppress(MonitorError):  # QEMU may refuse, or die of the system call
        machine.monitor.execute("migrate", uri=f"exec:touch {proof}; cat > /dev/null")
    machine.close()
    assert not proof.exists()
