"""Results files with earlier schema versions, for tests of the migration."""

from __future__ import annotations

import gzip
import json
import lzma
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from vnetbench.results.file import ResultsFile
from vnetbench.results.records import EndpointRecord

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


_TABLES_4 = """
DROP TABLE endpoint;
DROP TABLE endpoint_data;
CREATE TABLE endpoint (
    trial_id INTEGER NOT NULL REFERENCES trial (id), name TEXT NOT NULL, role TEXT NOT NULL,
    bytes_sent INTEGER NOT NULL, bytes_received INTEGER NOT NULL, totals TEXT NOT NULL,
    PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE sample (
    trial_id INTEGER NOT NULL REFERENCES trial (id), endpoint TEXT NOT NULL, seq INTEGER NOT NULL,
    t_s REAL NOT NULL, interval_s REAL NOT NULL, bytes_sent INTEGER NOT NULL,
    bytes_received INTEGER NOT NULL, counters TEXT NOT NULL, cpu TEXT,
    PRIMARY KEY (trial_id, endpoint, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE histogram (
    trial_id INTEGER NOT NULL REFERENCES trial (id), endpoint TEXT NOT NULL, seq INTEGER NOT NULL,
    kind TEXT NOT NULL, buckets TEXT NOT NULL, PRIMARY KEY (trial_id, endpoint, seq, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE stream_sample (
    trial_id INTEGER NOT NULL REFERENCES trial (id), endpoint TEXT NOT NULL, stream_id INTEGER NOT NULL,
    seq INTEGER NOT NULL, role TEXT NOT NULL, load_part TEXT NOT NULL, bytes INTEGER NOT NULL, rtt_us REAL,
    cwnd INTEGER, retransmits INTEGER, details TEXT NOT NULL,
    PRIMARY KEY (trial_id, endpoint, stream_id, seq)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 4;
"""


def convert_to_schema_4(path: Path) -> None:
    """Store the endpoints of a closed file of the current version in the tables of schema version 4."""
    with closing(ResultsFile.open_to_read(path)) as file:
        trials = list(file.trials())
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(_TABLES_4)
        for trial in trials:
            for endpoint in trial.endpoints:
                _insert_endpoint_4(db, trial.id, endpoint)


def _insert_endpoint_4(db: sqlite3.Connection, trial_id: int, endpoint: EndpointRecord) -> None:
    key = (trial_id, endpoint.name)
    totals = (endpoint.role, endpoint.bytes_sent, endpoint.bytes_received, json.dumps(endpoint.totals))
    db.execute("INSERT INTO endpoint VALUES (?, ?, ?, ?, ?, ?)", (*key, *totals))
    for x in endpoint.samples:
        counters: dict[str, object] = dict(x.counters)
        if x.observation is not None:
            counters["observation"] = asdict(x.observation)
        times = (x.seq, x.end_s, x.interval_s, x.bytes_sent, x.bytes_received)
        cpu = json.dumps(x.cpu) if x.cpu else None
        db.execute(
            "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *times, json.dumps(counters), cpu)
        )
        for y in x.streams:
            counts = (y.role, y.load_part, y.bytes, y.rtt_us, y.cwnd, y.retransmits, json.dumps(y.details))
            db.execute(
                "INSERT INTO stream_sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, y.stream_id, x.seq, *counts),
            )
        for kind, buckets in x.histograms.items():
            db.execute(
                "INSERT INTO histogram VALUES (?, ?, ?, ?, ?)", (*key, x.seq, kind, json.dumps(buckets))
            )


def convert_to_schema_2(path: Path) -> None:
    """Give the tables and columns of a closed file of the current version those of schema version 2."""
    convert_to_schema_4(path)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_REVERSE_RENAMES)


def set_json(path: Path, table: str, column: str, value: object) -> None:
    """Set a JSON column in all rows of a table."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (json.dumps(value),))
