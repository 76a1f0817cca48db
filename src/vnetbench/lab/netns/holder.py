"""The process that keeps the testbeds of a user without root: its namespaces live as long as it does."""

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
from vnetbench.lab.privilege import INSIDE, UNSHARE, own_run_directory
from vnetbench.lab.user_cache import cache_folder
from vnetbench.process import is_alive, this_process

FILE = "VNETBENCH_HOLDER_FILE"
"""Environment: where the holder is written down. Inside its namespaces the user has another home."""
TIMEOUT_S = 10.0


def holder_file() -> Path:
    """Where the holder of this user is written down; raises BenchError where there is no place for it."""
    if FILE in os.environ:
        return Path(os.environ[FILE])
    return cache_folder("", "write down who keeps the lab") / "lab-holder.json"


def find() -> int | None:
    """The holder's process id; None when there is none."""
    try:
        identity = str(json.loads(holder_file().read_text()))
    except (OSError, ValueError):
        return None
    return int(identity.split(":")[0]) if is_alive(identity) else None


def find_or_begin() -> int:
    """The holder's process id; it is started when there is none. Raises BenchError when it does not start."""
    with _only_one():
        return find() or _begin()


def end() -> None:
    """End the holder, and with it all that it keeps."""
    if pid := find():
        holder_file().unlink(missing_ok=True)
        os.kill(pid, signal.SIGTERM)


def hold() -> None:
    """What the holder does: keep the namespaces until it is ended. The module is run for it."""
    own_run_directory()
    holder_file().write_text(json.dumps(this_process()))
    while True:
        time.sleep(3600)


@contextmanager
def _only_one() -> Iterator[None]:
    """Two commands at once must not begin two holders."""
    with holder_file().with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _begin() -> int:
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*UNSHARE, sys.executable, "-P", "-m", "vnetbench.lab.netns.holder"],
            env={**os.environ, INSIDE: "1", FILE: str(holder_file())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            if pid := find():
                return pid
            time.sleep(0.02)
        said.seek(0)
        last = (said.read().strip().splitlines() or ["no reason given"])[-1]
    raise BenchError(f"the process that keeps the lab did not start: {last}", fix="run with sudo")


if __name__ == "__main__":
    hold()
