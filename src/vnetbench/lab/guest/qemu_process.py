"""One QEMU process: started, spoken with, and ended; and what its guest said last."""

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
from vnetbench.lab.guest.hardware import Files
from vnetbench.lab.guest.qmp import Monitor, MonitorError
from vnetbench.lab.registry import PROCESS_LABEL
from vnetbench.process import spell_end

STARTING_TIMEOUT_S = 15.0
ENDING_TIMEOUT_S = 2.0
_LAST_LINES = 4
_LONGEST_LINE = 160
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f]")
_STAMP = re.compile(r"^\[ *[0-9.]+\] ")


class MachineEnded(TrialFailed):
    """A guest's QEMU is gone, or never came."""


class Machine:
    """A running QEMU. It lives, and must be closed."""

    def __init__(
        self, command: Sequence[str], files: Files, label: str, descriptors: Sequence[int] = ()
    ) -> None:
        """Start `command`; `label` (the testbed's name) marks it. Raises MachineEnded, BenchError."""
        self.files = files
        self._killed_because = ""
        try:
            with files.said.open("wb") as said:
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env={**os.environ, PROCESS_LABEL: label},
                    pass_fds=descriptors,
                    start_new_session=True,  # the terminal's Ctrl-C is the bench's to answer
                )
        except OSError as error:
            raise BenchError(f"{command[0]} does not start: {error.strerror}", where=command[0]) from error
        try:
            self.monitor = self._reach_monitor()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def pid(self) -> int:
        """QEMU's process id."""
        return self._process.pid

    def ask(self, command: str) -> Any:
        """What QEMU answers; raises MachineEnded, with the guest's last words, where it does not."""
        try:
            return self.monitor.do(command)
        except MonitorError as error:
            self.kill(str(error))
            raise MachineEnded(f"{self.files.name}: {self.how_it_ended()}") from error

    def vcpu_threads(self) -> list[int]:
        """The thread ids of its vCPUs, in their order; raises MachineEnded."""
        found = self.ask("query-cpus-fast")
        return [int(each["thread-id"]) for each in sorted(found, key=lambda each: int(each["cpu-index"]))]

    def how_it_ended(self) -> str:
        """Why it is gone, with the last lines that its guest wrote, for an error message."""
        why = self._killed_because
        if not why:
            try:
                code = self._process.wait(timeout=ENDING_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                return self._with_console("its QEMU closed the line")
            why = f"its QEMU was {spell_end(code)}" if code < 0 else "its QEMU ended"
            if code > 0:
                why += f" with {spell_end(code)}"
        return self._with_console(why)

    def kill(self, why: str) -> None:
        """End it at once; `why` is what `how_it_ended` says then, unless it has ended by itself."""
        if self._process.poll() is None:
            self._killed_because = self._killed_because or why
            self._process.kill()

    def close(self) -> None:
        """End it, whatever state it is in: a guest has nothing to lose."""
        self.monitor.close()
        self._process.kill()
        self._process.wait()

    def _reach_monitor(self) -> Monitor:
        deadline = time.monotonic() + STARTING_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError, MonitorError):
                return Monitor(self.files.monitor)
            time.sleep(0.02)
        raise MachineEnded(f"{self.files.name}: {self._why_not_started()}")

    def _why_not_started(self) -> str:
        code = self._process.poll()
        if code is None:
            return f"its QEMU did not open its monitor within {STARTING_TIMEOUT_S:g} s"
        last = _last_lines(self.files.said.read_text(errors="replace"), 1)
        return f"its QEMU did not start ({spell_end(code)}{': ' if last else ''}{' '.join(last)})"

    def _with_console(self, why: str) -> str:
        console = said = ""
        with suppress(OSError):
            console = self.files.console.read_text(errors="replace")
            said = self.files.said.read_text(errors="replace")
        parts = [why]
        if lines := _last_lines(said, 1):
            parts.append(f"QEMU said: {lines[0]}")
        if lines := _last_lines(console, _LAST_LINES):
            parts.append(f"last on the guest's console: {' | '.join(lines)}")
        return "; ".join(parts)


def _last_lines(text: str, most: int) -> list[str]:
    """The last lines that say something; of a kernel's panic those from its beginning on."""
    lines = [_STAMP.sub("", _ESCAPES.sub("", line)).strip()[:_LONGEST_LINE] for line in text.splitlines()]
    lines = [line for line in lines if line]
    for place, line in enumerate(lines):
        if line.startswith("Kernel panic"):
            return lines[place : place + most]
    return lines[-most:]
