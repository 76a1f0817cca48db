"""The right to build networks: root's, or that of a user inside a user namespace of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.process import is_alive, this_process

INSIDE = "VNETBENCH_IN_USER_NAMESPACE"
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--net")
COST = (
    "no root: the lab lives in a user namespace. Not possible there: irq_cpus; hardware counters of the "
    "whole host (cycles come from CPU time)."
)
HOLDER_TIMEOUT_S = 10.0


def has_root() -> bool:
    """Whether this process is root on the machine itself."""
    return os.geteuid() == 0 and INSIDE not in os.environ


def is_inside() -> bool:
    """Whether this process is in a user namespace that we made."""
    return INSIDE in os.environ


def enter_for_run() -> None:
    """Go on with the right to build networks: as root at once, else by starting again in a user namespace.

    Everything built there ends with the process. Raises BenchError where user namespaces are refused.
    """
    if has_root():
        return
    if is_inside():
        _own_run_directory()
        return
    check_user_namespaces()
    _start_again(UNSHARE)


def enter_for_lab(*, begin: bool) -> bool:
    """The same for `lab` commands, whose testbeds outlive them: without root a holder process keeps them.

    Returns False when nobody holds a lab and `begin` is false: there is none to look at.
    """
    if has_root():
        return True
    if is_inside():
        return True
    holder = _holder()
    if holder is None:
        if not begin:
            return False
        check_user_namespaces()
        holder = _begin_holder()
    pid = holder.split(":")[0]
    _start_again(("nsenter", "--preserve-credentials", "--user", "--mount", "--net", "--target", pid))
    return True


def check_user_namespaces() -> None:
    """Raise BenchError when this user cannot have a user namespace with a network of its own."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        raise BenchError("unshare and nsenter are missing", fix="apt-get install util-linux")
    probe = subprocess.run(
        [*UNSHARE, "ip", "link", "add", "vnbprobe0", "type", "bridge"], capture_output=True, text=True
    )
    if probe.returncode != 0:
        raise BenchError(
            f"user namespaces are refused to this user ({probe.stderr.strip() or 'no reason given'})",
            fix="run with sudo, or allow them: sysctl -w kernel.unprivileged_userns_clone=1 "
            "kernel.apparmor_restrict_unprivileged_userns=0 (those of the two that your kernel has)",
        )


def hold() -> None:
    """What the holder process does: keep the namespaces until it is ended. Run as `python -m … hold`."""
    _own_run_directory()
    _holder_file().parent.mkdir(parents=True, exist_ok=True)
    _holder_file().write_text(json.dumps(this_process()))
    while True:
        time.sleep(3600)


def end_holder() -> None:
    """End the holder, from outside or inside, once no testbed is left in it."""
    holder = _holder()
    if holder:
        _holder_file().unlink(missing_ok=True)
        os.kill(int(holder.split(":")[0]), 15)


def _start_again(prefix: tuple[str, ...]) -> None:
    environment = {**os.environ, INSIDE: "1"}
    command = [*prefix, sys.executable, "-m", "vnetbench", *sys.argv[1:]]
    sys.stdout.flush()
    os.execvpe(command[0], command, environment)


def _own_run_directory() -> None:
    """A /run of our own, for namespaces and the registry: the machine's is root's."""
    if os.access("/run", os.W_OK):
        return  # what started us has mounted one already
    run = subprocess.run(["mount", "-t", "tmpfs", "vnetbench-run", "/run"], capture_output=True, text=True)
    if run.returncode != 0:
        raise BenchError(f"no /run of its own for the lab: {run.stderr.strip()}", fix="run with sudo")


def _holder_file() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "vnetbench" / "lab-holder.json"


def _holder() -> str | None:
    try:
        identity = str(json.loads(_holder_file().read_text()))
    except (OSError, ValueError):
        return None
    return identity if is_alive(identity) else None


def _begin_holder() -> str:
    subprocess.Popen(
        [*UNSHARE, sys.executable, "-m", "vnetbench.lab.privilege", "hold"],
        env={**os.environ, INSIDE: "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + HOLDER_TIMEOUT_S
    while time.monotonic() < deadline:
        if holder := _holder():
            return holder
        time.sleep(0.02)
    raise BenchError("the process that keeps the lab did not start", fix="run with sudo")


if __name__ == "__main__":
    hold()
