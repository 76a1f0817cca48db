"""Open files that others made: a pipe or device must not make the bench wait for ever."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from vnetbench.errors import BenchError


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    The check uses the opened file, so nobody can exchange the path after it.

    Raises:
        BenchError: The path names a pipe, a device or a directory.
        OSError: The file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BenchError("this is no regular file", where=str(path), fix="give a file")
    return os.fdopen(descriptor, "rb")


def read_bounded(path: Path, limit: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        BenchError: The file is no regular file or has more than `limit` bytes.
        OSError: The file cannot be read.
    """
    with open_regular_file(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise BenchError(
            f"the file has more than {limit // 2**20} MiB", where=str(path), fix="give a smaller file"
        )
    return content
