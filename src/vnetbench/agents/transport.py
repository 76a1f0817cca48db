"""Ways to reach an agent: a program of this machine through pipes, a guest's virtio port through a socket."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from vnetbench.process import spell_end

CLOSING_TIMEOUT_S = 3.0
HELLO_AGAIN_S = 2.0
_RECEIVED_BYTES = 1 << 16


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
        ending: Callable[[int], str] = spell_end,
    ) -> None:
        """`ending` puts an exit code into words."""
        self._lock = threading.Lock()
        self._process = process
        self._closing_timeout_s = closing_timeout_s
        self._ending = ending

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
        return spell_end(code) if code < 0 else self._ending(code)

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


class SocketTransport:
    """An agent that serves one host after the other on a port, which a UNIX socket leads to."""

    def __init__(self, path: Path, how_it_ended: Callable[[], str], timeout_s: float) -> None:
        """Connect, and wait until the agent answers us; `how_it_ended` knows why the other end is gone.

        Raises OSError where nothing listens at `path`, ConnectionError where it ends, TimeoutError.
        """
        self.how_it_ended = how_it_ended
        self.heard = 0
        """So many times something has come."""
        self._lock = threading.Lock()
        self._received = bytearray()
        self._hello = _hello(secrets.token_hex(8))
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
            self._meet(timeout_s)
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(None)

    def ask_for_a_sign(self) -> None:
        """Have the agent say something, which nobody waits for but who looks at `heard`.

        Where the way there is full it is not asked, and says nothing: who looks must not hang with it.
        """
        if self._lock.acquire(blocking=False):
            try:
                with suppress(OSError):
                    self._socket.send(self._hello + b"\n", socket.MSG_DONTWAIT)
            finally:
                self._lock.release()

    def write_line(self, line: bytes) -> None:
        """See Transport."""
        with self._lock:
            self._socket.sendall(line + b"\n")

    def lines(self) -> Iterator[bytes]:
        """See Transport."""
        while True:
            yield from self._whole_lines()
            try:
                received = self._socket.recv(_RECEIVED_BYTES)
            except OSError:
                return
            if not received:
                return
            self.heard += 1
            self._received += received

    def close(self) -> None:
        """See Transport; the agent sees that its host has left, and what that had begun ends."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _meet(self, timeout_s: float) -> None:
        """Wait for the answer to our hello: what comes before it was for who was here before us.

        It is said again as long as no answer comes: the port may just be changing hands.
        """
        deadline = time.monotonic() + timeout_s
        self._socket.settimeout(HELLO_AGAIN_S)
        while time.monotonic() < deadline:
            # The empty line ends what another has begun to say.
            self.write_line(b"\n" + self._hello)
            with suppress(TimeoutError):
                while received := self._socket.recv(_RECEIVED_BYTES):
                    self._received += received
                    if any(_answers(line, self._hello) for line in self._whole_lines()):
                        return
                raise ConnectionError(self.how_it_ended())
        raise TimeoutError(f"no answer within {timeout_s:g} s")

    def _whole_lines(self) -> Iterator[bytes]:
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            yield line


def _hello(name: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": "agent.hello"}).encode()


def _answers(line: bytes, request: bytes) -> bool:
    try:
        answer = json.loads(line)
    except ValueError:
        return False
    return isinstance(answer, dict) and answer.get("id") == json.loads(request)["id"]
