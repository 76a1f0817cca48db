"""The results file: one SQLite file a campaign, each trial on disk before anyone hears of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from vnetbench import __version__
from vnetbench.errors import BenchError
from vnetbench.process import is_alive, this_process
from vnetbench.results import step_table
from vnetbench.results.connection import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    checked,
    connect,
    explained,
    undo_half_a_trial,
)
from vnetbench.results.agent_events import histogram_of
from vnetbench.results.records import (
    INTERRUPTED,
    RUNNING,
    CampaignRecord,
    Histogram,
    Sample,
    SideRecord,
    StepRecord,
    StreamSample,
    TreatmentRecord,
    TrialRecord,
    Watched,
)
from vnetbench.study.model import Plan, Study

PAGE_BYTES = 16384
"""A sample's row is up to 2 KB, and rows of an index tree that exceed a quarter page waste one each."""
WATCHED = "watched"
"""Among a sample's counters: what its observer was told to watch."""


def check_free(path: Path) -> None:
    """Raises BenchError where no results file can be made: there is a file, or there is no folder."""
    with explained(path):
        if path.exists():
            raise BenchError(
                "this file exists already, and results are never overwritten",
                where=str(path),
                fix="name another with -o, or remove it first; a campaign goes on with "
                f"vnetbench resume {path}",
            )
        if not path.parent.is_dir():
            raise BenchError(
                "the folder does not exist", where=str(path.parent), fix=f"mkdir -p {path.parent}"
            )


class ResultsFile:
    """An open results file. Made by `create`, `open_to_read` or `open_to_write`; close it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, session: int | None) -> None:
        self.path = path
        self._db = connection
        self._session = session

    @classmethod
    def create(cls, path: Path, study: Study, plan: Plan) -> ResultsFile:
        """A new file for a campaign of `study`; raises BenchError when `path` exists or can't be written."""
        check_free(path)
        with explained(path):
            db = connect(path, "rwc")
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            schema = resources.files("vnetbench.results").joinpath("schema.sql").read_text()
            # One transaction for all of it: who looks meanwhile finds nothing, or a campaign.
            db.executescript(
                f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
                f"{schema}"
            )
            db.execute(
                "INSERT INTO campaign VALUES (1, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    study.title, study.text, _storable(study.path), _json(study.overrides), plan.seed, _now(),
                    RUNNING,
                ),
            )  # fmt: skip
            db.executemany(
                "INSERT INTO treatment (id, factors) VALUES (?, ?)",
                [(t.index, _json(dict(t.factors))) for t in plan.treatments],
            )
            db.commit()
            return cls(path, db, cls._begin_session(path, db))

    @classmethod
    def open_to_read(cls, path: Path) -> ResultsFile:
        """Open for estimates; a campaign that still runs may be read too."""
        with explained(path):
            undo_half_a_trial(path)
            return cls(path, checked(path, "ro"), None)

    @classmethod
    def open_to_write(cls, path: Path) -> ResultsFile:
        """Open to go on with a campaign; raises BenchError while another bench is at work on it."""
        with explained(path):
            db = checked(path, "rw")
            return cls(path, db, cls._begin_session(path, db))

    def close(self, status: str | None = None) -> None:
        """Close the file; `status` is how the campaign stands (`finished`, `interrupted`)."""
        try:
            if self._session is not None:
                with explained(self.path), self._db:
                    self._db.execute("UPDATE campaign SET writer = NULL")
                    if status:
                        self._db.execute("UPDATE campaign SET status = ?", (status,))
        finally:
            self._db.close()

    # -- what a campaign writes --

    def add_facts(self, place: str, facts: Mapping[str, object]) -> None:
        """Keep facts about `place` (`bench`, `host`, an endpoint) for this session."""
        with explained(self.path), self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO fact VALUES (?, ?, ?, ?)",
                [(self._session, place, name, _json(value)) for name, value in facts.items()],
            )

    def add_testbed(self, shape: str, description: Mapping[str, object]) -> None:
        """Keep the description of a testbed that trials of this campaign ran on."""
        with explained(self.path), self._db:
            self._db.execute("INSERT OR REPLACE INTO testbed VALUES (?, ?)", (shape, _json(description)))

    def add_trial(self, trial: TrialRecord, elapsed_s: float) -> int:
        """Write a trial with all that belongs to it in one transaction; returns its id.

        When this returns the trial is on disk. Raises BenchError when it cannot be (a full disk); then
        nothing of it is in the file.
        """
        with explained(self.path), self._db:
            trial_id = self._insert(trial)
            self._db.execute("UPDATE session SET elapsed_s = ? WHERE id = ?", (elapsed_s, self._session))
            return trial_id

    def add_trials(self, trials: Iterable[TrialRecord]) -> None:
        """Write trials that were over before, in one transaction: all of them, or none. Raises BenchError."""
        with explained(self.path), self._db:
            for trial in trials:
                self._insert(trial)

    def _insert(self, trial: TrialRecord) -> int:
        cursor = self._db.execute(
            "INSERT INTO trial (treatment_id, block, session_id, shape, started_s, idle_s, duration_s,"
            " setup_s, state, failure, effective, notes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                trial.treatment, trial.block, self._session, trial.shape, trial.started_s,
                trial.idle_s, trial.duration_s, trial.setup_s, trial.state, trial.failure,
                _json(trial.effective), _json(trial.notes),
            ),
        )  # fmt: skip
        trial_id = int(cursor.lastrowid or 0)
        for side in trial.sides:
            self._add_side(trial_id, side)
        return trial_id

    def add_step(self, treatment: int, block: int, step: StepRecord, elapsed_s: float) -> None:
        """Write a step of a trial that goes on; on disk when this returns. Raises as `add_trial` does."""
        with explained(self.path), self._db:
            step_table.add(self._db, self._session, treatment, block, step)
            self._db.execute("UPDATE session SET elapsed_s = ? WHERE id = ?", (elapsed_s, self._session))

    def drop_steps(self, treatment: int, block: int) -> None:
        """Remove the steps of a trial that is to be begun anew."""
        with explained(self.path), self._db:
            step_table.drop(self._db, treatment, block)

    def _add_side(self, trial_id: int, side: SideRecord) -> None:
        key = (trial_id, side.endpoint)
        self._db.execute(
            "INSERT INTO side VALUES (?, ?, ?, ?, ?, ?)",
            (*key, side.role, side.bytes_sent, side.bytes_received, _json(side.totals)),
        )
        self._db.executemany(
            "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*key, s.seq, s.t_s, s.interval_s, s.bytes_sent, s.bytes_received, _json(_counters(s)),
                 _json(s.cpu) if s.cpu else None)
                for s in side.samples
            ],
        )  # fmt: skip
        self._db.executemany(
            "INSERT INTO stream_sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *key,
                    x.stream,
                    s.seq,
                    x.role,
                    x.part,
                    x.bytes,
                    x.rtt_us,
                    x.cwnd,
                    x.retransmits,
                    _json(x.info),
                )
                for s in side.samples
                for x in s.streams
            ],
        )

        self._db.executemany(
            "INSERT INTO histogram VALUES (?, ?, ?, ?, ?)",
            [
                (*key, s.seq, kind, _json(buckets))
                for s in side.samples
                for kind, buckets in s.histograms.items()
            ],
        )

    def set_treatment(self, index: int, state: str, reason: str = "") -> None:
        """Keep why a treatment is no longer repeated."""
        with explained(self.path), self._db:
            self._db.execute(
                "UPDATE treatment SET state = ?, reason = ? WHERE id = ?", (state, reason, index)
            )

    # -- what the estimate stage reads --

    def campaign(self) -> CampaignRecord:
        """The head of the file. A campaign whose bench was killed is `interrupted`."""
        with explained(self.path):
            row = self._db.execute(
                "SELECT title, study_text, study_path, overrides, seed, started_at, status, writer"
                " FROM campaign"
            ).fetchone()
            elapsed_s, version = self._db.execute(
                "SELECT coalesce(sum(elapsed_s), 0), max(vnetbench) FROM session"
            ).fetchone()
        title, text, path, overrides, seed, started_at, status, writer = row
        if status == RUNNING and not (writer and is_alive(writer)):
            status = INTERRUPTED
        return CampaignRecord(
            title,
            text,
            path,
            tuple(json.loads(overrides)),
            seed,
            started_at,
            status,
            elapsed_s,
            version or "",
        )

    def treatments(self) -> tuple[TreatmentRecord, ...]:
        """All treatments of the plan, in its order."""
        with explained(self.path):
            rows = self._db.execute("SELECT id, factors, state, reason FROM treatment ORDER BY id").fetchall()
        return tuple(TreatmentRecord(i, json.loads(f), state, reason) for i, f, state, reason in rows)

    def trials(self, *, counted: bool = True) -> Iterator[TrialRecord]:
        """All trials in the order in which they ran, one in memory at a time.

        Where they are not `counted` their samples have no counters and no CPUs, which are most of a file.
        """
        with explained(self.path):
            rows = self._db.execute(
                "SELECT id, treatment_id, block, shape, started_s, duration_s, setup_s, failure, effective,"
                " notes, idle_s FROM trial ORDER BY id"
            ).fetchall()
            for i, treatment, block, shape, started, duration, setup, failure, effective, notes, idle in rows:
                yield TrialRecord(
                    treatment, block, shape, started, duration, setup, json.loads(effective),
                    tuple(self._sides(i, counted)), failure, tuple(json.loads(notes)), i, idle,
                    step_table.of_trial(self._db, treatment, block),
                )  # fmt: skip

    def steps(self, treatment: int, block: int) -> tuple[StepRecord, ...]:
        """The steps of a trial, which may not be over yet, in order."""
        with explained(self.path):
            return step_table.of_trial(self._db, treatment, block)

    def _sides(self, trial_id: int, counted: bool) -> Iterator[SideRecord]:
        streams: dict[tuple[str, int], list[StreamSample]] = {}
        rows = self._db.execute(
            "SELECT info, endpoint, seq, stream, role, bytes, rtt_us, cwnd, retransmits, part"
            " FROM stream_sample WHERE trial_id = ? ORDER BY endpoint, seq, stream",
            (trial_id,),
        ).fetchall()
        for info, (_, endpoint, seq, stream, role, size, rtt, cwnd, retransmits, part) in zip(
            _parsed(rows), rows, strict=True
        ):
            sample = StreamSample(stream, role, size, rtt, cwnd, retransmits, info, part)
            streams.setdefault((endpoint, seq), []).append(sample)
        histograms: dict[tuple[str, int], dict[str, Histogram]] = {}
        rows = self._db.execute(
            "SELECT buckets, endpoint, seq, kind FROM histogram WHERE trial_id = ?", (trial_id,)
        ).fetchall()
        for buckets, (_, endpoint, seq, kind) in zip(_parsed(rows), rows, strict=True):
            histograms.setdefault((endpoint, seq), {})[kind] = histogram_of(buckets)
        samples: dict[str, list[Sample]] = {}
        columns = "counters, cpu" if counted else "'{}', NULL"
        rows = self._db.execute(
            f"SELECT {columns}, endpoint, seq, t_s, interval_s, bytes_sent, bytes_received FROM sample"
            " WHERE trial_id = ? ORDER BY endpoint, seq",
            (trial_id,),
        ).fetchall()
        cpus = iter(_parsed([(cpu,) for _, cpu, *_ in rows if cpu]))
        for counters, (_, cpu, endpoint, seq, t_s, interval_s, sent, received) in zip(
            _parsed(rows), rows, strict=True
        ):
            watched = counters.pop(WATCHED, None)
            samples.setdefault(endpoint, []).append(
                Sample(
                    seq, t_s, interval_s, sent, received, counters,
                    tuple(next(cpus)) if cpu else (), tuple(streams.get((endpoint, seq), ())),
                    histograms.get((endpoint, seq), {}), Watched(**watched) if watched else None,
                )
            )  # fmt: skip
        for endpoint, role, totals in self._db.execute(
            "SELECT endpoint, role, totals FROM side WHERE trial_id = ? ORDER BY endpoint", (trial_id,)
        ).fetchall():
            yield SideRecord(endpoint, role, json.loads(totals), tuple(samples.get(endpoint, ())))

    def facts(self) -> dict[str, dict[str, object]]:
        """Place to fact to value, of the newest session that knew them."""
        found: dict[str, dict[str, object]] = {}
        for of_session in self.facts_of_sessions():
            for place, facts in of_session.items():
                found.setdefault(place, {}).update(facts)
        return found

    def facts_of_sessions(self) -> list[dict[str, dict[str, object]]]:
        """For each session place to fact to value, the oldest session first."""
        sessions: dict[int, dict[str, dict[str, object]]] = {}
        with explained(self.path):
            for session, place, name, value in self._db.execute(
                "SELECT session_id, place, name, value FROM fact ORDER BY session_id"
            ):
                sessions.setdefault(session, {}).setdefault(place, {})[name] = json.loads(value)
        return list(sessions.values())

    def testbeds(self) -> dict[str, dict[str, object]]:
        """Shape to description."""
        with explained(self.path):
            rows = self._db.execute("SELECT shape, description FROM testbed ORDER BY shape").fetchall()
        return {shape: json.loads(text) for shape, text in rows}

    @staticmethod
    def _begin_session(path: Path, db: sqlite3.Connection) -> int:
        """Become the file's one writer; raises BenchError while another lives."""
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")  # two that look at the same time must not both see nobody
                (writer,) = db.execute("SELECT writer FROM campaign").fetchone()
                if writer and is_alive(writer):
                    raise BenchError(
                        f"a campaign is at work on this file (process {writer.split(':')[0]})",
                        where=str(path),
                        fix="wait for it to end, or stop it with Ctrl-C where it runs",
                    )
                cursor = db.execute(
                    "INSERT INTO session (vnetbench, started_at) VALUES (?, ?)", (__version__, _now())
                )
                db.execute("UPDATE campaign SET writer = ?, status = ?", (this_process(), RUNNING))
        except BaseException:
            db.close()
            raise
        return int(cursor.lastrowid or 0)


def _counters(sample: Sample) -> dict[str, object]:
    watched = {WATCHED: asdict(sample.watched)} if sample.watched else {}
    return {**sample.counters, **watched}


def _storable(path: str | None) -> str | None:
    """A path as text; None for a name that is no UTF-8, which no text can hold."""
    try:
        return None if path is None else path.encode().decode()
    except UnicodeEncodeError:
        return None


def _parsed(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The JSON that each row begins with; all in one text, as the parser then shares what the keys are."""
    parsed: list[Any] = json.loads(f"[{','.join(row[0] for row in rows)}]")
    return parsed


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
