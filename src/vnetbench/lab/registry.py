"""Which testbeds exist on this machine, whose they are, and how to remove what a dead bench left."""

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
from vnetbench.lab import cpu_quota, netlink
from vnetbench.lab.netns.topology import namespace
from vnetbench.process import is_alive, this_process

DIRECTORY = Path("/run/vnetbench")
PREFIX = "vnb."
PROCESS_LABEL = "VNETBENCH_TESTBED"
ENDING_TIMEOUT_S = 3.0
LEFT = "left over, nobody's"


@dataclass(frozen=True)
class Entry:
    """A testbed that exists, or what is left of one."""

    name: str
    purpose: str
    """What it was made for, in words."""
    owner: str
    """Identity of the process that uses it; empty for one that stays until `lab down`."""
    description: dict[str, object]

    @property
    def in_use(self) -> bool:
        """Whether the process that uses it is alive."""
        return bool(self.owner) and is_alive(self.owner)


def register(name: str, purpose: str, description: dict[str, object]) -> None:
    """Take the name of a testbed that is about to be built; raises BenchError when it is taken."""
    content = {"purpose": purpose, "owner": this_process(), "description": description}
    try:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        with whole_file(DIRECTORY, content) as whole:
            os.link(whole, DIRECTORY / f"{name}.json")
    except FileExistsError:
        raise BenchError(
            f"a testbed named {name} exists already",
            where=name,
            fix=f"choose another name, or: vnetbench lab down {name}",
        ) from None
    except OSError as error:
        raise BenchError(
            f"testbeds cannot be registered: {error.strerror}", where=str(DIRECTORY), fix="make /run writable"
        ) from error


def keep(name: str) -> None:
    """Let a testbed outlive this process, until `lab down`."""
    path = DIRECTORY / f"{name}.json"
    with whole_file(DIRECTORY, {**json.loads(path.read_text()), "owner": ""}) as whole:
        whole.replace(path)


def folder(name: str) -> Path:
    """A folder for the sockets and consoles of a testbed that is registered; it goes with the testbed."""
    path = DIRECTORY / name
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def entries() -> list[Entry]:
    """All testbeds of this machine: the registered ones, and what is left of any that nobody registered."""
    # Namespaces first: what is built between the two looks was registered before it was built.
    namespaces = netlink.namespaces()
    found: dict[str, Entry] = {}
    for path in sorted(DIRECTORY.glob("*.json")):
        try:
            content = json.loads(path.read_text())
            found[path.stem] = Entry(
                path.stem, str(content["purpose"]), str(content["owner"]), dict(content["description"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            found[path.stem] = Entry(path.stem, "cut short while it was made", "", {})
    for name in namespaces:
        if name.startswith(PREFIX) and name.count(".") == 2:
            testbed = name.split(".")[1]
            found.setdefault(testbed, Entry(testbed, LEFT, "", {}))
    for testbed in cpu_quota.left():
        found.setdefault(testbed, Entry(testbed, LEFT, "", {}))
    return list(found.values())


def entry(name: str) -> Entry:
    """The testbed of this name; raises BenchError when there is none."""
    for candidate in entries():
        if candidate.name == name:
            return candidate
    names = ", ".join(e.name for e in entries()) or "none"
    raise BenchError(f"there is no testbed named {name} (there are: {names})", fix="vnetbench lab ls")


def remove(name: str) -> list[Path]:
    """Remove all that carries the testbed's name: processes, control groups, namespaces, its files.

    Returns the control groups that stay, since a process in them does not end.
    """
    _end_processes(name)
    stays = cpu_quota.remove(name)
    for candidate in netlink.namespaces():
        if candidate.startswith(namespace(name, "")):
            netlink.remove_namespace(candidate)
    # What was only being started at the first look carries its label by now.
    _end_processes(name)
    shutil.rmtree(DIRECTORY / name, ignore_errors=True)
    (DIRECTORY / f"{name}.json").unlink(missing_ok=True)
    return stays


def end_orphans() -> int:
    """End this user's processes of testbeds whose namespaces nobody keeps any more; returns how many.

    Those of campaigns are left alone: they end with their bench.
    """
    labels = {pid: label for pid, label in _labelled() if not label.startswith("run-")}
    orphans = [pid for pid in labels if _user_namespace(pid) != _user_namespace(os.getpid())]
    for pid in orphans:
        _signal(pid, signal.SIGTERM)
    return len(orphans)


@contextmanager
def whole_file(folder: Path, content: Mapping[str, object]) -> Iterator[Path]:
    """A file with this content, to be put where nobody shall ever read half of it."""
    path = folder / f".{secrets.token_hex(8)}"
    try:
        path.write_text(json.dumps(content))
        yield path
    finally:
        path.unlink(missing_ok=True)


def _end_processes(name: str) -> None:
    """End the processes that carry the testbed's label; each by its id, ours is never among them."""
    pids = [pid for pid in processes_of(name) if pid != os.getpid()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            _signal(pid, number)
        deadline = time.monotonic() + ENDING_TIMEOUT_S
        while pids and time.monotonic() < deadline:
            time.sleep(0.02)
            pids = [pid for pid in pids if pid in processes_of(name)]


def processes_of(name: str) -> list[int]:
    """Ids of the processes of a testbed: those that carry its label, and live where we do.

    Another user's testbed may have the same name, in a user namespace of its own.
    """
    here = _user_namespace(os.getpid())
    return [pid for pid, label in _labelled() if label == name and _user_namespace(pid) == here]


def _labelled() -> Iterator[tuple[int, str]]:
    """Process id and label of every process that carries one and that we may look at."""
    prefix = f"{PROCESS_LABEL}=".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue  # gone meanwhile, or another user's
        for variable in variables:
            if variable.startswith(prefix):
                yield int(path.parent.name), variable.removeprefix(prefix).decode(errors="replace")


def _user_namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/user").readlink())
    except OSError:
        return None


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
