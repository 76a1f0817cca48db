"""Check the schema of a results file: an attacker's schema can contain code that SQLite runs for a reader."""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from importlib import resources
from pathlib import Path

from vnetbench.errors import BenchError

_ALLOWED_STATEMENTS = {"table": ("CREATE TABLE ",), "index": ("CREATE INDEX ", "CREATE UNIQUE INDEX ")}
"""Starts of the statement that SQLite stores for an object of each type. It may not be the type's own."""
_ORDINARY_COLUMN = 0
"""Value of `hidden` in PRAGMA table_xinfo for a column that is not generated and not of a virtual table."""

ColumnNameTypeNotNullKeyPosition = tuple[str, str, int, int]
"""Name, type, NOT NULL and position in the primary key, as PRAGMA table_xinfo returns them."""


def check_for_code(path: Path, db: sqlite3.Connection) -> None:
    """Raise BenchError if the schema has views, triggers, virtual tables or generated columns.

    They run expressions of the file's author, for example an endless query in place of a table.
    """
    found = [
        f"a {_describe_object(kind, statement)} ({name})"
        for kind, name, statement in db.execute(
            "SELECT type, name, substr(sql, 1, 40) FROM sqlite_schema ORDER BY name"
        )
        if not _is_stored_data(kind, statement)
    ]
    # The list of tables resolves views, in a time that doubles with each view of a view, and loads virtual
    # tables. So nothing of the kind may be left.
    _reject_unexpected_schema_objects(path, found)
    for schema, name, kind, *_ in db.execute("PRAGMA table_list").fetchall():
        if schema != "main" or kind == "view":
            continue
        if kind != "table":
            found.append(f"a {kind} table ({name})")
        elif any(row[6] != _ORDINARY_COLUMN for row in _table_rows(db, name)):
            found.append(f"generated columns (table {name})")
    _reject_unexpected_schema_objects(path, found)


def _is_stored_data(kind: object, statement: object) -> bool:
    """Return whether an object of the schema has only data; an index without a statement is a table's own."""
    if statement is None:
        return kind == "index"
    return str(statement).startswith(_ALLOWED_STATEMENTS.get(str(kind), ()))


def _describe_object(kind: object, statement: object) -> str:
    if kind in _ALLOWED_STATEMENTS:
        return "virtual table" if "VIRTUAL" in str(statement).upper() else f"crafted {kind}"
    return str(kind)


def _reject_unexpected_schema_objects(path: Path, unexpected_object_phrases: list[str]) -> None:
    if unexpected_object_phrases:
        raise BenchError(
            f"the file contains {unexpected_object_phrases[0]}, which vnetbench never writes or runs",
            where=str(path),
            fix="get the file again from its author, or remove the addition with sqlite3",
        )


def check_tables(path: Path, db: sqlite3.Connection) -> None:
    """Raise BenchError unless the file has all tables and columns of the current schema, with their types.

    More tables and columns are accepted, because a later version may add them (docs/results-file.md).
    """
    strict_tables = _strict_tables(db)
    for table, expected in _expected_columns().items():
        missing = expected - _read_table_columns(db, table)
        problem = ""
        if missing:
            name, kind, *_ = sorted(missing)[0]
            problem = f"the table {table} lacks the column {name} of type {kind}"
        elif table not in strict_tables:
            problem = f"the table {table} is not STRICT"
        if problem:
            raise BenchError(
                f"{problem}, so no version of vnetbench wrote this file",
                where=str(path),
                fix="get the file again from its author",
            )


@lru_cache(maxsize=1)
def _expected_columns() -> dict[str, frozenset[ColumnNameTypeNotNullKeyPosition]]:
    db = sqlite3.connect(":memory:")
    try:
        db.executescript(resources.files("vnetbench.results").joinpath("schema.sql").read_text())
        return {table: _read_table_columns(db, table) for table in _strict_tables(db)}
    finally:
        db.close()


def _read_table_columns(db: sqlite3.Connection, table: str) -> frozenset[ColumnNameTypeNotNullKeyPosition]:
    return frozenset((row[1], row[2], row[3], row[5]) for row in _table_rows(db, table))


def _table_rows(db: sqlite3.Connection, table: str) -> list[tuple[str, str, str, int, str, int, int]]:
    return db.execute("SELECT * FROM pragma_table_xinfo(?)", (table,)).fetchall()


def _strict_tables(db: sqlite3.Connection) -> set[str]:
    return {row[1] for row in db.execute("PRAGMA table_list") if row[0] == "main" and row[5]}
