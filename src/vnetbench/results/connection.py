"""Opening a results file: that it is whole, ours and of a version that we read; SQLite's errors in words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vnetbench.errors import BenchError

APPLICATION_ID = 0x764E4231  # "vNB1", in the SQLite header: `file` and we know the file by it
SCHEMA_VERSION = 2

_NOT_OURS = "this is not a results file of vnetbench"
_MAGIC = b"SQLite format 3\0"
"""What every database begins with (https://www.sqlite.org/fileformat2.html, 1.3.1)."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection as SQLite's URI modes say: ro, rw, or rwc for a new file."""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=20, check_same_thread=False
    )
    db.execute("PRAGMA foreign_keys = ON")
    if mode != "ro":
        db.execute("PRAGMA synchronous = FULL")  # a trial is durable before it is announced
    return db


def undo_half_a_trial(path: Path) -> None:
    """Let SQLite roll back what a killed writer began: a connection that only reads may not."""
    journal = path.with_name(path.name + "-journal")
    if journal.exists() and path.exists() and os.access(path, os.W_OK):
        db = connect(path, "rw")
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            db.close()


def checked(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to a file that is whole, ours, and of a version that we read."""
    if not path.exists():
        raise BenchError(
            "there is no such file", where=str(path), fix="vnetbench run STUDY -o FILE makes one"
        )
    db = connect(path, mode)
    try:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise BenchError(_NOT_OURS, where=str(path), fix="name a .vnb file")
        if version > SCHEMA_VERSION:
            raise BenchError(
                f"this file was written by a newer vnetbench (schema {version}, this one reads up to "
                f"{SCHEMA_VERSION})",
                where=str(path),
                fix="install the newer vnetbench and open it with that",
            )
        problems = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
        if problems != ["ok"]:
            raise sqlite3.DatabaseError(f"malformed: {problems[0]}")
        _check_length(path, db)
        if db.execute("SELECT count(*) FROM campaign").fetchone() != (1,):
            raise BenchError(
                "the campaign in this file was never begun", where=str(path), fix="remove it and run again"
            )
    except BaseException:
        db.close()
        raise
    return db


def _check_length(path: Path, db: sqlite3.Connection) -> None:
    """SQLite reads a missing last page as an empty one, and its quick check lets that pass.

    The header keeps how many pages there are (https://www.sqlite.org/fileformat2.html, 1.3.7).
    """
    with db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on nobody else writes
        (page_size,) = db.execute("PRAGMA page_size").fetchone()
        with path.open("rb") as file:
            pages = int.from_bytes(file.read(32)[28:], "big")
        if path.stat().st_size < pages * page_size:
            raise sqlite3.DatabaseError(f"malformed: {path.stat().st_size} bytes of {pages * page_size}")


def _begins_as_a_database(path: Path) -> bool:
    """Whether it is a database of SQLite, or what is left of one."""
    with path.open("rb") as file:
        return _MAGIC.startswith(file.read(len(_MAGIC)))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """The errors of SQLite and of the file system in words that say what, where and the fix."""
    try:
        yield
    except OSError as error:
        raise BenchError(
            f"the file cannot be used ({error.strerror})", where=str(path), fix="name another file with -o"
        ) from error
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            what, fix = f"the disk is full or failed ({text})", f"make room, then: vnetbench resume {path}"
        elif "not a database" in text and not _begins_as_a_database(path):
            what, fix = _NOT_OURS, "name a .vnb file; one that is packed (.gz, .xz) has to be unpacked first"
        elif "malformed" in text or "not a database" in text:
            what = f"the file is damaged or was cut short ({text})"
            fix = f'get it again from where it came; `sqlite3 {path} ".recover"` saves what can be saved'
        elif "unable to open" in text or "readonly" in text:
            what, fix = (
                f"the file cannot be opened ({text})",
                "check that it and its folder are yours to write",
            )
        elif "locked" in text:
            what, fix = f"the file is in use ({text})", "wait for the program that writes to it"
        else:
            what, fix = f"the file cannot be used ({text})", "check that it is a results file and is whole"
        raise BenchError(what, where=str(path), fix=fix) from error
