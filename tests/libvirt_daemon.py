"""A libvirt daemon of a test's own: its files vanish with it, and it sees no domain of the machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 120.0
_FOLDERS = ("/etc/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt")
"""Folders that the daemon writes to. It gets empty ones of its own."""
_DAEMON_SETTINGS = """\
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_group = "root"
unix_sock_dir = "{sockets}"
"""
_QEMU_SETTINGS = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""

needs_libvirt = pytest.mark.skipif(
    shutil.which("libvirtd", path="/usr/sbin:/usr/bin:/sbin") is None,
    reason="needs libvirtd (tools/prepare libvirt)",
)


class LibvirtDaemon:
    """A running daemon. `run_daemon` makes it."""

    def __init__(self, process: subprocess.Popen[bytes], sockets: Path) -> None:
        self.process = process
        self.sockets = sockets
        """Folder of the sockets, instead of /run/libvirt."""
        self.uri = f"qemu+unix:///system?socket={sockets}/libvirt-sock"
        self.read_only_uri = f"{self.uri}-ro"

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Connect with all rights."""
        libvirt = pytest.importorskip("libvirt")
        connection = libvirt.open(self.uri)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def run_daemon(folder: Path, namespace: str = "") -> Iterator[LibvirtDaemon]:
    """Run a daemon with its files in new file systems of its own, and end it with its domains.

    Its bridges and taps are in the network namespace, if one is given.
    """
    sockets = folder / "sockets"
    sockets.mkdir()
    settings = folder / "libvirtd.conf"
    settings.write_text(_DAEMON_SETTINGS.format(sockets=sockets))
    qemu_settings = folder / "qemu.conf"
    qemu_settings.write_text(_QEMU_SETTINGS)
    mounts = " && ".join(f"mkdir -p {path} && mount -t tmpfs own {path}" for path in _FOLDERS)
    script = (
        f"{mounts} && cp {qemu_settings} /etc/libvirt/qemu.conf"
        f" && exec libvirtd --config {settings} --pid-file {folder}/libvirtd.pid"
    )
    inside = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
    with (folder / "libvirtd.log").open("wb") as log:
        process = subprocess.Popen(
            [*inside, "unshare", "--mount", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        )  # fmt: skip
    daemon = LibvirtDaemon(process, sockets)
    try:
        _wait_until_ready(daemon, folder / "libvirtd.log")
        yield daemon
    finally:
        _end(daemon)


def _wait_until_ready(daemon: LibvirtDaemon, log: Path) -> None:
    libvirt = pytest.importorskip("libvirt")
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            libvirt.open(daemon.uri).close()
            return
        except libvirt.libvirtError:
            assert daemon.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


def _end(daemon: LibvirtDaemon) -> None:
    libvirt = pytest.importorskip("libvirt")
    try:
        with suppress(libvirt.libvirtError), daemon.connection() as connection:
            for domain in connection.listAllDomains():
                with suppress(libvirt.libvirtError):
                    domain.destroy()
    finally:
        daemon.process.send_signal(signal.SIGTERM)
        try:
            daemon.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            daemon.process.kill()
            daemon.process.wait()
