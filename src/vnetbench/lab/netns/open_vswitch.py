"""Open vSwitch with its userspace datapath, as the distribution has it: a database and a switch of a bed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab import registry
from vnetbench.lab.netns.topology import Testbed
from vnetbench.lab.threads import named_tasks

DATABASE, SWITCH, TOOL, CONTROL = "ovsdb-server", "ovs-vswitchd", "ovsdb-tool", "ovs-vsctl"
INSTALL = "apt-get install openvswitch-switch"
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
"""Its daemons are not on every user's path."""
STARTING_TIMEOUT_S = 15.0
LOOK_EVERY_S = 0.05


def installed() -> str:
    """Its version; raises BenchError where a part of it is missing or does not run."""
    for program in (DATABASE, SWITCH, TOOL, CONTROL):
        _program(program)
    if not SCHEMA.exists():
        raise BenchError("Open vSwitch has no schema of its database here", where=str(SCHEMA), fix=INSTALL)
    first = _run([_program(SWITCH), "--version"]).splitlines()[0]
    return first.rpartition(" ")[2]


def start(testbed: Testbed) -> None:
    """Start it in the testbed's switch namespace, with all ports plugged in; raises BenchError.

    Its processes live until the testbed is removed.
    """
    installed()
    folder = registry.folder(testbed.name)
    database, socket = folder / "ovs.db", folder / "ovs.sock"
    _run([_program(TOOL), "create", str(database), str(SCHEMA)])
    _start(testbed, folder, [DATABASE, str(database), f"--remote=punix:{socket}"])
    control = [_program(CONTROL), f"--db=unix:{socket}", f"--timeout={STARTING_TIMEOUT_S:.0f}"]
    _await(socket, folder / f"{DATABASE}.log")
    _run([*control, "--no-wait", "init"])
    _start(testbed, folder, [SWITCH, f"unix:{socket}"])
    changes: list[str] = []
    for vswitch in testbed.vswitches:
        changes += ["--", "add-br", vswitch, "--", "set", "bridge", vswitch, "datapath_type=netdev"]
    for port, vswitch in _plugged(testbed):
        changes += ["--", "add-port", vswitch, port]
    # This waits until the switch has made them all.
    _run([*control, *changes], folder / f"{SWITCH}.log")


def threads(testbed: str) -> dict[int, str]:
    """The threads of its switch, by id: they forward all that passes it."""
    tasks = [named_tasks(pid) for pid in registry.processes_of(testbed)]
    return {thread: name for found in tasks if SWITCH in found.values() for thread, name in found.items()}


def _plugged(testbed: Testbed) -> list[tuple[str, str]]:
    """Every port and the virtual switch that it belongs to."""
    first, last = testbed.vswitches[0], testbed.vswitches[-1]
    vms = [(e.name, last if e.side == "b" else first) for e in testbed.endpoints]
    return [*vms, *zip((d.interface for d in testbed.uplinks), testbed.vswitches, strict=False)]


def _start(testbed: Testbed, folder: Path, command: Sequence[str]) -> None:
    program, *arguments = command
    inside = ["ip", "netns", "exec", testbed.switch_namespace, _program(program), *arguments]
    settings = {"OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder), "OVS_DBDIR": str(folder)}
    with (folder / f"{program}.log").open("wb") as said:
        subprocess.Popen(
            inside,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, **settings, registry.PROCESS_LABEL: testbed.name},
            start_new_session=True,  # the terminal's Ctrl-C is the bench's to answer
        )


def _await(socket: Path, log: Path) -> None:
    deadline = time.monotonic() + STARTING_TIMEOUT_S
    while not socket.exists():
        if time.monotonic() > deadline:
            raise _fault("its database did not start", log)
        time.sleep(LOOK_EVERY_S)


def _run(command: Sequence[str], log: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise _fault(f"{Path(command[0]).name}: {said[0]}", log)
    return done.stdout


def _fault(what: str, log: Path | None) -> BenchError:
    lines = log.read_text(errors="replace").strip().splitlines() if log else []
    last = f" (its last line: {lines[-1]})" if lines else ""
    return BenchError(
        f"Open vSwitch does not run: {what}{last}", where="vswitch = openvswitch",
        fix="vnetbench doctor says what this machine allows; or leave the level out",
    )  # fmt: skip


def _program(name: str) -> str:
    path = shutil.which(name, path=_PLACES)
    if path is None:
        raise BenchError(
            f"Open vSwitch is not installed: there is no {name}", where="vswitch = openvswitch", fix=INSTALL
        )
    return path
