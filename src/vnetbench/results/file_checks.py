"""Check a results file and its journals before SQLite opens them: SQLite would act on what an attacker wrote.

A rollback journal may name a super-journal, which SQLite removes after the rollback, wherever it is. Its
header alone can give the file any size. A write-ahead log makes SQLite create files, also for a reader.
Opening a pipe waits for ever.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

from vnetbench.errors import BenchError

APPLICATION_ID = 0x764E4231  # "vNB1" in the SQLite header identifies the file, also for the program `file`
NOT_RESULTS_FILE_TEXT = "this is not a results file of vnetbench"

_SQLITE_HEADER_BYTES = b"SQLite format 3\0"
"""First bytes of every SQLite database (https://www.sqlite.org/fileformat2.html, 1.3.1)."""
_HEADER_LENGTH = 100
_ROLLBACK_JOURNAL_VERSIONS = b"\1\1"
"""Bytes 18 and 19 of the header; 2 stands for a write-ahead log (fileformat2.html, 1.3.3)."""
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Starts a rollback journal, and ends one that names a super-journal (fileformat2.html, 3)."""
_JOURNAL_HEADER_LENGTH = 28
_MAX_PAGE_BYTES = 65_536


def check_before_opening(path: Path) -> None:
    """Check file type, header and journals of a results file, without SQLite.

    Call it before this process has a connection to the file: closing a descriptor of a file releases all
    POSIX locks of the process on it, also those of SQLite.

    Raises:
        BenchError: This is no results file, or its journals could change other files.
        OSError: The file cannot be read.
    """
    if not path.exists():
        raise BenchError(
            "the file does not exist",
            where=str(path),
            fix="check the path; vnetbench run STUDY -o FILE creates one",
        )
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise BenchError("this is not a regular file", where=str(path), fix="name a .vnb file")
    header = _read_start(path)
    if header.startswith(_SQLITE_HEADER_BYTES) and len(header) == _HEADER_LENGTH:
        _check_header(path, header)
    # SQLite follows links, so it looks for journals in the target's folder.
    target = path.resolve()
    _check_journal(target.with_name(f"{target.name}-journal"), status)
    log = target.with_name(f"{target.name}-wal")
    if os.path.lexists(log):
        raise _write_ahead_log_error(path, log)


def has_sqlite_header(path: Path) -> bool:
    """Return whether the file starts like an SQLite database; a truncated header counts."""
    return _SQLITE_HEADER_BYTES.startswith(_read_start(path)[: len(_SQLITE_HEADER_BYTES)])


def _read_start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER_LENGTH)


def _check_header(path: Path, header: bytes) -> None:
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise BenchError(NOT_RESULTS_FILE_TEXT, where=str(path), fix="name a .vnb file")
    if header[18:20] != _ROLLBACK_JOURNAL_VERSIONS:
        raise _write_ahead_log_error(path, path)


def _write_ahead_log_error(path: Path, where: Path) -> BenchError:
    return BenchError(
        "the file has a write-ahead log, which vnetbench never writes",
        where=str(where),
        fix=f"if you trust the file: sqlite3 {path} 'PRAGMA journal_mode = DELETE'",
    )


def _check_journal(journal: Path, file: os.stat_result) -> None:
    """Raise BenchError if SQLite must not roll back with this journal of a file."""
    try:
        status = journal.lstat()
    except FileNotFoundError:
        return
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "the journal is not a regular file"
    elif status.st_uid not in (file.st_uid, os.geteuid(), 0):
        problem = "the journal belongs to another user than the file"
    elif _names_super_journal(journal, status.st_size):
        problem = (
            "the journal names another file, which a rollback would delete; vnetbench writes no such name"
        )
    elif _restored_size(journal) > file.st_size + status.st_size:
        problem = "the journal would give the file a size beyond what both contain"
    if problem:
        raise BenchError(
            problem,
            where=str(journal),
            fix="get the results file again from its author. To read it without the unfinished trial, remove "
            "this journal",
        )


def _restored_size(journal: Path) -> int:
    """Return the size in bytes that a rollback gives the file; 0 if the journal is not complete.

    SQLite enlarges the file to this size, whether or not the journal has the pages.
    """
    try:
        with journal.open("rb") as file:
            header = file.read(_JOURNAL_HEADER_LENGTH)
    except FileNotFoundError:  # its writer has just committed
        return 0
    if len(header) < _JOURNAL_HEADER_LENGTH or not header.startswith(_JOURNAL_MAGIC):
        return 0
    page_count, _, page_size = struct.unpack_from(">III", header, len(_JOURNAL_MAGIC) + 8)
    return int(page_count) * (int(page_size) or _MAX_PAGE_BYTES)


def _names_super_journal(journal: Path, size: int) -> bool:
    try:
        with journal.open("rb") as file:
            file.seek(max(0, size - len(_JOURNAL_MAGIC)))
            return file.read() == _JOURNAL_MAGIC
    except FileNotFoundError:  # its writer has just committed
        return False
