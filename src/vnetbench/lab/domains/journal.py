"""Journals of existing VMs: their original settings, so that they can be restored after a crash."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from vnetbench.errors import BenchError
from vnetbench.process import ProcessIdentity, is_process_alive, read_own_process_identity


@dataclass(frozen=True)
class DomainRecord:
    """What the journal keeps of one VM that a campaign changes, or that a killed campaign changed."""

    lab: str
    """The lab that changes the VM: `libvirt` or `vsphere`."""
    connection: str
    """The hypervisor, as the study names it: a URI without a password."""
    domain: str
    """The VM's name at the hypervisor."""
    identity: str
    """What names the VM even if it is renamed: its UUID."""
    testbed: str
    purpose: str
    """Why the VM is changed, as a phrase for people."""
    owner: ProcessIdentity
    """The process that changes the VM."""
    originals: Mapping[str, Any]
    """Original values by setting, in the form that the lab chose. All of them are JSON values."""

    @property
    def is_in_use(self) -> bool:
        """Whether the owner is running."""
        return is_process_alive(self.owner)

    @property
    def is_own(self) -> bool:
        """Whether this process is the owner."""
        return self.owner == read_own_process_identity()

    def __str__(self) -> str:
        return f"VM {self.domain} ({self.connection})"


class DomainJournal:
    """The journal of a VM that this process changes. `open_journal` makes it."""

    def __init__(self, path: Path, record: DomainRecord) -> None:
        self._path = path
        self.record = record

    def record_original(self, setting: str, value: Any) -> None:
        """Store a setting's original value on disk. Call this before the first change of the setting.

        Later calls for the same setting do nothing, because by then the value is no longer the original.

        Args:
            setting: The setting, in the lab's own words.
            value: A JSON value from which the lab can restore the setting.
        """
        if setting in self.record.originals:
            return
        self.record = replace(self.record, originals={**self.record.originals, setting: value})
        _write_record(self._path, self.record)

    def delete(self) -> None:
        """Delete the journal. Call this when all original settings are restored."""
        delete_record(self.record)


def open_journal(record: DomainRecord, restore_domain: Callable[[DomainRecord], None]) -> DomainJournal:
    """Start the journal of a VM; what an earlier testbed left changed is restored first.

    Args:
        record: The VM, from `new_record`.
        restore_domain: Restores the original settings of a record; raises BenchError if that fails.

    Raises:
        BenchError: if another campaign uses the VM, or the journal cannot be read or written.
    """
    path = journal_path(record)
    with _locked_folder():
        earlier = _read_record(path)
        if earlier is not None:
            if earlier.is_in_use and not earlier.is_own:
                number = earlier.owner.split(":")[0]
                raise BenchError(
                    f"another campaign uses this VM (process {number}: {earlier.purpose})",
                    where=record.domain,
                    fix="wait until the other campaign ends, or stop it with Ctrl-C in its terminal",
                )
            restore_domain(earlier)
        _write_record(path, record)
    return DomainJournal(path, record)


def new_record(
    lab: str, connection: str, domain: str, identity: str, testbed: str, purpose: str
) -> DomainRecord:
    """Return the record of a VM that this process is about to change."""
    return DomainRecord(lab, connection, domain, identity, testbed, purpose, read_own_process_identity(), {})


def list_domain_records() -> list[DomainRecord | BenchError]:
    """Return the VMs that this user's benches on this machine have changed and not restored.

    A damaged journal is an error in the list, so that it does not hide the others.
    """
    found: list[DomainRecord | BenchError] = []
    for path in sorted(_journal_folder().glob("*.json")):
        try:
            if (record := _read_record(path)) is not None:
                found.append(record)
        except BenchError as error:
            found.append(error)
    return found


def delete_record(record: DomainRecord) -> None:
    """Delete the journal of a VM whose original settings are restored."""
    journal_path(record).unlink(missing_ok=True)


def restore_and_delete(record: DomainRecord, restore_domain: Callable[[DomainRecord], None]) -> bool:
    """Restore a VM that a killed campaign left changed, and delete its journal.

    Returns:
        Whether the VM is restored; False if a campaign has begun to use it, or restored it meanwhile.

    Raises:
        BenchError: if the VM cannot be restored. The journal stays.
    """
    with _locked_folder():
        now = _read_record(journal_path(record))
        if now is None or now.is_in_use:
            return False
        restore_domain(now)
        delete_record(now)
    return True


def _journal_folder() -> Path:
    # Not /run: a changed VM outlives a reboot of this machine, and users without root have VMs too.
    return user_state_path("vnetbench") / "domains"


def journal_path(record: DomainRecord) -> Path:
    """Return the path of a VM's journal. All benches that name the VM alike use this path."""
    key = json.dumps([record.lab, record.connection, record.identity])
    return _journal_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


@contextmanager
def _locked_folder() -> Iterator[None]:
    """Hold the lock of all journals: the check for another owner and the write must not be separated."""
    folder = _journal_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable_folder(error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read_record(path: Path) -> DomainRecord | None:
    try:
        return DomainRecord(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise BenchError(
            "the journal of a changed VM is damaged",
            where=str(path),
            fix="restore the VM's settings by hand from what the file shows, then delete the file",
        ) from error


def _write_record(path: Path, record: DomainRecord) -> None:
    """Write the journal so that it survives a power loss, and a reader never finds half of it."""
    temporary = path.with_suffix(".new")
    try:
        with temporary.open("w") as file:
            json.dump(asdict(record), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unusable_folder(error) from error


def _unusable_folder(error: OSError) -> BenchError:
    return BenchError(
        f"cannot record the original settings of VMs: {error.strerror}",
        where=str(_journal_folder()),
        fix="make the folder writable, or name another one in XDG_STATE_HOME",
    )
