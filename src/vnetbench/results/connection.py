"""Open results files: check that a file is intact and of a known version, and translate SQLite's errors."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.results.file_checks import (
    APPLICATION_ID,
    NOT_RESULTS_FILE_TEXT,
    check_before_opening,
    has_sqlite_header,
)
from vnetbench.results.schema_checks import check_for_code, check_tables

SCHEMA_VERSION = 5

_MAX_CELL_BYTES = 1 << 28
"""Maximum length of a text or blob: a crafted expression cannot make a longer one."""
_MAX_STATEMENT_BYTES = 1 << 16
"""Maximum length of a statement, also of one in the schema: SQLite parses constraints in quadratic time."""
_OPENING_CHECKS_TIME_LIMIT_S = 120.0
"""Time limit of the checks at opening, which read the whole file once."""
_INSTRUCTIONS_BETWEEN_LIMIT_CHECKS = 100_000


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect with an SQLite URI mode: ro, rw, or rwc for a new file."""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=20, check_same_thread=False
    )
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
    db.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_STATEMENT_BYTES)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    db.execute("PRAGMA foreign_keys = ON")
    if mode == "ro":
        db.execute("PRAGMA ignore_check_constraints = ON")  # quick_check would run crafted expressions
    else:
        # A trial is durable before it is announced. FULL would not sync the folder after a commit has removed
        # the journal: after a power loss the journal could be back and undo the trial.
        db.execute("PRAGMA synchronous = EXTRA")
    return db


def roll_back_unfinished_write(path: Path) -> None:
    """Roll back the unfinished transaction of a killed writer, which a read-only connection cannot."""
    check_before_opening(path)
    target = path.resolve()
    journal = target.with_name(f"{target.name}-journal")
    if journal.exists() and path.exists() and os.access(path, os.W_OK):
        db = connect(path, "rw")
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            db.close()


def open_checked_database(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to a file after checking its type, version and integrity; raises BenchError."""
    check_before_opening(path)
    db = connect(path, mode)
    try:
        _limit_time(db)
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise BenchError(NOT_RESULTS_FILE_TEXT, where=str(path), fix="name a .vnb file")
        if version > SCHEMA_VERSION:
            raise BenchError(
                f"a newer vnetbench wrote this file (schema {version}, but this version reads schemas up to "
                f"{SCHEMA_VERSION})",
                where=str(path),
                fix="install the newer vnetbench",
            )
        check_for_code(path, db)
        if version == SCHEMA_VERSION:
            check_tables(path, db)
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
        db.set_progress_handler(None, 0)
    except BaseException:
        db.close()
        raise
    return db


def _limit_time(db: sqlite3.Connection) -> None:
    """Interrupt statements after a time limit; until the schema is checked, one may never end."""
    deadline = time.monotonic() + _OPENING_CHECKS_TIME_LIMIT_S
    db.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS_BETWEEN_LIMIT_CHECKS)


def _check_file_length(path: Path, db: sqlite3.Connection) -> None:
    """Check the file's length: SQLite reads a missing last page as empty, and its quick check accepts that.

    The number of pages is that of the header (https://www.sqlite.org/fileformat2.html, 1.3.7).
    """
    with db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on, no other process writes
        (page_size,) = db.execute("PRAGMA page_size").fetchone()
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        size = path.stat().st_size  # opening the file here and closing it would release SQLite's locks
        if size < pages * page_size:
            raise sqlite3.DatabaseError(f"malformed: it has {size} of {pages * page_size} bytes")


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the file system into BenchError with a fix."""
    try:
        yield
    except OSError as error:
        fix = "choose another file with -o"
        if isinstance(error, PermissionError):
            fix = "check that you may read and write the file and its folder"
        raise BenchError(f"cannot use the file: {error.strerror}", where=str(path), fix=fix) from error
    except UnicodeDecodeError as error:  # in a name of the schema, or in a message of SQLite about it
        raise BenchError(
            "the file is damaged or truncated (it contains text that is not UTF-8)",
            where=str(path),
            fix="copy the file again, or get it again from its author",
        ) from error
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            what, fix = (
                f"the disk is full or has failed ({text})",
                f"free disk space, then: vnetbench resume {path}",
            )
        elif "not a database" in text and not has_sqlite_header(path):
            what, fix = NOT_RESULTS_FILE_TEXT, "name a .vnb file. Unpack a compressed file (.gz, .xz) first"
        elif "malformed" in text or "not a database" in text:
            what = f"the file is damaged or truncated ({text})"
            fix = f'copy the file again; `sqlite3 {path} ".recover"` recovers readable data'
        elif "unable to open" in text or "readonly" in text:
            what, fix = (
                f"cannot open the file ({text})",
                "check that you may write to the file and its folder",
            )
        elif "interrupted" in text:
            what, fix = "checking the file takes too long", "get the file again from its author"
        elif "locked" in text:
            what, fix = f"another program uses the file ({text})", "wait until that program ends"
        else:
            what, fix = f"cannot use the file ({text})", "check that the file is an intact results file"
        raise BenchError(what, where=str(path), fix=fix) from error
