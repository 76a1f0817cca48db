"""The results file: one SQLite file per campaign. A trial is on disk before it is announced."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from vnetbench import __version__
from vnetbench.errors import BenchError
from vnetbench.process import is_process_alive, read_own_process_identity
from vnetbench.results import step_table
from vnetbench.results.connection import (
    SCHEMA_VERSION,
    connect,
    open_checked_database,
    roll_back_unfinished_write,
    translate_errors,
)
from vnetbench.results.endpoint_tables import insert_endpoint, read_endpoints, to_json
from vnetbench.results.file_checks import APPLICATION_ID
from vnetbench.results.migration import migrate, migrate_into_temporary_copy
from vnetbench.results.records import (
    INTERRUPTED,
    RUNNING,
    CampaignRecord,
    StepRecord,
    TreatmentRecord,
    TrialRecord,
)
from vnetbench.results.validation import (
    check_elapsed_time_and_parse_overrides,
    check_objects,
    check_step,
    check_treatment,
    check_trial,
    refuse_to_store_unreadable,
    translate_value_errors,
)
from vnetbench.results.writer_lock import WriterLock, is_locked_by_writer
from vnetbench.study.model import Plan, Study

PAGE_BYTES = 1024
"""The data of an endpoint have some kilobytes. Small pages waste the least space after them."""


def check_output_path(path: Path) -> None:
    """Raise BenchError if no results file can be created: the file exists, or its folder does not."""
    with translate_errors(path):
        if path.exists():
            raise _file_exists_error(path)
        if not path.parent.is_dir():
            raise BenchError(
                "the folder does not exist", where=str(path.parent), fix=f"mkdir -p {path.parent}"
            )


class ResultsFile:
    """An open results file, from `create`, `open_to_read` or `open_to_write`. It must be closed."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, session: int | None, lock: WriterLock | None = None
    ) -> None:
        self.path = path
        self._db = connection
        self._session = session
        self._lock = lock
        self._has_other_writer = False
        """Whether another session had locked the file when it was opened."""

    @classmethod
    def create(cls, path: Path, study: Study, plan: Plan) -> ResultsFile:
        """Create a file for a campaign; raises BenchError if `path` exists or cannot be written."""
        check_output_path(path)
        with translate_errors(path):
            try:
                lock = WriterLock(path, create=True)
            except FileExistsError:
                raise _file_exists_error(path) from None
            try:
                db = connect(path, "rw")
                try:
                    _write_campaign(db, study, plan)
                    return cls(path, db, cls._lock_and_start_session(path, db, lock), lock)
                except BaseException:
                    db.close()
                    raise
            except BaseException:
                path.unlink(missing_ok=True)
                path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
                lock.close()
                raise

    @classmethod
    def open_to_read(cls, path: Path) -> ResultsFile:
        """Open a file to read; its campaign may be running. Older schemas are migrated in a private copy."""
        with translate_errors(path):
            roll_back_unfinished_write(path)
            has_other_writer = is_locked_by_writer(path)
            db = open_checked_database(path, "ro")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version != SCHEMA_VERSION:
                db = migrate_into_temporary_copy(path, db)
            file = cls(path, db, None)
            file._has_other_writer = has_other_writer
            return file

    @classmethod
    def open_to_write(cls, path: Path) -> ResultsFile:
        """Open a file to continue its campaign; raises BenchError while another bench runs it.

        A file with an older schema is migrated in place.
        """
        with translate_errors(path):
            roll_back_unfinished_write(path)  # it may restore another header, which the next line checks
            db = open_checked_database(path, "rw")
            lock = None
            try:
                lock = WriterLock(path)
                return cls(path, db, cls._lock_and_start_session(path, db, lock), lock)
            except BaseException:
                db.close()
                if lock is not None:
                    lock.close()
                raise

    def close(self, status: str | None = None) -> None:
        """Close the file and store the campaign's status (`finished` or `interrupted`)."""
        try:
            if self._session is not None:
                with translate_errors(self.path), self._db:
                    self._db.execute("UPDATE campaign SET writer = NULL")
                    if status:
                        self._db.execute("UPDATE campaign SET status = ?", (status,))
        finally:
            self._db.close()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    # Writing

    def add_facts(self, subject: str, facts: Mapping[str, object]) -> None:
        """Store this session's facts about `bench`, `host` or an endpoint; raises BenchError."""
        refuse_to_store_unreadable(self.path, f"facts about {subject}", dict(facts))
        with translate_errors(self.path), self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO fact VALUES (?, ?, ?, ?)",
                [(self._session, subject, name, to_json(value)) for name, value in facts.items()],
            )

    def add_testbed(self, shape: str, description: Mapping[str, object]) -> None:
        """Store the description of a testbed of this campaign; raises BenchError."""
        refuse_to_store_unreadable(self.path, "the description of a testbed", dict(description))
        with translate_errors(self.path), self._db:
            self._db.execute("INSERT OR REPLACE INTO testbed VALUES (?, ?)", (shape, to_json(description)))

    def add_trial(self, trial: TrialRecord, campaign_elapsed_s: float) -> int:
        """Write a trial with all its data in one transaction, and return its id.

        The trial is on disk when this returns.

        Raises:
            BenchError: The trial cannot be written, for example because the disk is full. The file then
                contains nothing of it.
        """
        with translate_errors(self.path), self._db:
            trial_id = self._insert_trial(trial)
            self._set_campaign_elapsed(campaign_elapsed_s)
            return trial_id

    def add_trials(self, trials: Iterable[TrialRecord]) -> None:
        """Write imported trials in one transaction, all of them or none; raises BenchError."""
        with translate_errors(self.path), self._db:
            for trial in trials:
                self._insert_trial(trial)

    def _insert_trial(self, trial: TrialRecord) -> int:
        refuse_to_store_unreadable(self.path, "the effective settings of a trial", dict(trial.effective))
        cursor = self._db.execute(
            "INSERT INTO trial (treatment_id, block, session_id, testbed_shape, started_s, idle_s,"
            " duration_s, setup_s, state, failure, effective, notes)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                trial.treatment, trial.block, self._session, trial.testbed_shape,
                trial.since_campaign_start_s, trial.idle_s, trial.duration_s, trial.setup_s, trial.state,
                trial.failure, to_json(trial.effective), to_json(trial.notes),
            ),
        )  # fmt: skip
        trial_id = int(cursor.lastrowid or 0)
        for endpoint in trial.endpoints:
            insert_endpoint(self._db, trial_id, endpoint)
        return trial_id

    def add_step(self, treatment: int, block: int, step: StepRecord, campaign_elapsed_s: float) -> None:
        """Write a step of a running trial; it is on disk when this returns. Raises as `add_trial` does."""
        with translate_errors(self.path), self._db:
            step_table.insert_step_and_delete_later_ones(self._db, self._session, treatment, block, step)
            self._set_campaign_elapsed(campaign_elapsed_s)

    def _set_campaign_elapsed(self, campaign_elapsed_s: float) -> None:
        """Store the running time of this session: that of the campaign without its earlier sessions."""
        self._db.execute(
            "UPDATE session SET elapsed_s = ?1 - (SELECT coalesce(sum(elapsed_s), 0) FROM session "
            "WHERE id <> ?2) WHERE id = ?2",
            (campaign_elapsed_s, self._session),
        )

    def delete_steps(self, treatment: int, block: int) -> None:
        """Delete the steps of a trial that starts again."""
        with translate_errors(self.path), self._db:
            step_table.delete_steps(self._db, treatment, block)

    def set_treatment_state(self, index: int, state: str, reason: str = "") -> None:
        """Store a treatment's state, and the reason if it was refused or failed."""
        with translate_errors(self.path), self._db:
            self._db.execute(
                "UPDATE treatment SET state = ?, reason = ? WHERE id = ?", (state, reason, index)
            )

    # Reading

    def campaign(self) -> CampaignRecord:
        """Return the campaign's description. If its bench was killed, the status is `interrupted`."""
        with translate_errors(self.path):
            row = self._db.execute(
                "SELECT title, study_text, study_path, overrides, seed, started_at, status, writer"
                " FROM campaign"
            ).fetchone()
            elapsed_s, version = self._db.execute(
                "SELECT coalesce(sum(elapsed_s), 0),"
                " (SELECT vnetbench_version FROM session ORDER BY id DESC LIMIT 1) FROM session"
            ).fetchone()
        title, text, path, overrides, seed, started_at, status, writer = row
        with translate_value_errors(self.path, "campaign"):
            parsed_overrides = check_elapsed_time_and_parse_overrides(json.loads(overrides), elapsed_s)
        is_running = self._has_other_writer or (writer and is_process_alive(writer))
        if status == RUNNING and not is_running:
            status = INTERRUPTED
        return CampaignRecord(
            title,
            text,
            path,
            parsed_overrides,
            seed,
            started_at,
            status,
            elapsed_s,
            version or "",
        )

    def treatments(self) -> tuple[TreatmentRecord, ...]:
        """Return all treatments of the plan, in its order."""
        with translate_errors(self.path):
            rows = self._db.execute("SELECT id, factors, state, reason FROM treatment ORDER BY id").fetchall()
        with translate_value_errors(self.path, "treatments"):
            return tuple(
                check_treatment(TreatmentRecord(i, json.loads(f), state, reason))
                for i, f, state, reason in rows
            )

    def trials(
        self, *, with_counters: bool = True, only_ids: Container[int] | None = None
    ) -> Iterator[TrialRecord]:
        """Yield all trials, or those with `only_ids`, in the order in which they ran, one at a time.

        Without `with_counters`, samples have no counters and no CPUs, which are most of a file.
        """
        with translate_errors(self.path):
            ids = self._db.execute("SELECT id FROM trial ORDER BY id").fetchall()
            treatment_ids = {row[0] for row in self._db.execute("SELECT id FROM treatment")}
            for (i,) in ids:
                if only_ids is not None and i not in only_ids:
                    continue
                row = self._db.execute(
                    "SELECT treatment_id, block, testbed_shape, started_s, duration_s, setup_s, failure,"
                    " effective, notes, idle_s FROM trial WHERE id = ?",
                    (i,),
                )
                treatment, block, shape, started, duration, setup, failure, effective, notes, idle = next(row)
                with translate_value_errors(self.path, f"trial {i}"):
                    trial = TrialRecord(
                        treatment, block, shape, started, duration, setup, json.loads(effective),
                        tuple(read_endpoints(self._db, i, with_counters)), failure,
                        tuple(json.loads(notes)), i, idle,
                        step_table.read_trial_steps(self._db, treatment, block),
                    )  # fmt: skip
                    check_trial(trial, treatment_ids)
                yield trial

    def steps(self, treatment: int, block: int) -> tuple[StepRecord, ...]:
        """Return the steps of a trial in order; the trial may be running."""
        with translate_errors(self.path), translate_value_errors(self.path, "steps"):
            return tuple(map(check_step, step_table.read_trial_steps(self._db, treatment, block)))

    def facts(self) -> dict[str, dict[str, object]]:
        """Return the latest facts of all sessions: subject to name to value."""
        latest: dict[str, dict[str, object]] = {}
        for session in self.session_facts():
            for subject, facts in session.items():
                latest.setdefault(subject, {}).update(facts)
        return latest

    def session_facts(self) -> list[dict[str, dict[str, object]]]:
        """Return the facts of each session, oldest first: subject to name to value."""
        sessions: dict[int, dict[str, dict[str, object]]] = {}
        with translate_errors(self.path), translate_value_errors(self.path, "facts"):
            for session, subject, name, value in self._db.execute(
                "SELECT session_id, subject, name, value FROM fact ORDER BY session_id"
            ):
                sessions.setdefault(session, {}).setdefault(subject, {})[name] = json.loads(value)
            for facts in sessions.values():
                check_objects(facts, "facts")
        return list(sessions.values())

    def testbed_descriptions_by_shape(self) -> dict[str, dict[str, object]]:
        """Return the descriptions of testbeds by shape."""
        with translate_errors(self.path):
            rows = self._db.execute("SELECT shape, description FROM testbed ORDER BY shape").fetchall()
        with translate_value_errors(self.path, "testbeds"):
            testbeds = {shape: json.loads(text) for shape, text in rows}
            check_objects(testbeds, "testbeds")
            return testbeds

    @staticmethod
    def _lock_and_start_session(path: Path, db: sqlite3.Connection, lock: WriterLock) -> int:
        """Lock the file for this session, migrate an older schema, and return the session's id.

        Raises:
            BenchError: Another bench writes to the file.
        """
        with db:
            db.execute("BEGIN IMMEDIATE")  # of two benches that start together, one must wait here
            (writer,) = db.execute("SELECT writer FROM campaign").fetchone()
            is_alive = bool(writer and is_process_alive(writer))
            if not lock.acquire() or is_alive:
                writer_text = (
                    f"process {writer.split(':')[0]}"
                    if is_alive
                    else "its process is on another machine or in another PID namespace"
                )
                raise BenchError(
                    f"a campaign is running on this file ({writer_text})",
                    where=str(path),
                    fix="wait until the campaign ends, or stop it with Ctrl-C in its terminal",
                )
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version < SCHEMA_VERSION:
                migrate(path, db)
            cursor = db.execute(
                "INSERT INTO session (vnetbench_version, started_at) VALUES (?, ?)",
                (__version__, _current_time_text()),
            )
            db.execute("UPDATE campaign SET writer = ?, status = ?", (read_own_process_identity(), RUNNING))
        return int(cursor.lastrowid or 0)


def _write_campaign(db: sqlite3.Connection, study: Study, plan: Plan) -> None:
    """Write the schema and the campaign in one transaction: a reader finds no campaign or a complete one."""
    db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    schema = resources.files("vnetbench.results").joinpath("schema.sql").read_text()
    db.executescript(
        f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};{schema}"
    )
    db.execute(
        "INSERT INTO campaign VALUES (1, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (
            study.title, study.text, _path_or_none_if_not_utf8(study.path), to_json(study.overrides),
            plan.seed, _current_time_text(), RUNNING,
        ),
    )  # fmt: skip
    db.executemany(
        "INSERT INTO treatment (id, factors) VALUES (?, ?)",
        [(t.index, to_json(dict(t.factors))) for t in plan.treatments],
    )
    db.commit()


def _file_exists_error(path: Path) -> BenchError:
    return BenchError(
        "this file exists, and results are never overwritten",
        where=str(path),
        fix="choose another file with -o, or remove this one; to continue its campaign, use "
        f"vnetbench resume {path}",
    )


def _path_or_none_if_not_utf8(path: str | None) -> str | None:
    """Return a path as text; None if it is not valid UTF-8, which the file cannot store."""
    try:
        return None if path is None else path.encode().decode()
    except UnicodeEncodeError:
        return None


def _current_time_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
