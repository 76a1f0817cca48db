"""The lock that a bench holds on its results file for a whole session.

A process id cannot keep a second bench out: it means nothing in another PID namespace or on another machine
that has the folder mounted. The kernel releases this lock when the bench ends in any way.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_LOCKED_BYTE = 1 << 62
"""Position of the locked byte: far beyond the data and beyond the bytes that SQLite locks."""


class WriterLock:
    """An open file description lock (fcntl(2)) on one byte of a results file.

    Unlike a lock of a process, it stays if the process opens and closes the file again.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Open a file, or create it with `create`; does not lock it yet.

        Raises:
            FileExistsError: The file to create exists, or is a link.
            OSError: The file cannot be opened to write.
        """
        self._descriptor = os.open(
            path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0), 0o666
        )

    def acquire(self) -> bool:
        """Lock the file until `close`; return False if another session has locked it."""
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _lock_request())
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release the lock. Close SQLite's connection first: closing releases its locks too."""
        os.close(self._descriptor)


def is_locked_by_writer(path: Path) -> bool:
    """Return whether a session has locked this file; raises OSError.

    Call it before this process has a connection to the file (see `WriterLock.close`).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_request())
    finally:
        os.close(descriptor)
    (lock_type, *_) = struct.unpack(_FLOCK_FORMAT, answer)
    return bool(lock_type != fcntl.F_UNLCK)


_FLOCK_FORMAT = "hhqqi0q"
"""Layout of `struct flock`, padded at its end: type, whence, start, length, process."""


def _lock_request() -> bytes:
    return struct.pack(_FLOCK_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_BYTE, 1, 0)
