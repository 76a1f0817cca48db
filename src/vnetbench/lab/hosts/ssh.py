"""Runs commands on machines: on hosts through the user's OpenSSH client, and on this machine."""

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

from plumbum import ProcessExecutionError, SshMachine, local
from plumbum.commands.base import BaseCommand
from plumbum.machines.local import LocalMachine

from vnetbench.errors import BenchError
from vnetbench.lab.hosts import bounded_output, ssh_errors
from vnetbench.lab.hosts.ssh_errors import HostUnreachable
from vnetbench.lab.registry import PROCESS_LABEL
from vnetbench.process import is_process_alive, read_own_process_identity

CONNECT_TIMEOUT_S = 10
KEEPALIVE_INTERVAL_S, KEEPALIVE_MAX_MISSED = 2, 4
"""The client ends a connection after this many unanswered keep-alives, sent at this interval."""
LOGIN_TIMEOUT_S = 20.0
"""Time limit from the first packet to a shell, which a slow name service at the host may delay."""
COMMAND_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 3.0
SSH_CLIENT_FAILURE_EXIT_CODE = 255
"""Exit code of OpenSSH's client for its own failures (ssh(1))."""
POLL_INTERVAL_S = 0.02
MAX_LOG_BYTES = 1 << 16
"""Part of a client's log that is read: a host can write to it without end."""
_FOLDER_PREFIX = "vnetbench-ssh-"
"""Prefix of local folders that hold the sockets of connections."""
MAX_SOCKET_PARENT_PATH_BYTES = 60
"""Longest parent of these folders: a socket's path has at most 107 bytes (unix(7)), and OpenSSH adds some."""
_SIGNAL_EXIT_CODES = {137: "killed by SIGKILL", 143: "killed by SIGTERM"}
"""Exit codes of a shell whose program was killed."""

_MASTER_OPTIONS = {
    "BatchMode": "yes",  # A campaign runs unattended, so it cannot answer prompts.
    "ConnectTimeout": str(CONNECT_TIMEOUT_S),
    "ServerAliveInterval": str(KEEPALIVE_INTERVAL_S),
    "ServerAliveCountMax": str(KEEPALIVE_MAX_MISSED),
    "LogLevel": "ERROR",  # Banners would hide the reason of a failure.
    "ControlMaster": "yes",
    "ControlPersist": "no",
    # Settings of the user's configuration that only fit interactive sessions.
    "ClearAllForwardings": "yes",
    "RemoteCommand": "none",
    "PermitLocalCommand": "no",
}
_SESSION_OPTIONS = {
    "ControlMaster": "no",
    # Without the master, a client would open its own connection and skip the options above.
    "ProxyCommand": "false",
    "LogLevel": "ERROR",
    "RemoteCommand": "none",
}

# plumbum logs what this module reports itself.
logging.getLogger("plumbum").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class CommandResult:
    """The outcome of a command."""

    exit_code: int
    output: str
    errors: str


class Machine:
    """A machine that runs commands. Close it after use."""

    def __init__(
        self, name: str, machine: LocalMachine | SshMachine, environment: Mapping[str, str] | None = None
    ) -> None:
        """Wrap a machine; `name` is for messages, `environment` is added to that of each command."""
        self.name = name
        self._machine = machine
        self._environment = environment

    def run(self, script: str, *arguments: str, input_file: Path | None = None) -> CommandResult:
        """Run a POSIX shell script with a file as its input.

        Raises:
            HostUnreachable: The command did not end in time.
            BenchError: It wrote more than any script of the bench does.
        """
        command: BaseCommand = self._machine["/bin/sh"]["-c", script, "vnetbench", *arguments]
        if input_file is not None:
            command = command < str(input_file)
        process = cast("subprocess.Popen[bytes]", command.popen(new_session=True, env=self._environment))
        if process.stdin is not None:
            process.stdin.close()
        try:
            output, errors = bounded_output.read_outputs(process, COMMAND_TIMEOUT_S)
            return CommandResult(process.returncode, output, errors)
        except bounded_output.OutputTooLong:
            raise BenchError(
                f"a command on the host wrote more than {bounded_output.MAX_OUTPUT_BYTES >> 20} MiB",
                where=self.name,
                fix="look for a login script on the host that writes without end (ssh HOST true)",
            ) from None
        except TimeoutError:
            raise HostUnreachable(
                f"a command on the host did not end in {COMMAND_TIMEOUT_S:g} s",
                where=self.name,
                fix="find out which programs keep the host busy",
            ) from None

    def start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program with pipes for input and output; it ends with the connection."""
        command = self._machine[program][arguments]
        process = command.popen(stderr=subprocess.DEVNULL, new_session=True, env=self._environment)
        return cast("subprocess.Popen[bytes]", process)  # plumbum's object delegates to a Popen.

    def format_exit_code(self, code: int) -> str:
        """Return `exit code N` for a program that `start` started. Over SSH, some codes have a text."""
        return f"exit code {code}"

    def close(self) -> None:
        """Close the connection and end what still runs over it."""


class SshHost(Machine):
    """A host with an open connection. `connect` makes it."""

    def __init__(self, name: str, machine: SshMachine, master: _SshMaster) -> None:
        super().__init__(name, machine)
        self._shell = machine
        self._master = master

    def run(self, script: str, *arguments: str, input_file: Path | None = None) -> CommandResult:
        """See Machine; also raises HostUnreachable if the connection is lost."""
        result = super().run(script, *arguments, input_file=input_file)
        if result.exit_code == SSH_CLIENT_FAILURE_EXIT_CODE:
            raise ssh_errors.connection_lost_error(self.name)
        return result

    def format_exit_code(self, code: int) -> str:
        """See Machine."""
        if code == SSH_CLIENT_FAILURE_EXIT_CODE:
            # A killed program has the same code.
            return "ssh was killed" if self._master.is_alive() else "the SSH connection was lost"
        return _SIGNAL_EXIT_CODES.get(code, super().format_exit_code(code))

    def close(self) -> None:
        """See Machine."""
        self._shell.close()
        self._master.close()


def local_machine(name: str, testbed_name: str) -> Machine:
    """Return the bench's own machine; its processes carry the testbed's name."""
    return Machine(name, local, {PROCESS_LABEL: testbed_name})


def connect(name: str, destination: str, testbed_name: str) -> SshHost:
    """Connect to a host as `ssh destination` would.

    Args:
        name: The host's name in the study.
        destination: As for ssh.
        testbed_name: The testbed's name, which marks the clients that run here.

    Raises:
        HostUnreachable: with the reason and the fix.
        BenchError: if there is no OpenSSH client.
    """
    program = shutil.which("ssh")
    if program is None:
        raise BenchError("OpenSSH's client is missing", where=name, fix="apt-get install openssh-client")
    # The client for a jump host does not inherit BatchMode, and must not prompt either.
    environment = {**os.environ, PROCESS_LABEL: testbed_name, "SSH_ASKPASS_REQUIRE": "never"}
    ssh = local[program].with_env(**environment)
    master = _SshMaster(ssh, destination)
    try:
        machine = master.wait_until_up() and _open_shell_if_connected(ssh, destination, master)
        if machine:
            return SshHost(name, machine, master)
        raise ssh_errors.connection_error(
            name, destination, master.read_log(), has_client_ended=master.has_ended()
        )
    except BaseException:
        master.close()
        raise


def remove_leftover_socket_folders() -> None:
    """Remove the socket folders of killed benches, whose connections have ended with them."""
    for folder in _socket_parent().glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError):  # Another bench has removed it.
            is_ours = folder.lstat().st_uid == os.geteuid()
            if is_ours and not is_process_alive((folder / "owner").read_text()):
                shutil.rmtree(folder)


class _SshMaster:
    """The shared connection to a host over which all commands run (ssh_config(5), ControlMaster)."""

    def __init__(self, ssh: BaseCommand, destination: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=_socket_parent()))
        (self._folder / "owner").write_text(read_own_process_identity())
        self.control = self._folder / "control"
        # `cat` ends with its input, and so with the bench however that ends; then the connection closes.
        command = ssh["-T", "-S", self.control, *_format_options(_MASTER_OPTIONS), destination, "cat"]
        with self._log_file().open("wb") as log:
            process = command.popen(stdout=subprocess.DEVNULL, stderr=log, new_session=True)
        self._process = cast("subprocess.Popen[bytes]", process)

    def wait_until_up(self) -> bool:
        """Wait until the connection is open; return False if it has failed."""
        deadline = time.monotonic() + CONNECT_TIMEOUT_S + LOGIN_TIMEOUT_S
        while not self.control.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL_S)
        return True

    def has_ended(self) -> bool:
        """Whether the client has ended by now."""
        return self._process.poll() is not None

    def is_alive(self) -> bool:
        """Whether the connection is open; waits briefly for one that is just ending."""
        try:
            self._process.wait(timeout=CLOSE_TIMEOUT_S / 10)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        """Close the connection at once and end what runs over it."""
        self._process.kill()

    def read_log(self) -> str:
        """Return the last part of what OpenSSH has logged."""
        with self._log_file().open("rb") as log:
            log.seek(-min(MAX_LOG_BYTES, self._log_file().stat().st_size), os.SEEK_END)
            return log.read(MAX_LOG_BYTES).decode(errors="replace").strip()

    def close(self) -> None:
        """Close the connection and remove its folder."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _log_file(self) -> Path:
        return self._folder / "log"


def _open_shell_if_connected(ssh: BaseCommand, destination: str, master: _SshMaster) -> SshMachine | None:
    """Open a shell on the host; return None if the connection ends first."""
    # plumbum's own timeout would wait for the very process that it should stop.
    timer = threading.Timer(LOGIN_TIMEOUT_S, master.kill)
    timer.start()
    try:
        return SshMachine(
            destination,
            ssh_command=ssh,
            scp_command=ssh,  # Never called, and the host may not support it.
            ssh_opts=("-T", "-S", str(master.control), *_format_options(_SESSION_OPTIONS)),
            connect_timeout=None,
            new_session=True,
        )
    except (EOFError, ProcessExecutionError):
        return None
    finally:
        timer.cancel()


def _socket_parent() -> Path:
    """Return the parent of the socket folders: the temporary folder, unless its path is too long."""
    folder = tempfile.gettempdir()
    return Path(folder if len(os.fsencode(folder)) <= MAX_SOCKET_PARENT_PATH_BYTES else "/tmp")


def _format_options(options: Mapping[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
