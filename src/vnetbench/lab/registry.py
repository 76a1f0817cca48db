"""Which testbeds exist on this machine, whose they are, and how to remove what a dead bench left."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.description import namespace
from vnetbench.process import is_alive, this_process

DIRECTORY = Path("/run/vnetbench")
PREFIX = "vnb."
PROCESS_LABEL = "VNETBENCH_TESTBED"
ENDING_TIMEOUT_S = 3.0


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
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"purpose": purpose, "owner": this_process(), "description": description})
    try:
        with (DIRECTORY / f"{name}.json").open("x") as file:
            file.write(text)
    except FileExistsError:
        raise BenchError(
            f"a testbed named {name} exists already",
            where=name,
            fix=f"choose another name, or: vnetbench lab down {name}",
        ) from None


def keep(name: str) -> None:
    """Let a testbed outlive this process, until `lab down`."""
    path = DIRECTORY / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "owner": ""}))


def entries() -> list[Entry]:
    """All testbeds of this machine: the registered ones, and namespaces that nobody registered."""
    found: dict[str, Entry] = {}
    for path in sorted(DIRECTORY.glob("*.json")):
        try:
            content = json.loads(path.read_text())
            found[path.stem] = Entry(
                path.stem, str(content["purpose"]), str(content["owner"]), dict(content["description"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            found[path.stem] = Entry(path.stem, "cut short while it was made", "", {})
    for name in netlink.namespaces():
        if name.startswith(PREFIX) and name.count(".") == 2:
            testbed = name.split(".")[1]
            found.setdefault(testbed, Entry(testbed, "left over, nobody's", "", {}))
    return list(found.values())


def entry(name: str) -> Entry:
    """The testbed of this name; raises BenchError when there is none."""
    for candidate in entries():
        if candidate.name == name:
            return candidate
    names = ", ".join(e.name for e in entries()) or "none"
    raise BenchError(f"there is no testbed named {name} (there are: {names})", fix="vnetbench lab ls")


def remove(name: str) -> None:
    """Remove all that carries the testbed's name: processes, namespaces and what is in them, its entry."""
    _end_processes(name)
    for candidate in netlink.namespaces():
        if candidate.startswith(namespace(name, "")):
            netlink.remove_namespace(candidate)
    (DIRECTORY / f"{name}.json").unlink(missing_ok=True)


def _end_processes(name: str) -> None:
    """End the processes that carry the testbed's label; each by its id, ours is never among them."""
    pids = [pid for pid in processes_of(name) if pid != os.getpid()]
    for pid in pids:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + ENDING_TIMEOUT_S
    while pids and time.monotonic() < deadline:
        time.sleep(0.02)
        pids = [pid for pid in pids if pid in processes_of(name)]
    for pid in pids:
        _signal(pid, signal.SIGKILL)


def processes_of(name: str) -> list[int]:
    """Ids of the processes that carry the testbed's label."""
    label = f"{PROCESS_LABEL}={name}".encode()
    pids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if label in path.read_bytes().split(b"\0"):
                pids.append(int(path.parent.name))
        except OSError:
            continue  # gone meanwhile, or another user's
    return pids


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
