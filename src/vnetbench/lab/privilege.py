"""The right to build networks: root's, or that of a user inside a user namespace of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from vnetbench.errors import BenchError

INSIDE = "VNETBENCH_IN_USER_NAMESPACE"
FOLDER = "VNETBENCH_FOLDER"
"""Environment: the user's folder."""
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--net")
COST = (
    "no root: the lab lives in a user namespace. Not possible there: irq_cpus; cpu_quota; hardware counters "
    "of the whole host (cycles come from CPU time)."
)


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
        own_run_directory()
        return
    check_user_namespaces()
    _start_again(UNSHARE, {})


def enter(pid: int, environment: Mapping[str, str]) -> None:
    """Start again inside the namespaces of process `pid`, with `environment` added."""
    namespaces = ("--preserve-credentials", "--user", "--mount", "--net", "--target", str(pid))
    _start_again(("nsenter", f"--wd={Path.cwd()}", *namespaces), environment)


def return_to_folder() -> None:
    """Go to the user's folder, which nsenter may have left under another name."""
    os.chdir(os.environ.get(FOLDER, "/"))


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
            "kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000 "
            "(those that it has); in a container, its seccomp profile must allow unshare",
        )


def _start_again(prefix: tuple[str, ...], added: Mapping[str, str]) -> None:
    environment = {**os.environ, INSIDE: "1", FOLDER: str(Path.cwd()), **added}
    # -P: nothing in the user's folder is taken for a module of ours.
    command = [*prefix, sys.executable, "-P", "-m", "vnetbench", *sys.argv[1:]]
    sys.stdout.flush()
    os.execvpe(command[0], command, environment)


def own_run_directory() -> None:
    """A /run of our own, for namespaces and the registry: the machine's is root's."""
    if Path("/run").stat().st_uid == os.getuid():
        return  # what started us has mounted one already
    run = subprocess.run(["mount", "-t", "tmpfs", "vnetbench-run", "/run"], capture_output=True, text=True)
    if run.returncode != 0:
        raise BenchError(f"no /run of its own for the lab: {run.stderr.strip()}", fix="run with sudo")
