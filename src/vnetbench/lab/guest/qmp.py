"""Client of QEMU's monitor (QMP): commands and replies as lines of JSON over a UNIX socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vnetbench.lab.errors import TrialFailed

REPLY_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 1 << 24


class MonitorError(TrialFailed):
    """QEMU refused a command or does not reply."""


class Monitor:
    """A connection to the monitor of one QEMU. It runs one command at a time and ignores events."""

    def __init__(self, path: Path) -> None:
        """Connect; raises OSError if nothing listens, MonitorError if it is not a monitor."""
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(REPLY_TIMEOUT_S)
        self._replies = self._socket.makefile("rb")
        try:
            self._socket.connect(str(path))
            self._read_message()  # The greeting.
            self.execute("qmp_capabilities")
        except BaseException:
            self.close()
            raise

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command and return QEMU's reply; raises MonitorError."""
        return self._execute(command, arguments, ())

    def pass_descriptor(self, name: str, descriptor: int) -> None:
        """Give QEMU a copy of an open file, as `fd:NAME`; raises MonitorError.

        A sandboxed QEMU starts no program, and it opens no file on behalf of the monitor.
        """
        self._execute("getfd", {"fdname": name}, (descriptor,))

    def _execute(self, command: str, arguments: Mapping[str, Any], descriptors: Sequence[int]) -> Any:
        with self._lock:
            line = json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
            try:
                sent = socket.send_fds(self._socket, [line], descriptors) if descriptors else 0
                self._socket.sendall(line[sent:])
            except OSError as error:
                raise MonitorError(f"QEMU does not reply ({error})") from error
            while "return" not in (reply := self._read_message()):
                if "error" in reply:
                    raise MonitorError(f"QEMU refused {command}: {reply['error'].get('desc')}")
            return reply["return"]

    def close(self) -> None:
        """Close the connection."""
        # The descriptor stays open until its file is closed too.
        with suppress(OSError):
            self._replies.close()
        with suppress(OSError):
            self._socket.close()

    def _read_message(self) -> dict[str, Any]:
        try:
            line = self._replies.readline(_MAX_MESSAGE_BYTES)
            message = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise MonitorError(f"QEMU does not reply ({error})") from error
        if not isinstance(message, dict):
            raise MonitorError("QEMU has closed its monitor")
        return message
