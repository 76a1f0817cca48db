"""Results that follow from the trials, kept in the results file: a cache that any change invalidates.

SQLite counts the changes of a file in its header (https://www.sqlite.org/fileformat2.html, 1.3.6). A cached
value counts only if this number is that of the transaction which stored it, if the method is the same, and if
this user stored it.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from vnetbench.process import is_process_alive
from vnetbench.results.cache_key import compute_authentication_code, read_or_create_key
from vnetbench.results.connection import SCHEMA_VERSION
from vnetbench.results.sample_columns import (
    MAX_JSON_BYTES,
    MalformedColumns,
    compress_json_with_length,
    decompress_json,
)
from vnetbench.results.writer_lock import is_locked_by_writer

_CHANGE_COUNTER_AT, _ROLLBACK_JOURNAL_VERSION = 24, 1
_CREATE_TABLE = """
CREATE TABLE cache (
    name             TEXT    PRIMARY KEY,
    method           TEXT    NOT NULL,           -- identifies the code that computed it
    change_counter   INTEGER NOT NULL,           -- of the file after this row was written
    json_bytes       INTEGER NOT NULL,           -- length of the JSON text
    data             BLOB    NOT NULL,           -- JSON, compressed with zlib
    seal             BLOB    NOT NULL            -- HMAC-SHA-256 of the other columns with the user's key
) STRICT
"""
_LengthAndCompressedJsonByName = dict[str, tuple[int, bytes]]
"""Length of the JSON text and compressed text by name."""


def read_change_counter(path: Path) -> int | None:
    """Return the number of changes of a file; None if its header does not count them (WAL).

    Do not call it while this process reads or writes the file with SQLite: closing any descriptor of a file
    releases all POSIX locks of the process on it (fcntl(2)).
    """
    with path.open("rb") as file:
        return _change_counter(file.fileno())


def _change_counter(descriptor: int) -> int | None:
    header = os.pread(descriptor, _CHANGE_COUNTER_AT + 4, 0)
    if header[18:20] != bytes([_ROLLBACK_JOURNAL_VERSION] * 2):
        return None
    return int.from_bytes(header[_CHANGE_COUNTER_AT:], "big")


class CachedValues(Mapping[str, Any]):
    """Valid cached values by name. Each is decompressed on access, because all of them may not fit in memory.

    A value that cannot be decompressed raises KeyError.
    """

    def __init__(self, stored: _LengthAndCompressedJsonByName) -> None:
        self._stored = stored

    def __getitem__(self, name: str) -> Any:
        """Return a new copy of a value; raises KeyError."""
        try:
            return decompress_json(*self._stored[name])
        except MalformedColumns as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names."""
        return iter(self._stored)

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._stored)


def read_cached_values(path: Path, code_id: str, name_pattern: str = "*") -> CachedValues:
    """Return the valid cached values of a file by name; empty if there are none or they cannot be read.

    Args:
        path: The results file.
        code_id: The version of the code that the values must be from.
        name_pattern: The names of the values, as a pattern of SQLite's GLOB.
    """
    key = read_or_create_key()
    with suppress(sqlite3.Error, OSError):
        if key is not None:
            with _open_db_and_file_descriptor(path, "ro") as (db, descriptor):
                db.execute("BEGIN")  # from the first read on, no other process writes
                db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                return CachedValues(
                    _select_valid(db, key, code_id, _change_counter(descriptor), name_pattern)
                )
    return CachedValues({})


def store_cached_values(
    path: Path, code_id: str, change_counter: int, values: Iterable[tuple[str, object]]
) -> bool:
    """Store values that were computed from the file, and drop invalid ones; return whether they are stored.

    `values` are names and values. An iterator can make one after the other, so that only one is in memory.

    Nothing is written to a read-only file, to one that a campaign writes, or to one that has changed since
    its change counter had this value. Values that are too long to be read are not written either.
    """
    key = read_or_create_key()
    new = {name: compress_json_with_length(value) for name, value in values}
    if any(length > MAX_JSON_BYTES for length, _ in new.values()):
        return False
    with suppress(sqlite3.Error, OSError):
        if key is None or not path.stat().st_mode & stat.S_IWUSR or is_locked_by_writer(path):
            return False
        with _open_db_and_file_descriptor(path, "rw") as (db, descriptor), db:
            db.execute("BEGIN IMMEDIATE")
            (writer,) = db.execute("SELECT writer FROM campaign").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            is_changed = version != SCHEMA_VERSION or _change_counter(descriptor) != change_counter
            if is_changed or (writer and is_process_alive(writer)):
                return False
            kept: _LengthAndCompressedJsonByName = {}
            with suppress(sqlite3.OperationalError):  # no table, or one of another form
                kept = _select_valid(db, key, code_id, change_counter, "*")
            db.execute("DROP TABLE IF EXISTS cache")
            db.execute(_CREATE_TABLE)
            db.executemany(
                "INSERT INTO cache VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (
                        name,
                        code_id,
                        change_counter + 1,
                        *value,
                        compute_authentication_code(key, name, code_id, change_counter + 1, *value),
                    )
                    for name, value in (kept | new).items()
                ],
            )
        return True
    return False


@contextmanager
def _open_db_and_file_descriptor(path: Path, mode: str) -> Iterator[tuple[sqlite3.Connection, int]]:
    """Yield a connection, and a descriptor to read the header with; it closes after the connection."""
    with (
        path.open("rb") as file,
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=0)) as db,
    ):
        db.execute("PRAGMA trusted_schema = OFF")
        yield db, file.fileno()


def _select_valid(
    db: sqlite3.Connection, key: bytes, code_id: str, change_counter: int | None, name_pattern: str
) -> _LengthAndCompressedJsonByName:
    rows = db.execute(
        "SELECT name, json_bytes, data, seal FROM cache"
        " WHERE method = ? AND change_counter = ? AND name GLOB ?",
        (code_id, change_counter, name_pattern),
    ).fetchall()
    return {
        name: (length, data)
        for name, length, data, stored_seal in rows
        if isinstance(stored_seal, bytes)
        and hmac.compare_digest(
            stored_seal,
            compute_authentication_code(key, name, code_id, int(change_counter or 0), length, data),
        )
    }
