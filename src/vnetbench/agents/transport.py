"""Transports to an agent: pipes to a local process, or a UNIX socket to a guest's virtio port."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import select
import socket
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from vnetbench.process import BENCH_IDENTITY_VARIABLE, format_exit_status, read_own_process_identity

CLOSE_TIMEOUT_S = 3.0
HELLO_INTERVAL_S = 2.0
_RECEIVE_BUFFER_BYTES = 1 << 18
"""An agent sends several samples at once. A large buffer reads them in a few calls."""
MAX_LINE_BYTES = 1 << 23
"""Longest line of an agent. A sample of 1,000 streams has less than 1 MB."""
MAX_LINE_VALUES = 1 << 18
"""Most values in a line: a value takes up to 100 times the memory of its two bytes in the line. A sample of
1,000 streams has less than 60,000."""
WRITE_TIMEOUT_S = 15.0
"""Time for an agent to read a request. An agent always reads, so one that does not is stopped or hung."""
UNREAD_POLL_INTERVAL_S = 0.005
_NO_READ_REASON = f"it did not read a request for {WRITE_TIMEOUT_S:g} s"
_ENDLESS_LINE_REASON = f"it sent a line of more than {MAX_LINE_BYTES >> 20} MiB"


class Transport(Protocol):
    """A bidirectional stream of lines."""

    def write_line(self, line: bytes) -> None:
        """Send one line, given without its newline; raises OSError if the stream is closed."""

    def lines(self) -> Iterator[bytes]:
        """Yield each received line until the stream ends."""

    def end_reason(self) -> str:
        """Return why the stream ended, for an error message."""

    def close(self) -> None:
        """Close both directions and end the process that this transport started."""


def spawn_process(command: Sequence[str], testbed_name: str) -> PipeTransport:
    """Start an agent as a child process.

    Args:
        command: The program and its arguments.
        testbed_name: The testbed's name, which marks the process in its environment.

    Raises:
        OSError: if the program does not start.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=_RECEIVE_BUFFER_BYTES,
        env={
            **os.environ,
            "VNETBENCH_TESTBED": testbed_name,
            BENCH_IDENTITY_VARIABLE: read_own_process_identity(),
        },
        start_new_session=True,  # The bench, not the agent, handles Ctrl-C of the terminal.
    )
    assert process.stdout is not None
    with suppress(OSError):  # The user has too many pipes. A smaller one works too.
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _RECEIVE_BUFFER_BYTES)
    return PipeTransport(process)


class PipeTransport:
    """A transport over the standard input and output of a child process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        closing_timeout_s: float = CLOSE_TIMEOUT_S,
        format_exit_code: Callable[[int], str] = format_exit_status,
    ) -> None:
        """Wrap a running process; `format_exit_code` returns the text of an exit code."""
        self._lock = threading.Lock()
        self._process = process
        self._closing_timeout_s = closing_timeout_s
        self._has_endless_line = False
        self._has_stopped_reading = False
        self._format_exit_code = format_exit_code
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)

    @property
    def pid(self) -> int:
        """The agent's process id."""
        return self._process.pid

    def write_line(self, line: bytes) -> None:
        """See Transport."""
        assert self._process.stdin is not None
        with self._lock:
            try:
                descriptor = self._process.stdin.fileno()
            except ValueError as error:
                raise BrokenPipeError("the agent's standard input is closed") from error
            try:
                _write_with_timeout(descriptor, line + b"\n", partial(os.write, descriptor))
            except TimeoutError:
                self._has_stopped_reading = True
                raise

    def lines(self) -> Iterator[bytes]:
        """See Transport."""
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while line := output.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    self._has_endless_line = True
                    return
                yield line

    def end_reason(self) -> str:
        """See Transport."""
        if self._has_endless_line:
            return _ENDLESS_LINE_REASON
        if self._has_stopped_reading:
            return _NO_READ_REASON
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "it closed its standard output"
        return format_exit_status(code) if code < 0 else self._format_exit_code(code)

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
    """A transport over a UNIX socket to an agent that serves one client after the other."""

    def __init__(self, path: Path, end_reason: Callable[[], str], timeout_s: float) -> None:
        """Connect and wait until the agent answers.

        Args:
            path: The UNIX socket.
            end_reason: Returns why the other end closed the connection.
            timeout_s: Limit for the agent's first answer.

        Raises:
            OSError: if nothing listens at `path`.
            ConnectionError: if the other end closes the connection.
            TimeoutError: if the agent does not answer in time.
        """
        self._peer_end_reason = end_reason
        self._has_endless_line = False
        self._has_stopped_reading = False
        self.receive_count = 0
        """Number of times that data has arrived."""
        self._lock = threading.Lock()
        self._received = bytearray()
        self._hello_request = _hello_request(secrets.token_hex(8))
        self._successor: socket.socket | None = None
        self._is_holding = False
        self._held_lines: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
            self._discard_until_hello_reply(timeout_s)
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(None)

    def end_reason(self) -> str:
        """See Transport."""
        if self._has_stopped_reading:
            return _NO_READ_REASON
        return _ENDLESS_LINE_REASON if self._has_endless_line else self._peer_end_reason()

    def request_heartbeat(self) -> None:
        """Request any answer from the agent, which increments `receive_count`.

        Does nothing if the socket's buffer is full, so that the caller never blocks on a hung agent.
        """
        if self._lock.acquire(blocking=False):
            try:
                if not self._is_holding:
                    with suppress(OSError):
                        self._socket.send(self._hello_request + b"\n", socket.MSG_DONTWAIT)
            finally:
                self._lock.release()

    def hold_writes(self, timeout_s: float) -> None:
        """Keep later lines back, and wait until the other end has read all earlier ones.

        Raises:
            TimeoutError: if it has not read them in time.
            OSError: if the stream is closed.
        """
        with self._lock:
            self._is_holding = True
        deadline = time.monotonic() + timeout_s
        while self._count_unread_bytes():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the agent did not read its requests within {timeout_s:g} s")
            time.sleep(UNREAD_POLL_INTERVAL_S)

    def release_writes(self) -> None:
        """Send the lines that were kept back; raises OSError if the stream is closed."""
        with self._lock:
            self._is_holding = False
            held, self._held_lines = self._held_lines, []
            for line in held:
                self._write(line)

    def continue_at(self, successor: socket.socket, end_reason: Callable[[], str]) -> None:
        """Continue the stream at another socket, to which the agent has moved in the middle of it.

        Later lines go there. What the old socket still holds is read first, until its other end closes it.

        Args:
            successor: The connected socket.
            end_reason: Returns why the other end of `successor` closed the connection.
        """
        with self._lock:
            self._successor = successor
            self._peer_end_reason = end_reason

    def write_line(self, line: bytes) -> None:
        """See Transport."""
        with self._lock:
            if self._is_holding:
                self._held_lines.append(line)
            else:
                self._write(line)

    def _write(self, line: bytes) -> None:
        target = self._successor or self._socket
        try:
            _write_with_timeout(
                target.fileno(), line + b"\n", lambda data: target.send(data, socket.MSG_DONTWAIT)
            )
        except TimeoutError:
            self._has_stopped_reading = True
            raise

    def lines(self) -> Iterator[bytes]:
        """See Transport."""
        while True:
            yield from self._take_complete_lines()
            try:
                received = self._socket.recv(_RECEIVE_BUFFER_BYTES)
            except OSError:
                received = b""
            if not received and not self._move_to_successor():
                return
            self.receive_count += 1
            self._received += received
            if self._is_line_endless():
                return

    def close(self) -> None:
        """See Transport. The agent notices the closed connection and stops what this client started."""
        with self._lock:
            sockets = [each for each in (self._socket, self._successor) if each is not None]
            self._successor = None
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _move_to_successor(self) -> bool:
        """Read from the successor from now on; return False if there is none."""
        with self._lock:
            if self._successor is None:
                return False
            self._socket.close()
            self._socket, self._successor = self._successor, None
            return True

    def _count_unread_bytes(self) -> int:
        """Return the bytes that the other end has not read (SIOCOUTQ of unix(7))."""
        answer = fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(struct.calcsize("i")))
        return int(struct.unpack("i", answer)[0])

    def _discard_until_hello_reply(self, timeout_s: float) -> None:
        """Wait for the reply to our hello and drop earlier data, which was meant for an earlier client.

        Repeats the hello until a reply arrives, because the port may still serve the earlier client.
        """
        deadline = time.monotonic() + timeout_s
        self._socket.settimeout(HELLO_INTERVAL_S)
        while time.monotonic() < deadline:
            # The empty line ends a partial line of the earlier client.
            self.write_line(b"\n" + self._hello_request)
            with suppress(TimeoutError):
                while received := self._socket.recv(_RECEIVE_BUFFER_BYTES):
                    self._received += received
                    if self._is_line_endless():
                        break
                    if any(_is_reply_to(line, self._hello_request) for line in self._take_complete_lines()):
                        return
                    if time.monotonic() >= deadline:  # it sends without end, but no answer
                        raise TimeoutError
                raise ConnectionError(self.end_reason())
        raise TimeoutError(f"no answer within {timeout_s:g} s")

    def _is_line_endless(self) -> bool:
        """Return whether the buffered line is longer than an agent's; the connection is then useless."""
        self._has_endless_line = len(self._received) > MAX_LINE_BYTES and b"\n" not in self._received
        return self._has_endless_line

    def _take_complete_lines(self) -> Iterator[bytes]:
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            yield line


def _write_with_timeout(descriptor: int, data: bytes, write: Callable[[bytes], int]) -> None:
    """Write all data; raises TimeoutError if the other end does not read it in WRITE_TIMEOUT_S.

    Args:
        descriptor: What is written to.
        data: The data.
        write: Writes a part without blocking, and returns its length.
    """
    deadline = time.monotonic() + WRITE_TIMEOUT_S
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    while data:
        try:
            data = data[write(data) :]
        except BlockingIOError:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(_NO_READ_REASON) from None
            poll.poll(1000 * left_s)


def has_too_many_values(line: bytes) -> bool:
    """Return whether the JSON values of a line could take much memory. It counts what may begin a value."""
    return sum(line.count(each) for each in (b",", b"[", b"{")) > MAX_LINE_VALUES


def parse_message_or_none(line: bytes) -> Any:
    """Return the JSON value of a line; None if it is no JSON, or is too large or nested to be a message."""
    if has_too_many_values(line):
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _hello_request(name: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": "agent.hello"}).encode()


def _is_reply_to(line: bytes, request: bytes) -> bool:
    answer = parse_message_or_none(line)
    return isinstance(answer, dict) and answer.get("id") == json.loads(request)["id"]
