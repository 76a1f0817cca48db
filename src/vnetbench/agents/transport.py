"""Ways to reach an agent: today a program on this machine, through pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

CLOSING_TIMEOUT_S = 3.0


class Transport(Protocol):
    """A two-way stream of lines."""

    def write_line(self, line: bytes) -> None:
        """Send one line (without its end); raises OSError when the stream is closed."""

    def lines(self) -> Iterator[bytes]:
        """Lines as they come, until the stream ends."""

    def how_it_ended(self) -> str:
        """Why the stream ended, for an error message."""

    def close(self) -> None:
        """Close both ways, and end what this transport started."""


class PipeTransport:
    """An agent started as a child process, spoken with through its standard input and output."""

    def __init__(self, command: Sequence[str], label: str) -> None:
        """Start `command`; `label` (the testbed's name) marks the process in its environment."""
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "VNETBENCH_TESTBED": label},
            start_new_session=True,  # the terminal's Ctrl-C is the bench's to answer
        )

    @property
    def pid(self) -> int:
        """The agent's process id."""
        return self._process.pid

    def write_line(self, line: bytes) -> None:
        """See Transport."""
        assert self._process.stdin is not None
        with self._lock:
            try:
                self._process.stdin.write(line + b"\n")
                self._process.stdin.flush()
            except ValueError as error:
                raise BrokenPipeError("the agent's input is closed") from error

    def lines(self) -> Iterator[bytes]:
        """See Transport."""
        assert self._process.stdout is not None
        with self._process.stdout as output:
            yield from output

    def how_it_ended(self) -> str:
        """See Transport."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def close(self) -> None:
        """See Transport."""
        with self._lock:
            if self._process.stdin and not self._process.stdin.closed:
                try:
                    self._process.stdin.close()
                except BrokenPipeError:
                    self._process.stdin = None
        try:
            self._process.wait(timeout=CLOSING_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
