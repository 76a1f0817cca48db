"""Changes from schema version 4 to version 5: totals and samples become compressed columns.

Version 4 has a row for each sample, stream in a sample, and histogram of a sample, and totals as plain JSON.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from vnetbench.results.agent_events import parse_histogram
from vnetbench.results.endpoint_tables import insert_endpoint
from vnetbench.results.records import EndpointRecord, Histogram, Observation, Sample, StreamSample

_NEW_TABLES = (
    "ALTER TABLE endpoint RENAME TO endpoint_4",
    """
    CREATE TABLE endpoint (
        trial_id INTEGER NOT NULL REFERENCES trial (id), name TEXT NOT NULL, role TEXT NOT NULL,
        bytes_sent INTEGER NOT NULL, bytes_received INTEGER NOT NULL, PRIMARY KEY (trial_id, name)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE endpoint_data (
        id INTEGER PRIMARY KEY, trial_id INTEGER NOT NULL REFERENCES trial (id), endpoint TEXT NOT NULL,
        part INTEGER NOT NULL, json_bytes INTEGER NOT NULL, data BLOB NOT NULL,
        UNIQUE (trial_id, endpoint, part)
    ) STRICT
    """,
)
_OLD_TABLES = ("sample", "stream_sample", "histogram", "endpoint_4")
_OBSERVATION_KEY = "observation"


def change_to_version_5(db: sqlite3.Connection) -> None:
    """Change a file of version 4 to version 5, inside the caller's transaction.

    One trial is in memory at a time.

    Raises:
        sqlite3.DatabaseError: The stored JSON is malformed.
    """
    for statement in _NEW_TABLES:
        db.execute(statement)
    for (trial_id,) in db.execute("SELECT DISTINCT trial_id FROM endpoint_4 ORDER BY 1").fetchall():
        try:
            _change_endpoints(db, trial_id)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise sqlite3.DatabaseError(f"malformed data of trial {trial_id}: {error!r}") from error
    for table in _OLD_TABLES:
        db.execute(f"DROP TABLE {table}")


def _change_endpoints(db: sqlite3.Connection, trial_id: int) -> None:
    samples = _read_samples(db, trial_id)
    for name, role, totals in db.execute(
        "SELECT name, role, totals FROM endpoint_4 WHERE trial_id = ? ORDER BY name", (trial_id,)
    ).fetchall():
        endpoint = EndpointRecord(name, role, json.loads(totals), tuple(samples.get(name, ())))
        insert_endpoint(db, trial_id, endpoint)


def _read_samples(db: sqlite3.Connection, trial_id: int) -> dict[str, list[Sample]]:
    """Return the samples of a trial by endpoint."""
    streams = _read_streams_by_endpoint_and_seq(db, trial_id)
    histograms = _read_histograms(db, trial_id)
    samples: dict[str, list[Sample]] = {}
    rows = db.execute(
        "SELECT counters, cpu, endpoint, seq, t_s, interval_s, bytes_sent, bytes_received FROM sample"
        " WHERE trial_id = ? ORDER BY endpoint, seq",
        (trial_id,),
    ).fetchall()
    cpus = iter(_parse_first_column([(cpu,) for _, cpu, *_ in rows if cpu]))
    for counters, (_, cpu, endpoint, seq, t_s, interval_s, sent, received) in zip(
        _parse_first_column(rows), rows, strict=True
    ):
        observation = counters.pop(_OBSERVATION_KEY, None)
        samples.setdefault(endpoint, []).append(
            Sample(
                seq, t_s, interval_s, sent, received, counters, tuple(next(cpus)) if cpu else (),
                tuple(streams.get((endpoint, seq), ())), histograms.get((endpoint, seq), {}),
                Observation(**observation) if observation else None,
            )
        )  # fmt: skip
    return samples


def _read_streams_by_endpoint_and_seq(
    db: sqlite3.Connection, trial_id: int
) -> dict[tuple[str, int], list[StreamSample]]:
    """Return the stream samples of a trial by endpoint and number of the sample."""
    streams: dict[tuple[str, int], list[StreamSample]] = {}
    rows = db.execute(
        "SELECT details, endpoint, seq, stream_id, role, bytes, rtt_us, cwnd, retransmits, load_part"
        " FROM stream_sample WHERE trial_id = ? ORDER BY endpoint, seq, stream_id",
        (trial_id,),
    ).fetchall()
    for details, (_, endpoint, seq, stream, role, size, rtt, cwnd, retransmits, part) in zip(
        _parse_first_column(rows), rows, strict=True
    ):
        sample = StreamSample(stream, role, size, rtt, cwnd, retransmits, details, part)
        streams.setdefault((endpoint, seq), []).append(sample)
    return streams


def _read_histograms(db: sqlite3.Connection, trial_id: int) -> dict[tuple[str, int], dict[str, Histogram]]:
    """Return the histograms of a trial by endpoint and number of the sample, then by kind."""
    histograms: dict[tuple[str, int], dict[str, Histogram]] = {}
    rows = db.execute(
        "SELECT buckets, endpoint, seq, kind FROM histogram WHERE trial_id = ?", (trial_id,)
    ).fetchall()
    for buckets, (_, endpoint, seq, kind) in zip(_parse_first_column(rows), rows, strict=True):
        histograms.setdefault((endpoint, seq), {})[kind] = parse_histogram(buckets)
    return histograms


def _parse_first_column(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Parse the JSON in the first column of all rows as one text, so that the parser shares the keys."""
    parsed: list[Any] = json.loads(f"[{','.join(row[0] for row in rows)}]")
    return parsed
