"""tools/prepare announces what it installs, and removes its policy file however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PREPARE = Path(__file__).parents[2] / "tools/prepare"
MISSING = "a-program-that-no-package-has"
TIMEOUT_S = 60.0
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
APT_GET = """#!/bin/sh
echo "$@" >>{folder}/apt-get.log
[ "$1" = install ] || exit 0
ls {folder}/sbin >{folder}/during
touch {folder}/installing
while [ ! -e {folder}/go-on ]; do sleep 0.02; done
exit {status}
"""


def start_prepare(folder: Path, status: int = 0, **environment: str) -> subprocess.Popen[str]:
    """Start tools/prepare with a simulated apt-get, and with `folder/sbin` as the machine's /usr/sbin."""
    (folder / "sbin").mkdir(exist_ok=True)
    (folder / "bin").mkdir()
    (folder / "bin/apt-get").write_text(APT_GET.format(folder=folder, status=status))
    (folder / "bin/apt-get").chmod(0o755)
    script = 'mount --bind "$0" /usr/sbin && exec "$@"'
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, folder / "sbin", PREPARE, MISSING],
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_let_signals_end,
    )


def _let_signals_end() -> None:
    """Undo what nohup does: a shell cannot trap a signal that its parent ignores."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never appears"
        time.sleep(0.02)


def finish(folder: Path, running: subprocess.Popen[str]) -> tuple[str, str]:
    (folder / "go-on").touch()
    return running.communicate(timeout=TIMEOUT_S)


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in (folder / "sbin").iterdir()]


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_signal_leaves_no_policy_file_behind(tmp_path: Path, number: signal.Signals) -> None:
    running = start_prepare(tmp_path)
    wait_for(tmp_path / "installing")
    assert left_behind(tmp_path) == ["policy-rc.d"]
    running.send_signal(number)
    finish(tmp_path, running)
    assert left_behind(tmp_path) == []
    assert running.returncode == 128 + number


def test_a_failed_installation_leaves_no_policy_file_behind(tmp_path: Path) -> None:
    running = start_prepare(tmp_path, status=100)
    finish(tmp_path, running)
    assert (tmp_path / "during").read_text() == "policy-rc.d\n"
    assert left_behind(tmp_path) == []
    assert running.returncode == 100


def test_the_policy_file_of_a_killed_run_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    killed = start_prepare(tmp_path / "killed")
    wait_for(tmp_path / "killed/installing")
    killed.kill()
    finish(tmp_path / "killed", killed)
    assert left_behind(tmp_path / "killed") == ["policy-rc.d"]
    (tmp_path / "killed/sbin").rename(tmp_path / "sbin")
    finish(tmp_path, start_prepare(tmp_path))
    assert left_behind(tmp_path) == []


def test_the_policy_file_of_the_machine_stays(tmp_path: Path) -> None:
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/policy-rc.d").write_text("#!/bin/sh\nexit 0\n")
    finish(tmp_path, start_prepare(tmp_path))
    assert (tmp_path / "sbin/policy-rc.d").read_text() == "#!/bin/sh\nexit 0\n"


def test_the_command_is_announced_before_it_runs(tmp_path: Path) -> None:
    running = start_prepare(tmp_path)
    output, _ = finish(tmp_path, running)
    updated, installed = (tmp_path / "apt-get.log").read_text().splitlines()
    assert updated == "update -qq"
    assert MISSING in installed
    assert f"apt-get {installed}" in output


def test_nothing_is_installed_against_the_wish_of_the_user(tmp_path: Path) -> None:
    running = start_prepare(tmp_path, VNETBENCH_INSTALL="no")
    _, errors = finish(tmp_path, running)
    assert running.returncode == 1
    assert f"fix: sudo apt-get install -y --no-install-recommends {MISSING}" in errors
    assert not (tmp_path / "apt-get.log").exists()
