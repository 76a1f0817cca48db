"""Open results files: check that a file is intact and of a known version, and translate SQLite's errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vnetbench.errors import BenchError

APPLICATION_ID = 0x764E4231  # "vNB1" in the SQLite header identifies the file, also for the program `file`
SCHEMA_VERSION = 5

_NOT_RESULTS_FILE_TEXT = "this is not a results file of vnetbench"
_SQLITE_HEADER_BYTES = b"SQLite format 3\0"
"""First bytes of every SQLite database (https://www.sqlite.org/fileformat2.html, 1.3.1)."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect with an SQLite URI mode: ro, rw, or rwc for a new file."""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=20, check_same_thread=False
    )
    db.execute("PRAGMA foreign_keys = ON")
    if mode != "ro":
        db.execute("PRAGMA synchronous = FULL")  # a trial is durable before it is announced
    return db


def roll_back_unfinished_write(path: Path) -> None:
    """Roll back the unfinished transaction of a killed writer, which a read-only connection cannot."""
    journal = path.with_name(path.name + "-journal")
    if journal.exists() and path.exists() and os.access(path, os.W_OK):
        db = connect(path, "rw")
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            db.close()


def open_checked_database(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to a file after checking its type, version and integrity; raises BenchError."""
    if not path.exists():
        raise BenchError(
            "the file does not exist",
            where=str(path),
            fix="check the path; vnetbench run STUDY -o FILE creates one",
        )
    db = connect(path, mode)
    try:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise BenchError(_NOT_RESULTS_FILE_TEXT, where=str(path), fix="name a .vnb file")
        if version > SCHEMA_VERSION:
            raise BenchError(
                f"a newer vnetbench wrote this file (schema {version}, but this version reads schemas up to "
                f"{SCHEMA_VERSION})",
                where=str(path),
                fix="install the newer vnetbench",
            )
        problems = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
        if problems != ["ok"]:
            raise sqlite3.DatabaseError(f"malformed: {problems[0]}")
        _check_file_length(path, db)
        if db.execute("SELECT count(*) FROM campaign").fetchone() != (1,):
            raise BenchError(
                "the file contains no campaign",
                where=str(path),
                fix="remove the file and run the study again",
            )
    except BaseException:
        db.close()
        raise
    return db


def _check_file_length(path: Path, db: sqlite3.Connection) -> None:
    """Check the file's length: SQLite reads a missing last page as empty, and its quick check accepts that.

    The header has the number of pages (https://www.sqlite.org/fileformat2.html, 1.3.7).
    """
    with db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on, no other process writes
        (page_size,) = db.execute("PRAGMA page_size").fetchone()
        with path.open("rb") as file:
            pages = int.from_bytes(file.read(32)[28:], "big")
        if path.stat().st_size < pages * page_size:
            raise sqlite3.DatabaseError(f"it has {path.stat().st_size} of {pages * page_size} bytes")


def _has_sqlite_header(path: Path) -> bool:
    """Return whether the file starts like an SQLite database; a truncated header counts."""
    with path.open("rb") as file:
        return _SQLITE_HEADER_BYTES.startswith(file.read(len(_SQLITE_HEADER_BYTES)))


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the file system into BenchError with a fix."""
    try:
        yield
    except OSError as error:
        raise BenchError(
            f"cannot use the file: {error.strerror}", where=str(path), fix="choose another file with -o"
        ) from error
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            what, fix = (
                f"the disk is full or has failed ({text})",
                f"free disk space, then: vnetbench resume {path}",
            )
        elif "not a database" in text and not _has_sqlite_header(path):
            what, fix = _NOT_RESULTS_FILE_TEXT, "name a .vnb file. Unpack a compressed file (.gz, .xz) first"
        elif "malformed" in text or "not a database" in text:
            what = f"the file is damaged or truncated ({text})"
            fix = f'copy the file again; `sqlite3 {path} ".recover"` recovers readable data'
        elif "unable to open" in text or "readonly" in text:
            what, fix = (
                f"cannot open the file ({text})",
                "check that you may write to the file and its folder",
            )
        elif "locked" in text:
            what, fix = f"another program uses the file ({text})", "wait until that program ends"
        else:
            what, fix = f"cannot use the file ({text})", "check that the file is an intact results file"
        raise BenchError(what, where=str(path), fix=fix) from error
