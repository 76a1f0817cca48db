"""Runs Open vSwitch with its userspace datapath, as the distribution ships it, for one testbed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab import registry
from vnetbench.lab.netns.topology import OPEN_VSWITCH, NetnsTopology
from vnetbench.lab.threads import thread_names_by_id

DATABASE, SWITCH, TOOL, CONTROL = "ovsdb-server", "ovs-vswitchd", "ovsdb-tool", "ovs-vsctl"
INSTALL_COMMAND = "apt-get install openvswitch-switch"
SCHEMA_FILE = Path("/usr/share/openvswitch/vswitch.ovsschema")
_SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
"""The daemons may not be on the user's PATH."""
START_TIMEOUT_S = 15.0
POLL_INTERVAL_S = 0.05


def installed_version() -> str:
    """Return the installed version; raises BenchError if a part is missing or does not run."""
    for program in (DATABASE, SWITCH, TOOL, CONTROL):
        find_program(program)
    if not SCHEMA_FILE.exists():
        raise BenchError(
            "the database schema of Open vSwitch is missing", where=str(SCHEMA_FILE), fix=INSTALL_COMMAND
        )
    first = run_tool([find_program(SWITCH), "--version"]).splitlines()[0]
    return first.rpartition(" ")[2]


def start_switch(topology: NetnsTopology) -> None:
    """Start the database and the switch in the testbed's switch namespace, and add all ports.

    The processes live until the testbed is removed. The links of a team are no ports yet.

    Raises:
        BenchError: if a part is missing or does not start.
    """
    control, log = start_daemons(topology.testbed_name, topology.switch_namespace)
    changes: list[str] = []
    for vswitch in topology.vswitches:
        changes += ["--", "add-br", vswitch, "--", "set", "bridge", vswitch, "datapath_type=netdev"]
    for port, vswitch in _ports_with_vswitches(topology):
        changes += ["--", "add-port", vswitch, port]
    # ovs-vsctl waits until the switch has created them all.
    run_tool([*control, *changes], log)


def start_daemons(testbed_name: str, namespace: str) -> tuple[list[str], Path]:
    """Start a database and a switch without bridges in a namespace; they live until the testbed is removed.

    Returns:
        The start of each command line that changes the switch, and the switch's log.

    Raises:
        BenchError: if a part is missing or does not start.
    """
    installed_version()
    folder = registry.ensure_testbed_folder(testbed_name)
    database, socket = folder / "ovs.db", folder / "ovs.sock"
    run_tool([find_program(TOOL), "create", str(database), str(SCHEMA_FILE)])
    _start_daemon(testbed_name, namespace, folder, [DATABASE, str(database), f"--remote=punix:{socket}"])
    control = control_command(folder)
    _wait_for_socket(socket, folder / f"{DATABASE}.log")
    run_tool([*control, "--no-wait", "init"])
    _start_daemon(testbed_name, namespace, folder, [SWITCH, f"unix:{socket}"])
    return control, folder / f"{SWITCH}.log"


def control_command(folder: Path) -> list[str]:
    """Return the start of each command line that changes the switch whose files are in `folder`."""
    return [find_program(CONTROL), f"--db=unix:{folder / 'ovs.sock'}", f"--timeout={START_TIMEOUT_S:.0f}"]


def switch_threads(topology: NetnsTopology) -> dict[int, str]:
    """Return the names of the switch's threads, which forward all packets, by thread id.

    The result is empty for another virtual switch, without a search of all processes of this machine.
    """
    if topology.shape.vswitch != OPEN_VSWITCH:
        return {}
    tasks = [thread_names_by_id(pid) for pid in registry.testbed_pids(topology.testbed_name)]
    return {thread: name for found in tasks if SWITCH in found.values() for thread, name in found.items()}


def _ports_with_vswitches(topology: NetnsTopology) -> list[tuple[str, str]]:
    """Return every port with its virtual switch."""
    first, last = topology.vswitches[0], topology.vswitches[-1]
    vms = [(e.name, last if e.side == "b" else first) for e in topology.endpoints]
    return [*vms, *zip((d.interface for d in topology.uplink_ends), topology.vswitches, strict=False)]


def _start_daemon(testbed_name: str, namespace: str, folder: Path, command: Sequence[str]) -> None:
    program, *arguments = command
    inside = ["ip", "netns", "exec", namespace, find_program(program), *arguments]
    settings = {"OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder), "OVS_DBDIR": str(folder)}
    with (folder / f"{program}.log").open("wb") as log:
        subprocess.Popen(
            inside,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **settings, registry.PROCESS_LABEL: testbed_name},
            start_new_session=True,  # The bench handles Ctrl-C of the terminal.
        )


def _wait_for_socket(socket: Path, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not socket.exists():
        if time.monotonic() > deadline:
            raise _start_error("its database server did not start", log)
        time.sleep(POLL_INTERVAL_S)


def run_tool(command: Sequence[str], log: Path | None = None) -> str:
    """Return the output of a program; raises BenchError with its error and the last line of `log`."""
    process = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if process.returncode != 0:
        last_line = process.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
        raise _start_error(f"{Path(command[0]).name}: {last_line[0]}", log)
    return process.stdout


def _start_error(reason: str, log: Path | None) -> BenchError:
    lines = log.read_text(errors="replace").strip().splitlines() if log else []
    last = f" (its last line: {lines[-1]})" if lines else ""
    return BenchError(
        f"Open vSwitch does not run: {reason}{last}",
        where="vswitch = openvswitch",
        fix="run vnetbench doctor to see what this machine allows, or leave the level out",
    )


def find_program(name: str) -> str:
    """Return the path of one of its programs; raises BenchError if it is not installed."""
    path = shutil.which(name, path=_SEARCH_PATH)
    if path is None:
        raise BenchError(
            f"Open vSwitch is not installed: {name} is missing",
            where="vswitch = openvswitch",
            fix=INSTALL_COMMAND,
        )
    return path
