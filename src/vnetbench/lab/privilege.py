"""Acquires the right to build networks: as root, or inside a user namespace of the user's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.study.factors.registry import FACTORS

USER_NAMESPACE_ENV = "VNETBENCH_IN_USER_NAMESPACE"
WORKING_FOLDER_ENV = "VNETBENCH_FOLDER"
"""Environment variable that holds the user's working folder."""
UNSHARE_COMMAND = ("unshare", "--user", "--map-root-user", "--mount", "--net")
USER_NAMESPACE_LIMITS = (
    "without root, the lab runs in a user namespace. These factors and counters are not available: "
    f"{', '.join(factor.name for factor in FACTORS.values() if factor.needs_root)}, and hardware "
    "counters of the whole host (cycles are estimated from CPU time)."
)


def has_root_outside_user_namespace() -> bool:
    """Whether this process is root outside any user namespace of ours."""
    return os.geteuid() == 0 and USER_NAMESPACE_ENV not in os.environ


def is_in_user_namespace() -> bool:
    """Whether this process runs in a user namespace that the bench created."""
    return USER_NAMESPACE_ENV in os.environ


def acquire_network_rights() -> None:
    """Continue as root, or restart this program inside a new user namespace.

    What is built in the user namespace is removed when the process ends.

    Raises:
        BenchError: if this user may not create user namespaces.
    """
    if has_root_outside_user_namespace():
        return
    if is_in_user_namespace():
        mount_private_run()
        return
    check_user_namespaces()
    _replace_process_by_prefixed_bench(UNSHARE_COMMAND, {})


def restart_in_namespaces(pid: int, environment: Mapping[str, str]) -> None:
    """Restart this program inside the namespaces of process `pid`, with `environment` added."""
    namespaces = ("--preserve-credentials", "--user", "--mount", "--net", "--target", str(pid))
    _replace_process_by_prefixed_bench(("nsenter", f"--wd={Path.cwd()}", *namespaces), environment)


def restore_working_folder() -> None:
    """Return to the user's working folder, whose path nsenter may have changed."""
    os.chdir(os.environ.get(WORKING_FOLDER_ENV, "/"))


def check_user_namespaces() -> None:
    """Raise BenchError if this user cannot create a user namespace with its own network."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        raise BenchError("unshare and nsenter are missing", fix="apt-get install util-linux")
    probe = subprocess.run(
        [*UNSHARE_COMMAND, "ip", "link", "add", "vnbprobe0", "type", "bridge"], capture_output=True, text=True
    )
    if probe.returncode != 0:
        raise BenchError(
            f"this user may not create user namespaces ({probe.stderr.strip() or 'no reason given'})",
            fix="run with sudo, or allow them: sysctl -w kernel.unprivileged_userns_clone=1 "
            "kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000 "
            "(skip those that your kernel lacks); in a container, the seccomp profile must allow unshare",
        )


def _replace_process_by_prefixed_bench(prefix: tuple[str, ...], added_environment: Mapping[str, str]) -> None:
    environment = {
        **os.environ,
        USER_NAMESPACE_ENV: "1",
        WORKING_FOLDER_ENV: str(Path.cwd()),
        **added_environment,
    }
    # -P: Python must not import modules from the user's folder.
    command = [*prefix, sys.executable, "-P", "-m", "vnetbench", *sys.argv[1:]]
    sys.stdout.flush()
    os.execvpe(command[0], command, environment)


def mount_private_run() -> None:
    """Mount a private /run for namespaces and the registry, since the machine's belongs to root."""
    if Path("/run").stat().st_uid == os.getuid():
        return  # The parent process has mounted one already.
    run = subprocess.run(["mount", "-t", "tmpfs", "vnetbench-run", "/run"], capture_output=True, text=True)
    if run.returncode != 0:
        raise BenchError(
            f"cannot mount a private /run for the lab: {run.stderr.strip()}", fix="run with sudo"
        )
