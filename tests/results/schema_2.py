"""Results files with schema version 2: recorded ones, and current ones that are converted back."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

UNSPECIFIED_2 = "untold"  # codespell:ignore untold
"""The level `unspecified` in schema version 2."""

CORPUS = Path(__file__).parents[1] / "data" / "results" / "corpus"

_REVERSE_RENAMES = """
ALTER TABLE endpoint RENAME COLUMN name TO endpoint;
ALTER TABLE endpoint RENAME TO side;
ALTER TABLE fact RENAME COLUMN subject TO place;
ALTER TABLE session RENAME COLUMN vnetbench_version TO vnetbench;
ALTER TABLE trial RENAME COLUMN testbed_shape TO shape;
ALTER TABLE step RENAME COLUMN elapsed_s TO took_s;
ALTER TABLE stream_sample RENAME COLUMN stream_id TO stream;
ALTER TABLE stream_sample RENAME COLUMN load_part TO part;
ALTER TABLE stream_sample RENAME COLUMN details TO info;
PRAGMA user_version = 2;
"""


def unpack_recorded_file(name: str, folder: Path) -> Path:
    """Unpack a recorded file of the corpus, which has schema version 2."""
    path = folder / f"{name}.vnb"
    path.write_bytes(gzip.decompress((CORPUS / f"{name}.vnb.gz").read_bytes()))
    return path


def convert_to_schema_2(path: Path) -> None:
    """Give the tables and columns of a closed file the names of schema version 2."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_REVERSE_RENAMES)


def set_json(path: Path, table: str, column: str, value: object) -> None:
    """Set a JSON column in all rows of a table."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (json.dumps(value),))
