"""What the bench has put on which host: kept by the user who did, so that it is found again and removed."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.hosts import deployment, ssh
from vnetbench.lab.registry import whole_file
from vnetbench.process import is_alive, this_process


@dataclass(frozen=True)
class Left:
    """An agent's folder on a host, in use or left over."""

    folder: str
    """Its name; where it stands is the host's to say."""
    host: str
    """What the study calls the host."""
    destination: str
    """How ssh reaches it; empty for the machine of the bench."""
    testbed: str
    purpose: str
    """What it was made for, in words."""
    owner: str
    """Identity of the process that uses it."""

    @property
    def in_use(self) -> bool:
        """Whether the process that uses it is alive."""
        return is_alive(self.owner)

    @property
    def is_ours(self) -> bool:
        """Whether this process put it there."""
        return self.owner == this_process()

    def __str__(self) -> str:
        return f"{self.folder} on {self.host}" + (f" (ssh {self.destination})" if self.destination else "")


def register(folder: str, host: str, destination: str, testbed: str, purpose: str) -> Left:
    """Write down what is about to be put on a host; raises BenchError where nothing can be kept."""
    left = Left(folder, host, destination, testbed, purpose, this_process())
    directory = _directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with whole_file(directory, asdict(left)) as whole:
            os.link(whole, directory / f"{folder}.json")
    except OSError as error:
        raise BenchError(
            f"what is put on hosts cannot be written down: {error.strerror}",
            where=str(directory),
            fix="make it writable, or name another folder in XDG_STATE_HOME",
        ) from error
    return left


def forget(left: Left) -> None:
    """It is gone from the host."""
    (_directory() / f"{left.folder}.json").unlink(missing_ok=True)


def entries() -> list[Left]:
    """All that is on hosts, by this user's benches on this machine."""
    found = []
    for path in sorted(_directory().glob("*.json")):
        with suppress(OSError, ValueError, TypeError):  # removed meanwhile, or not ours
            left = Left(**json.loads(path.read_text()))
            # Folders of this name are removed on hosts: one that is not of our making must not get that far.
            if left.folder == path.stem and left.folder.startswith(f"{deployment.FOLDER_PREFIX}-"):
                found.append(left)
    return found


def clean(left: Left) -> None:
    """Connect again, put back what was set, and remove the folder; raises BenchError where that fails."""
    if left.destination:
        machine: ssh.Machine = ssh.connect(left.host, left.destination, left.testbed)
    else:
        machine = ssh.this_machine(left.host, left.testbed)
    try:
        deployment.remove(machine, left.folder)
    finally:
        machine.close()
    forget(left)


def _directory() -> Path:
    # Not /run: a host outlives a reboot of this machine, and users without root have hosts too.
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "vnetbench/hosts"
