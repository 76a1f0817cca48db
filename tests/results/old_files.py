"""Results files with earlier schema versions, for tests of the migration."""

from __future__ import annotations

import gzip
import json
import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

UNSPECIFIED_2 = "untold"  # codespell:ignore untold
"""The level `unspecified` in schema version 2."""

DATA = Path(__file__).parents[1] / "data" / "results"
SCHEMA_2_FILES = ("213d890bd854", "877a17fd809d", "8f82d5bbdd80")
"""Recorded files with steps, streams, histograms, delay lines and observed interfaces."""
SCHEMA_3_FILES = (
    "connections", "delay-line-and-zero-copy", "frame-throughput", "guest-to-host", "mixed-load",
    "paced-datagrams",
)  # fmt: skip
"""Recorded files that together have all keys that version 4 renames, except for those of rare events."""
RECORDED = {**dict.fromkeys(SCHEMA_2_FILES, 2), **dict.fromkeys(SCHEMA_3_FILES, 3)}
"""Schema version of each recorded file."""

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
    """Unpack a recorded file: one of the corpus, which has schema version 2, or one with version 3."""
    path = folder / f"{name}.vnb"
    if name in SCHEMA_3_FILES:
        path.write_bytes(lzma.decompress((DATA / "schema-3" / f"{name}.vnb.xz").read_bytes()))
    else:
        path.write_bytes(gzip.decompress((DATA / "corpus" / f"{name}.vnb.gz").read_bytes()))
    return path


def convert_to_schema_2(path: Path) -> None:
    """Give the tables and columns of a closed file the names of schema version 2."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_REVERSE_RENAMES)


def set_json(path: Path, table: str, column: str, value: object) -> None:
    """Set a JSON column in all rows of a table."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (json.dumps(value),))
