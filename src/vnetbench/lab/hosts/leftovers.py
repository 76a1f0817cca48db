"""Records what the bench puts on hosts, so that it can be found and removed after a crash."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from platformdirs import user_state_path

from vnetbench.errors import BenchError
from vnetbench.lab.hosts import deployment, ssh
from vnetbench.lab.registry import write_temporary_file
from vnetbench.process import ProcessIdentity, is_process_alive, read_own_process_identity


@dataclass(frozen=True)
class AgentFolderRecord:
    """The agent's folder on a host, in use or left over."""

    folder: str
    """Folder name. The host decides in which parent it is."""
    host: str
    """The host's name in the study."""
    destination: str
    """SSH destination; empty for the bench's own machine."""
    testbed: str
    purpose: str
    """Why it was created, as a phrase for people."""
    owner: ProcessIdentity
    """The process that uses the folder."""

    @property
    def is_in_use(self) -> bool:
        """Whether the owner is running."""
        return is_process_alive(self.owner)

    @property
    def is_own(self) -> bool:
        """Whether this process is the owner."""
        return self.owner == read_own_process_identity()

    def __str__(self) -> str:
        return f"{self.folder} on {self.host}" + (f" (ssh {self.destination})" if self.destination else "")


def record_agent_folder(
    folder: str, host: str, destination: str, testbed_name: str, purpose: str
) -> AgentFolderRecord:
    """Record a folder that is about to be created on a host; raises BenchError if that fails."""
    record = AgentFolderRecord(folder, host, destination, testbed_name, purpose, read_own_process_identity())
    directory = _agent_folder_records_folder()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with write_temporary_file(directory, asdict(record)) as path:
            os.link(path, directory / f"{folder}.json")
    except OSError as error:
        raise BenchError(
            f"cannot record the files that the bench copies to hosts: {error.strerror}",
            where=str(directory),
            fix="make the folder writable, or name another one in XDG_STATE_HOME",
        ) from error
    return record


def delete_agent_folder_record(record: AgentFolderRecord) -> None:
    """Delete the record of a folder that was removed from its host."""
    (_agent_folder_records_folder() / f"{record.folder}.json").unlink(missing_ok=True)


def list_agent_folder_records() -> list[AgentFolderRecord]:
    """Return what this user's benches on this machine have put on hosts."""
    found = []
    for path in sorted(_agent_folder_records_folder().glob("*.json")):
        with suppress(OSError, ValueError, TypeError):  # Removed meanwhile, or not a record of ours.
            record = AgentFolderRecord(**json.loads(path.read_text()))
            # Hosts delete the folder of this name, so a forged record must not pass.
            if record.folder == path.stem and record.folder.startswith(f"{deployment.FOLDER_PREFIX}-"):
                found.append(record)
    return found


def restore_host_and_remove_agent_folder(record: AgentFolderRecord) -> None:
    """Connect to the host, restore its settings and remove the folder; raises BenchError if that fails."""
    if record.destination:
        machine: ssh.Machine = ssh.connect(record.host, record.destination, record.testbed)
    else:
        machine = ssh.local_machine(record.host, record.testbed)
    try:
        deployment.remove_agent_if_installed(machine, record.folder)
    finally:
        machine.close()
    delete_agent_folder_record(record)


def _agent_folder_records_folder() -> Path:
    # Not /run: a leftover outlives a reboot of this machine, and users without root have hosts too.
    return user_state_path("vnetbench") / "hosts"
