"""Table of the steps of trials. Each step is on disk as soon as it has finished."""

from __future__ import annotations

import json
import sqlite3

from vnetbench.results.records import StepRecord


def insert_step_and_delete_later_ones(
    db: sqlite3.Connection, session: int | None, treatment: int, block: int, step: StepRecord
) -> None:
    """Insert a step, and delete the trial's stored steps from this number on."""
    key = (treatment, block, step.number)
    delete_steps(db, *key)
    db.execute(
        "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key, session, step.purpose, step.load_fps, step.burst_frames, step.duration_s,
            step.since_campaign_start_s, step.elapsed_s,
            step.sent, step.received, json.dumps(step.details, separators=(",", ":")),
        ),
    )  # fmt: skip


def delete_steps(db: sqlite3.Connection, treatment: int, block: int, first_number: int = 0) -> None:
    """Delete a trial's steps from this number on."""
    key = (treatment, block, first_number)
    db.execute("DELETE FROM step WHERE treatment_id = ? AND block = ? AND number >= ?", key)


def read_trial_steps(db: sqlite3.Connection, treatment: int, block: int) -> tuple[StepRecord, ...]:
    """Return the steps of a treatment's trial in a block, in order."""
    rows = db.execute(
        "SELECT number, purpose, load_fps, burst_frames, duration_s, started_s, elapsed_s, sent, received,"
        " details FROM step WHERE treatment_id = ? AND block = ? ORDER BY number",
        (treatment, block),
    ).fetchall()
    return tuple(StepRecord(*(*row[:-1], json.loads(row[-1]))) for row in rows)
