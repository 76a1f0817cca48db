"""Ways to reach an agent: a program of this machine, through pipes, be it the agent or the way to it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

CLOSING_TIMEOUT_S = 3.0
NO_ENDINGS: Mapping[int, str] = {}


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


def start(command: Sequence[str], label: str) -> PipeTransport:
    """Start an agent; `label` (the testbed's name) marks the process in its environment. Raises OSError."""
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "VNETBENCH_TESTBED": label},
        start_new_session=True,  # the terminal's Ctrl-C is the bench's to answer
    )
    return PipeTransport(process)


class PipeTransport:
    """An agent spoken with through the standard input and output of a child process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        closing_timeout_s: float = CLOSING_TIMEOUT_S,
        endings: Mapping[int, str] = NO_ENDINGS,
    ) -> None:
        """`endings` says what exit codes mean that are not the agent's own."""
        self._lock = threading.Lock()
        self._process = process
        self._closing_timeout_s = closing_timeout_s
        self._endings = endings

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
        return self._endings.get(code, f"exit code {code}")

    def close(self) -> None:
        """See Transport."""
        with self._lock:
            if self._process.stdin and not self._process.stdin.closed:
                try:
                    self._process.stdin.close()
                except BrokenPipeError:
                    self._process.stdin = None
        try:
            self._process.wait(timeout=self._closing_timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
