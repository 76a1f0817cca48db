"""Machines to run commands on: hosts, reached by the user's own OpenSSH client, and this one."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from plumbum import ProcessExecutionError, ProcessTimedOut, SshMachine, local
from plumbum.commands.base import BaseCommand
from plumbum.machines.local import LocalMachine

from vnetbench.errors import BenchError
from vnetbench.lab.hosts import ssh_errors
from vnetbench.lab.hosts.ssh_errors import Unreachable
from vnetbench.lab.registry import PROCESS_LABEL
from vnetbench.process import is_alive, this_process

CONNECT_S = 10
SILENCE_S, SILENCES = 2, 4
"""A host that leaves so many questions unanswered, one every so often, is gone: its connection ends."""
LOGIN_S = 20.0
"""From the first packet until commands can be run: what a slow name service at the host may take."""
COMMAND_S = 60.0
ENDING_S = 3.0
LOST = 255
"""The exit code of OpenSSH's client for failures of its own (ssh(1))."""
POLL_S = 0.02
_FOLDER_PREFIX = "vnetbench-ssh-"
"""Of the folders on this machine that connections have their sockets in."""
LONGEST_FOLDER = 60
"""Of the name of the folder for these: a socket's has 107 bytes at most (unix(7)), and OpenSSH adds some."""
_BY_SIGNAL = {137: "killed by SIGKILL", 143: "killed by SIGTERM"}
"""The exit codes of a shell whose program was killed."""

_MASTER_OPTIONS = {
    "BatchMode": "yes",  # nobody is there to be asked
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": str(SILENCE_S),
    "ServerAliveCountMax": str(SILENCES),
    "LogLevel": "ERROR",  # banners are no reasons
    "ControlMaster": "yes",
    "ControlPersist": "no",
    # What the user's configuration may have for sessions at a terminal.
    "ClearAllForwardings": "yes",
    "RemoteCommand": "none",
    "PermitLocalCommand": "no",
}
_SESSION_OPTIONS = {
    "ControlMaster": "no",
    # Where the master is gone a client would connect by itself, past all of the above.
    "ProxyCommand": "false",
    "LogLevel": "ERROR",
    "RemoteCommand": "none",
}

# What it would print is said in words of our own.
logging.getLogger("plumbum").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    output: str
    errors: str


class Machine:
    """A machine that commands run on. It lives, and must be closed."""

    def __init__(
        self, name: str, machine: LocalMachine | SshMachine, environment: Mapping[str, str] | None = None
    ) -> None:
        """`name` is for people, `environment` is added to that of the commands."""
        self.name = name
        self._machine = machine
        self._environment = environment

    def run(self, script: str, *arguments: str, given: Path | None = None) -> Ran:
        """Run a script of the POSIX shell, `given` as its input; raises Unreachable where it does not end."""
        command: BaseCommand = self._machine["/bin/sh"]["-c", script, "vnetbench", *arguments]
        if given is not None:
            command = command < str(given)
        try:
            return Ran(*command.run(retcode=None, timeout=COMMAND_S, env=self._environment))
        except ProcessTimedOut:
            raise Unreachable(
                f"a command did not end in {COMMAND_S:g} s",
                where=self.name,
                fix="see what keeps the host busy",
            ) from None

    def start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program, its input and output pipes of ours; with the connection these end."""
        command = self._machine[program][arguments]
        started = command.popen(stderr=subprocess.DEVNULL, new_session=True, env=self._environment)
        return cast("subprocess.Popen[bytes]", started)  # plumbum's passes all on to one

    def ending(self, code: int) -> str:
        """The exit code of what `start` started, in words."""
        return f"exit code {code}"

    def close(self) -> None:
        """End the connection, and what still runs over it."""


class Host(Machine):
    """A host with a connection. Made by `connect`."""

    def __init__(self, name: str, machine: SshMachine, master: _Master) -> None:
        super().__init__(name, machine)
        self._session = machine
        self._master = master

    def run(self, script: str, *arguments: str, given: Path | None = None) -> Ran:
        """See Machine; raises Unreachable also when the connection is lost."""
        ran = super().run(script, *arguments, given=given)
        if ran.code == LOST:
            raise ssh_errors.lost(self.name)
        return ran

    def ending(self, code: int) -> str:
        """See Machine."""
        if code == LOST:
            # It is the code of a program that was killed, too.
            return "it was killed" if self._master.is_alive() else "the SSH connection was lost"
        return _BY_SIGNAL.get(code, super().ending(code))

    def close(self) -> None:
        """See Machine."""
        self._session.close()
        self._master.close()


def this_machine(name: str, label: str) -> Machine:
    """The machine that the bench runs on; what is started there carries `label`, the testbed's name."""
    return Machine(name, local, {PROCESS_LABEL: label})


def connect(name: str, destination: str, label: str) -> Host:
    """Connect to a host as `ssh destination` would; raises Unreachable with the reason and the fix.

    The clients that run here carry `label`, the testbed's name, in their environment.
    """
    program = shutil.which("ssh")
    if program is None:
        raise BenchError("OpenSSH's client is missing", where=name, fix="apt-get install openssh-client")
    # A jump host's client has no BatchMode; it too shall ask nobody.
    environment = {**os.environ, PROCESS_LABEL: label, "SSH_ASKPASS_REQUIRE": "never"}
    ssh = local[program].with_env(**environment)
    master = _Master(ssh, destination)
    try:
        machine = master.is_up() and _session(ssh, destination, master)
        if machine:
            return Host(name, machine, master)
        raise ssh_errors.unreachable(name, destination, master.said())
    except BaseException:
        master.close()
        raise


def remove_left() -> None:
    """Remove the folders of connections whose bench was killed; the connections ended with it."""
    for folder in _place().glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError):  # gone meanwhile
            is_ours = folder.lstat().st_uid == os.geteuid()
            if is_ours and not is_alive((folder / "owner").read_text()):
                shutil.rmtree(folder)


class _Master:
    """The one connection to a host, which all commands share (ssh_config(5), ControlMaster)."""

    def __init__(self, ssh: BaseCommand, destination: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=_place()))
        (self._folder / "owner").write_text(this_process())
        self.control = self._folder / "control"
        # `cat` ends with its input, so with the bench, however that ends; then the connection does.
        command = ssh["-T", "-S", self.control, *_options(_MASTER_OPTIONS), destination, "cat"]
        with self._log().open("wb") as log:
            process = command.popen(stdout=subprocess.DEVNULL, stderr=log, new_session=True)
        self._process = cast("subprocess.Popen[bytes]", process)

    def is_up(self) -> bool:
        """Whether it comes up: waits until it has, or has failed."""
        deadline = time.monotonic() + CONNECT_S + LOGIN_S
        while not self.control.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def is_alive(self) -> bool:
        """Whether it still stands; one that is just ending does not."""
        try:
            self._process.wait(timeout=ENDING_S / 10)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        """End it at once, and with it what runs over it."""
        self._process.kill()

    def said(self) -> str:
        """What OpenSSH said of its end."""
        return self._log().read_text(errors="replace").strip()

    def close(self) -> None:
        """End it and leave nothing on this machine."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _log(self) -> Path:
        return self._folder / "log"


def _session(ssh: BaseCommand, destination: str, master: _Master) -> SshMachine | None:
    """A shell of the host over its connection; None where the connection ended before there was one."""
    # Plumbum's own limit of time waits for what it should break off.
    watch = threading.Timer(LOGIN_S, master.kill)
    watch.start()
    try:
        return SshMachine(
            destination,
            ssh_command=ssh,
            scp_command=ssh,  # never called: a host may have no part of it
            ssh_opts=("-T", "-S", str(master.control), *_options(_SESSION_OPTIONS)),
            connect_timeout=None,
            new_session=True,
        )
    except (EOFError, ProcessExecutionError):
        return None
    finally:
        watch.cancel()


def _place() -> Path:
    """Where the folders with the connections' sockets are made."""
    chosen = tempfile.gettempdir()
    return Path(chosen if len(os.fsencode(chosen)) <= LONGEST_FOLDER else "/tmp")


def _options(named: Mapping[str, str]) -> list[str]:
    return [word for name, value in named.items() for word in ("-o", f"{name}={value}")]
