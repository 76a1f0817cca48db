"""Mutate results files as an attacker could: cells, JSON, tables, versions, bytes and journals."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.results.old_files import RECORDED, unpack_recorded_file

_MAX_TRIALS = 3
_MAX_SAMPLE_NUMBER = 8
"""Small files take little time: a defect needs few trials and samples."""

HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -0.0, -1, 1, 2, 0.5, 1e-320, 1e308, -1e308, 2**31, 2**63, -(2**63), 10**40,
    float("nan"), float("inf"), -float("inf"), "", "0", "1e400", "-1", "nan", "\x1b]0;owned\x07", "\x00",
    "\ud800", "=cmd()", "<script>", "A" * 5000, "../../etc/passwd", "{}", [], {}, [[]], [None], {"": ""},
    [[1, 2], [1]], {"kind": {"kind": {}}}, [{}], [1, 2, 3], "a1", "host", "source", "sink", "tcp_stream",
)  # fmt: skip
HOSTILE_TEXTS = (
    "", "{", "[", "null", "1", '"x"', "[]", "{}", "[[1]]", "nan", "NaN", '{"a":1}', '{"a":NaN}',
    "[" * 100_000, '{"a":' * 50_000, "1,2", "],[", "9" * 5000, '"\\ud800"', "\x1b[2J", "a\x00b", "a\nb",
    "\u202e", "open", "done", "refused", "failed", "running", "precision", "-0", "00", "1:2:3",
    "99999999999999999999:x:1",
)  # fmt: skip
HOSTILE_STATEMENTS = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "ALTER TABLE {table} RENAME TO renamed",
    "ALTER TABLE {table} RENAME COLUMN {column} TO renamed",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "ALTER TABLE {table} ADD COLUMN more TEXT",
    "ALTER TABLE {table} ADD COLUMN more TEXT AS (printf('%999999999d', 1)) VIRTUAL",
    "CREATE VIEW looks AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
    "CREATE TRIGGER changes AFTER UPDATE ON {table} BEGIN DELETE FROM trial; END",
    "CREATE TABLE more (x TEXT CHECK (length(printf('%99999999d', 1)) > 0)) STRICT",
    "CREATE VIRTUAL TABLE texts USING fts5(x)",
    "CREATE INDEX more ON {table} (length(printf('%99999999d', 1)))",
    "CREATE INDEX more ON {table} ({column})",
    "UPDATE campaign SET status = 'finished', writer = NULL",
    "UPDATE trial SET treatment_id = treatment_id + 1",
    "UPDATE trial SET state = 'failed', failure = ''",
    "UPDATE {table} SET {column} = NULL",
    "UPDATE sample SET seq = -seq",
    "UPDATE sample SET interval_s = 0",
    "UPDATE trial SET duration_s = 0",
    "UPDATE stream_sample SET stream_id = 0 - stream_id",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 2",
    "PRAGMA user_version = 3",
    "PRAGMA user_version = 4",
    "PRAGMA user_version = -1",
    "PRAGMA user_version = 1000",
    "PRAGMA application_id = 0",
    "PRAGMA journal_mode = WAL",
    "PRAGMA auto_vacuum = 1; VACUUM",
    "PRAGMA page_size = 512; VACUUM",
)


def make_seeds(folder: Path) -> list[bytes]:
    """Return small files made of recorded ones, of each schema version."""
    seeds = []
    for name in RECORDED:
        path = unpack_recorded_file(name, folder)
        _shorten(path)
        seeds.append(path.read_bytes())
        path.unlink()
    return seeds


def mutate_file(draw: random.Random, path: Path) -> None:
    """Change a closed results file, mostly in one place, so that one defect does not hide the next."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        mutation = draw.choice((*[change_cell] * 12, change_schema, change_schema, change_bytes, add_journal))
        mutation(draw, path)


def change_cell(draw: random.Random, path: Path) -> None:
    """Replace a cell, or a value in the JSON of a cell, in one row or in all rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        place = _pick_cell(draw, db)
        if place is None:
            return
        table, column, condition, value = place
        change: Any = _mutate_value(draw, value)
        where = draw.choice((condition, condition, "1"))
        _ignore_errors(db, f"UPDATE {table} SET {column} = ? WHERE {where}", change)


def change_schema(draw: random.Random, path: Path) -> None:
    """Execute a statement that a bench never executes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        place = _pick_cell(draw, db)
        if place is not None:
            _ignore_errors(db, draw.choice(HOSTILE_STATEMENTS).format(table=place[0], column=place[1]))


def change_bytes(draw: random.Random, path: Path) -> None:
    """Change, insert or remove bytes, most often in the header and at the starts of pages."""
    content = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 4)):
        if not content:
            return
        at = draw.choice((draw.randrange(len(content)), draw.randrange(min(len(content), 200))))
        if draw.random() < 0.5:
            at = at // 4096 * 4096 + draw.randrange(16)
        content[at : at + draw.choice((1, 1, 4))] = bytes(
            draw.randrange(256) for _ in range(draw.choice((1, 1, 4)))
        )
    if draw.random() < 0.2:
        del content[draw.randrange(len(content) + 1) :]
    path.write_bytes(content)


def add_journal(draw: random.Random, path: Path) -> None:
    """Write a journal of random contents next to the file, sometimes with the name of another file."""
    start = draw.choice((b"", bytes.fromhex("d9d505f920a163d7"), b"\0" * 28))
    end = draw.choice((b"", bytes.fromhex("d9d505f920a163d7")))
    middle = bytes(draw.randrange(256) for _ in range(draw.choice((0, 20, 600))))
    path.with_name(f"{path.name}{draw.choice(('-journal', '-wal'))}").write_bytes(start + middle + end)


def _shorten(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        endpoint = "side" if "side" in tables else "endpoint"
        db.execute("CREATE TEMP TABLE kept AS SELECT max(id) AS id FROM trial GROUP BY treatment_id")
        db.execute(f"DELETE FROM kept WHERE id NOT IN (SELECT id FROM kept ORDER BY id LIMIT {_MAX_TRIALS})")
        for table in (endpoint, "sample", "stream_sample", "histogram"):
            db.execute(f"DELETE FROM {table} WHERE trial_id NOT IN kept")
        for table in ("sample", "stream_sample", "histogram"):
            db.execute(f"DELETE FROM {table} WHERE seq > {_MAX_SAMPLE_NUMBER}")
        db.execute("DELETE FROM trial WHERE id NOT IN kept")
        db.execute("VACUUM")


def _pick_cell(draw: random.Random, db: sqlite3.Connection) -> tuple[str, str, str, Any] | None:
    """Return table, column, condition of the row and value of a random cell; None if there is none."""
    try:
        tables = [
            row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
        ]
        table = draw.choice(tables)
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        keys = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        if not count or not keys:
            return None
        rows = db.execute(f"SELECT * FROM {table} LIMIT 1 OFFSET {draw.randrange(count)}").fetchall()
        row = dict(zip(columns, rows[0], strict=True))
        conditions = [f"{key} = {_sql_literal(row[key])}" for key in keys]
        column = draw.choice(columns)
        return table, column, " AND ".join(conditions), row[column]
    except (sqlite3.Error, IndexError):
        return None


def _sql_literal(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def _mutate_value(draw: random.Random, value: Any) -> Any:
    """Return another value for a cell: in JSON, mostly a change of one value inside it."""
    if isinstance(value, str) and value[:1] in ("{", "[") and draw.random() < 0.85:
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return draw.choice(HOSTILE_TEXTS)
        _mutate_document(draw, document)
        return json.dumps(document)
    if isinstance(value, str):
        if value and draw.random() < 0.3:
            at = draw.randrange(len(value))
            return value[:at] + draw.choice(HOSTILE_TEXTS) + value[at + draw.choice((0, 1, 5)) :]
        return draw.choice(HOSTILE_TEXTS)
    numbers = [each for each in HOSTILE_VALUES if isinstance(each, int | float) and abs(each) < 2**63]
    return draw.choice([*numbers, float("inf"), -float("inf"), "text", None, b"\xff"])


def _mutate_document(draw: random.Random, document: Any) -> None:
    """Change one value inside a JSON document, in place."""
    node = document
    while True:
        keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            if isinstance(node, list):
                node.append(draw.choice(HOSTILE_VALUES))
            else:
                node[draw.choice(("", "a1", "kind", "name"))] = draw.choice(HOSTILE_VALUES)
            return
        key = draw.choice(keys)
        if isinstance(node[key], dict | list) and draw.random() < 0.8:
            node = node[key]
            continue
        change = draw.randrange(4)
        if change == 0:
            del node[key]
        elif change == 1 and isinstance(node, dict):
            node[draw.choice((*keys, "renamed"))] = node.pop(key)
        else:
            node[key] = draw.choice(HOSTILE_VALUES)
        return


def _ignore_errors(db: sqlite3.Connection, statement: str, *values: Any) -> None:
    """Execute a statement; SQLite may refuse it, because constraints hold here too."""
    try:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("PRAGMA ignore_check_constraints = ON")
        if values:
            db.execute(statement, values)
        else:
            db.executescript(statement)
    except (sqlite3.Error, OverflowError, UnicodeEncodeError):
        return


Mutation = Callable[[random.Random, Path], None]
