"""One QEMU process: starts it, queries it, ends it, and reports the guest's last console lines."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest.hardware import QemuRuntimeFiles
from vnetbench.lab.guest.qmp import Monitor, MonitorError
from vnetbench.lab.registry import PROCESS_LABEL
from vnetbench.process import format_exit_status

START_TIMEOUT_S = 15.0
EXIT_CODE_TIMEOUT_S = 2.0
_CONSOLE_LINES = 4
_MAX_LINE_LENGTH = 160
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f]")
_TIMESTAMP = re.compile(r"^\[ *[0-9.]+\] ")


class QemuEnded(TrialFailed):
    """A guest's QEMU has ended or did not start."""


class QemuProcess:
    """A running QEMU. Close it after use."""

    def __init__(
        self,
        command: Sequence[str],
        files: QemuRuntimeFiles,
        testbed_name: str,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Start `command`, whose process carries the testbed's name. Raises QemuEnded or BenchError."""
        self.files = files
        self._kill_reason = ""
        try:
            with files.qemu_log.open("wb") as log:
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, PROCESS_LABEL: testbed_name},
                    pass_fds=descriptors,
                    start_new_session=True,  # The bench handles Ctrl-C of the terminal.
                )
        except OSError as error:
            raise BenchError(f"{command[0]} does not start: {error.strerror}", where=command[0]) from error
        try:
            self.monitor = self._connect_monitor()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def pid(self) -> int:
        """QEMU's process id."""
        return self._process.pid

    def query(self, command: str) -> Any:
        """Return QEMU's reply to a monitor command; raises QemuEnded with the console's last lines."""
        try:
            return self.monitor.execute(command)
        except MonitorError as error:
            self.kill(str(error))
            raise QemuEnded(f"{self.files.file_stem}: {self.end_reason()}") from error

    def vcpu_threads(self) -> list[int]:
        """Return the thread ids of its vCPUs in their order; raises QemuEnded."""
        found = self.query("query-cpus-fast")
        return [int(each["thread-id"]) for each in sorted(found, key=lambda each: int(each["cpu-index"]))]

    def end_reason(self) -> str:
        """Return why QEMU has ended, with the last lines of its guest's console."""
        reason = self._kill_reason
        if not reason:
            try:
                code = self._process.wait(timeout=EXIT_CODE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                return self._append_logs("QEMU closed the connection")
            reason = f"QEMU was {format_exit_status(code)}" if code < 0 else "QEMU ended"
            if code > 0:
                reason += f" with {format_exit_status(code)}"
        return self._append_logs(reason)

    def kill(self, reason: str) -> None:
        """Kill QEMU; `end_reason` then returns `reason`, unless QEMU had ended by itself."""
        if self._process.poll() is None:
            self._kill_reason = self._kill_reason or reason
            self._process.kill()

    def close(self) -> None:
        """Kill QEMU in any state, because a guest has no data to lose."""
        self.monitor.close()
        self._process.kill()
        self._process.wait()

    def _connect_monitor(self) -> Monitor:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError, MonitorError):
                return Monitor(self.files.monitor_socket)
            time.sleep(0.02)
        raise QemuEnded(f"{self.files.file_stem}: {self._describe_start_failure()}")

    def _describe_start_failure(self) -> str:
        code = self._process.poll()
        if code is None:
            return f"QEMU did not open its monitor within {START_TIMEOUT_S:g} s"
        last = _last_or_panic_lines(self.files.qemu_log.read_text(errors="replace"), 1)
        return f"QEMU did not start ({format_exit_status(code)}{': ' if last else ''}{' '.join(last)})"

    def _append_logs(self, reason: str) -> str:
        console = qemu_output = ""
        with suppress(OSError):
            console = self.files.console_log.read_text(errors="replace")
            qemu_output = self.files.qemu_log.read_text(errors="replace")
        parts = [reason]
        if lines := _last_or_panic_lines(qemu_output, 1):
            parts.append(f"QEMU's output: {lines[0]}")
        if lines := _last_or_panic_lines(console, _CONSOLE_LINES):
            parts.append(f"the last lines on the guest's console are {' | '.join(lines)}")
        return "; ".join(parts)


def _last_or_panic_lines(text: str, max_lines: int) -> list[str]:
    """Return the last non-empty lines, or the first lines of a kernel panic."""
    stripped = (_TIMESTAMP.sub("", _ESCAPES.sub("", line)).strip() for line in text.splitlines())
    lines = [line[:_MAX_LINE_LENGTH] for line in stripped if line]
    for index, line in enumerate(lines):
        if line.startswith("Kernel panic"):
            return lines[index : index + max_lines]
    return lines[-max_lines:]
