"""Records the testbeds of this machine and their owners, and removes what an ended bench left."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab import control_groups, netlink
from vnetbench.lab.netns.topology import namespace_name
from vnetbench.process import ProcessIdentity, is_process_alive, read_own_process_identity, run_folder

REGISTRY_FOLDER = Path("/run/vnetbench")
NAMESPACE_PREFIX = "vnb."
PROCESS_LABEL = "VNETBENCH_TESTBED"
TERMINATION_TIMEOUT_S = 3.0
LEFTOVER_PURPOSE = "leftover of an ended process"


@dataclass(frozen=True)
class RegisteredTestbed:
    """A testbed, or what is left of one."""

    name: str
    purpose: str
    """Why it was created, as a phrase for people."""
    owner: ProcessIdentity
    """Identity of the process that uses the testbed; empty if it stays until `lab down`."""
    description: dict[str, object]

    @property
    def is_in_use(self) -> bool:
        """Whether the owner is running."""
        return bool(self.owner) and is_process_alive(self.owner)


def register_testbed(name: str, purpose: str, description: dict[str, object]) -> None:
    """Register a testbed before it is created; raises BenchError if the name is taken."""
    content = {"purpose": purpose, "owner": read_own_process_identity(), "description": description}
    try:
        REGISTRY_FOLDER.mkdir(parents=True, exist_ok=True)
        with write_temporary_file(REGISTRY_FOLDER, content) as whole:
            os.link(whole, REGISTRY_FOLDER / f"{name}.json")
    except FileExistsError:
        raise BenchError(
            f"a testbed named {name} exists already",
            where=name,
            fix=f"choose another name, or run vnetbench lab down {name}",
        ) from None
    except OSError as error:
        raise BenchError(
            f"cannot register a testbed: {error.strerror}",
            where=str(REGISTRY_FOLDER),
            fix="make /run writable",
        ) from error


def keep_after_exit(name: str) -> None:
    """Keep a testbed after this process ends, until `lab down`."""
    path = REGISTRY_FOLDER / f"{name}.json"
    with write_temporary_file(REGISTRY_FOLDER, {**json.loads(path.read_text()), "owner": ""}) as whole:
        whole.replace(path)


def ensure_testbed_folder(name: str) -> Path:
    """Return the folder for a testbed's sockets and consoles; it is removed with the testbed."""
    path = REGISTRY_FOLDER / name
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def list_registered_and_leftover_testbeds() -> list[RegisteredTestbed]:
    """Return all testbeds of this machine, registered or left over."""
    # List namespaces first: a testbed that is created meanwhile is registered before it has namespaces.
    namespaces = netlink.list_namespaces()
    found: dict[str, RegisteredTestbed] = {}
    for path in sorted(REGISTRY_FOLDER.glob("*.json")):
        try:
            content = json.loads(path.read_text())
            found[path.stem] = RegisteredTestbed(
                path.stem, str(content["purpose"]), str(content["owner"]), dict(content["description"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            found[path.stem] = RegisteredTestbed(path.stem, "creation was interrupted", "", {})
    for name in namespaces:
        if name.startswith(NAMESPACE_PREFIX) and name.count(".") == 2:
            testbed = name.split(".")[1]
            found.setdefault(testbed, RegisteredTestbed(testbed, LEFTOVER_PURPOSE, "", {}))
    for testbed in control_groups.testbeds_with_leftover_groups():
        found.setdefault(testbed, RegisteredTestbed(testbed, LEFTOVER_PURPOSE, "", {}))
    return list(found.values())


def find_testbed(name: str) -> RegisteredTestbed:
    """Return the testbed with this name; raises BenchError if there is none."""
    for candidate in list_registered_and_leftover_testbeds():
        if candidate.name == name:
            return candidate
    names = ", ".join(e.name for e in list_registered_and_leftover_testbeds()) or "none"
    raise BenchError(
        f"there is no testbed named {name} (existing: {names})",
        fix="run vnetbench lab ls to list the testbeds",
    )


def remove_testbed_and_list_remaining_groups(name: str) -> list[Path]:
    """Remove everything of a testbed: processes, control groups, namespaces and files.

    Returns:
        The control groups that could not be removed because a process in them does not end.
    """
    _terminate_processes(name)
    remaining_groups = control_groups.remove_groups_and_list_remaining(name)
    for candidate in netlink.list_namespaces():
        if candidate.startswith(namespace_name(name, "")):
            netlink.remove_namespace(candidate)
    # Processes that were just starting during the first pass carry the label by now.
    _terminate_processes(name)
    shutil.rmtree(REGISTRY_FOLDER / name, ignore_errors=True)
    (REGISTRY_FOLDER / f"{name}.json").unlink(missing_ok=True)
    return remaining_groups


def terminate_processes_without_holder() -> int:
    """Terminate this user's testbed processes whose user namespace has no holder any more.

    Processes of campaigns are excluded: they end with their bench.

    Returns:
        The number of processes.
    """
    labels = {pid: label for pid, label in _labelled_processes() if not label.startswith("run-")}
    orphans = [pid for pid in labels if _user_namespace(pid) != _user_namespace(os.getpid())]
    for pid in orphans:
        _send_signal(pid, signal.SIGTERM)
    return len(orphans)


@contextmanager
def write_temporary_file(folder: Path, content: Mapping[str, object]) -> Iterator[Path]:
    """Write a temporary file with this content, to be linked or renamed into place atomically."""
    path = folder / f".{secrets.token_hex(8)}"
    try:
        path.write_text(json.dumps(content))
        yield path
    finally:
        path.unlink(missing_ok=True)


def _terminate_processes(name: str) -> None:
    """Terminate the processes that carry the testbed's label, each by its id, but never this one."""
    pids = [pid for pid in testbed_pids(name) if pid != os.getpid()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            _send_signal(pid, number)
        deadline = time.monotonic() + TERMINATION_TIMEOUT_S
        while pids and time.monotonic() < deadline:
            time.sleep(0.02)
            pids = [pid for pid in pids if _read_label(pid) == name]


def testbed_pids(testbed_name: str) -> list[int]:
    """Return the ids of a testbed's processes: those with its label, our user namespace and our `/run`.

    Another user's testbed may have the same name in another user namespace. So may one whose registry is
    in another `/run`, such as that of another test run.
    """
    here = _user_namespace(os.getpid()), run_folder(os.getpid())
    return [
        pid
        for pid, label in _labelled_processes()
        if label == testbed_name and (_user_namespace(pid), run_folder(pid)) == here
    ]


def _labelled_processes() -> Iterator[tuple[int, str]]:
    """Yield the process id and label of every labelled process that we may inspect."""
    for path in Path("/proc").glob("[0-9]*"):
        if (label := _read_label(int(path.name))) is not None:
            yield int(path.name), label


def _read_label(pid: int) -> str | None:
    """Return the label of a process; None without one, if it has ended, or if it is another user's."""
    prefix = f"{PROCESS_LABEL}=".encode()
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    label = next((each for each in variables if each.startswith(prefix)), None)
    return None if label is None else label.removeprefix(prefix).decode(errors="replace")


def _user_namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/user").readlink())
    except OSError:
        return None


def _send_signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
