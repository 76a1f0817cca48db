"""QEMU's monitor (QMP): commands and their answers as lines of JSON over a UNIX socket."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from vnetbench.lab.errors import TrialFailed

ANSWER_TIMEOUT_S = 10.0


class MonitorError(TrialFailed):
    """QEMU refused a command, or answers no more."""


class Monitor:
    """The monitor of one QEMU. One command at a time; events are passed over."""

    def __init__(self, path: Path) -> None:
        """Connect; raises OSError where nothing listens, MonitorError where it is no monitor."""
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_TIMEOUT_S)
        try:
            self._socket.connect(str(path))
            self._answers = self._socket.makefile("rb")
            self._next()  # its greeting
        except BaseException:
            self._socket.close()
            raise
        self.do("qmp_capabilities")

    def do(self, command: str, **arguments: Any) -> Any:
        """What QEMU returns; raises MonitorError."""
        with self._lock:
            line = json.dumps({"execute": command, "arguments": arguments})
            try:
                self._socket.sendall(line.encode() + b"\n")
            except OSError as error:
                raise MonitorError(f"QEMU answers no more ({error})") from error
            while "return" not in (answer := self._next()):
                if "error" in answer:
                    raise MonitorError(f"QEMU refused {command}: {answer['error'].get('desc')}")
            return answer["return"]

    def close(self) -> None:
        """Leave it."""
        with suppress(OSError):
            self._socket.close()

    def _next(self) -> dict[str, Any]:
        try:
            line = self._answers.readline()
            message = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise MonitorError(f"QEMU answers no more ({error})") from error
        if not isinstance(message, dict):
            raise MonitorError("QEMU has closed its monitor")
        return message
