"""The background process that holds the namespaces of testbeds for a user without root."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.privilege import UNSHARE_COMMAND, USER_NAMESPACE_ENV, mount_private_run
from vnetbench.lab.user_cache import cache_folder
from vnetbench.process import is_process_alive, read_own_process_identity

HOLDER_FILE_ENV = "VNETBENCH_HOLDER_FILE"
"""Environment variable with the holder file's path. Inside the user namespace HOME may differ."""
START_TIMEOUT_S = 10.0


def holder_file() -> Path:
    """Return the file that identifies this user's holder; raises BenchError if its folder is not writable."""
    if HOLDER_FILE_ENV in os.environ:
        return Path(os.environ[HOLDER_FILE_ENV])
    return cache_folder("", "record the process that holds the lab") / "lab-holder.json"


def find_holder() -> int | None:
    """Return the holder's process id; None if it does not run."""
    try:
        identity = str(json.loads(holder_file().read_text()))
    except (OSError, ValueError):
        return None
    return int(identity.split(":")[0]) if is_process_alive(identity) else None


def find_or_start_holder() -> int:
    """Return the holder's process id, and start it if needed; raises BenchError if it does not start."""
    with _start_lock():
        return find_holder() or _start_holder()


def stop_holder() -> None:
    """Stop the holder, which removes all that it holds."""
    if pid := find_holder():
        holder_file().unlink(missing_ok=True)
        os.kill(pid, signal.SIGTERM)


def hold_namespaces() -> None:
    """Hold the namespaces until the process is terminated. The holder's process runs this."""
    mount_private_run()
    holder_file().write_text(json.dumps(read_own_process_identity()))
    while True:
        time.sleep(3600)


@contextmanager
def _start_lock() -> Iterator[None]:
    """Lock the start, so that two commands at once do not start two holders."""
    with holder_file().with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start_holder() -> int:
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*UNSHARE_COMMAND, sys.executable, "-P", "-m", "vnetbench.lab.netns.holder"],
            env={**os.environ, USER_NAMESPACE_ENV: "1", HOLDER_FILE_ENV: str(holder_file())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            if pid := find_holder():
                return pid
            time.sleep(0.02)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["it gave no reason"])[-1]
    raise BenchError(f"the process that holds the lab did not start: {last}", fix="run with sudo")


if __name__ == "__main__":
    hold_namespaces()
