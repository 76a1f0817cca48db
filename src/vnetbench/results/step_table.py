"""The steps of trials in the results file: each on disk as soon as it is over."""

from __future__ import annotations

import json
import sqlite3

from vnetbench.results.records import StepRecord


def are_in(db: sqlite3.Connection) -> bool:
    """Whether the file has a place for steps: one of schema version 1 has none."""
    found = db.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'step'").fetchone()
    return bool(found[0])


def add(db: sqlite3.Connection, session: int | None, treatment: int, block: int, step: StepRecord) -> None:
    """Put a step into the file, in place of it and of all after it, which another course would have."""
    key = (treatment, block, step.number)
    drop(db, *key)
    db.execute(
        "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key, session, step.purpose, step.load_fps, step.burst_frames, step.duration_s, step.started_s,
            step.took_s, step.sent, step.received, json.dumps(step.details, separators=(",", ":")),
        ),
    )  # fmt: skip


def drop(db: sqlite3.Connection, treatment: int, block: int, first: int = 0) -> None:
    """Remove a trial's steps from this number on."""
    key = (treatment, block, first)
    db.execute("DELETE FROM step WHERE treatment_id = ? AND block = ? AND number >= ?", key)


def of_trial(db: sqlite3.Connection, treatment: int, block: int) -> tuple[StepRecord, ...]:
    """The steps of a treatment's trial in a block, in order; none where the file knows of none."""
    if not are_in(db):
        return ()
    rows = db.execute(
        "SELECT number, purpose, load_fps, burst_frames, duration_s, started_s, took_s, sent, received,"
        " details FROM step WHERE treatment_id = ? AND block = ? ORDER BY number",
        (treatment, block),
    ).fetchall()
    return tuple(StepRecord(*(*row[:-1], json.loads(row[-1]))) for row in rows)
