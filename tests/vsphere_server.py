"""govmomi's simulator of vCenter as a real server for tests (tests/vsphere_simulator/main.go)."""

from __future__ import annotations

import fcntl
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from vnetbench.lab.vsphere.address import parse_address
from vnetbench.lab.vsphere.password import PASSWORD_VARIABLE
from vnetbench.lab.vsphere.session import open_session, read_thumbprint

USER, PASSWORD = "audit", "s3cret"
VM_COUNT = 12
SOURCE = ROOT / "tests" / "vsphere_simulator"
GO_OUTSIDE_PATH = Path("/usr/local/go/bin/go")
"""Where Go's own archive is unpacked (Go's installation page)."""


@dataclass(frozen=True)
class VsphereServer:
    """A running simulator."""

    host_port: str

    @property
    def unverified_address(self) -> str:
        """The address without a way to verify the certificate, which no authority has signed."""
        return f"vsphere://{USER}@{self.host_port}/"

    @property
    def address(self) -> str:
        """The address with the thumbprint of the certificate."""
        return (
            f"{self.unverified_address}?thumbprint={read_thumbprint(parse_address(self.unverified_address))}"
        )

    def certificate(self) -> str:
        """Return the certificate as PEM."""
        host, _, port = self.host_port.rpartition(":")
        return ssl.get_server_certificate((host, int(port)))

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Yield the content of a session that may change the inventory."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PASSWORD_VARIABLE, PASSWORD)
            with open_session(parse_address(self.address)) as content:
                yield content

    def count_sessions(self) -> int:
        """Return the number of sessions besides the one that counts."""
        with self.session() as content:
            return len(content.sessionManager.sessionList) - 1


def build_simulator() -> Path:
    """Build the simulator, or take the one that is built; skip the test only if Go is missing."""
    go = shutil.which("go") or (str(GO_OUTSIDE_PATH) if GO_OUTSIDE_PATH.exists() else None)
    if go is None:
        pytest.skip("Go is not installed, so the simulator of vCenter cannot be built")
    program = ROOT / "target" / "vsphere-simulator"
    program.parent.mkdir(exist_ok=True)
    with (program.parent / "vsphere-simulator.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([go, "build", "-o", str(program), "."], cwd=SOURCE, check=True)
    return program


@contextmanager
def running_server(folder: Path, network: Mapping[str, Any] | None = None) -> Iterator[VsphereServer]:
    """Yield a simulator with one host and twelve VMs.

    Args:
        folder: For a file with the settings.
        network: Network settings that replace those of the host, in govmomi's JSON.
    """
    command = [str(build_simulator())]
    if network is not None:
        path = folder / "network.json"
        path.write_text(json.dumps(network))
        command.append(str(path))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield VsphereServer(process.stdout.readline().strip())
        finally:
            process.stdin.close()


def list_vms(content: Any) -> list[Any]:
    """Return all VMs, by name."""
    from pyVmomi import vim

    view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
    return sorted(view.view, key=lambda vm: str(vm.name))


def reconfigure(vm: Any, spec: Any) -> None:
    """Change a VM and wait until the change is made."""
    finish(vm.ReconfigVM_Task(spec))


def finish(task: Any) -> None:
    """Wait for a task that must succeed."""
    while task.info.state in ("queued", "running"):
        time.sleep(0.01)
    assert task.info.state == "success", task.info.error
