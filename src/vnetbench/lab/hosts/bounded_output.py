"""The output of a command on a host, bounded in size and time: the host may send without end."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from typing import IO

MAX_OUTPUT_BYTES = 1 << 22
"""Most output of a command. The addresses of 10,000 interfaces take less than 3 MB."""
_CHUNK_BYTES = 1 << 16


class OutputTooLong(Exception):
    """The command wrote more than MAX_OUTPUT_BYTES."""


def read_outputs(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[str, str]:
    """Return what a process writes to its standard output and its standard error, until it ends.

    A process that writes too much or takes too long is killed.

    Raises:
        OutputTooLong: It writes more than MAX_OUTPUT_BYTES to both together.
        TimeoutError: It does not end in `timeout_s`.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        outputs = _read_until_closed_or_raise((process.stdout, process.stderr), time.monotonic() + timeout_s)
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
    output, errors = (bytes(each).decode(errors="ignore") for each in outputs)
    return output, errors


def _read_until_closed_or_raise(
    files: tuple[IO[bytes], IO[bytes]], deadline: float
) -> tuple[bytearray, bytearray]:
    """Return all that is written; raises OutputTooLong above MAX_OUTPUT_BYTES, or TimeoutError."""
    outputs = (bytearray(), bytearray())
    with selectors.DefaultSelector() as selector:
        for file, output in zip(files, outputs, strict=True):
            selector.register(file, selectors.EVENT_READ, output)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            if sum(map(len, outputs)) > MAX_OUTPUT_BYTES:
                raise OutputTooLong
    return outputs
