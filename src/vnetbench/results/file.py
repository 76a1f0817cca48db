"""The results file: one SQLite file a campaign, each trial on disk before anyone hears of it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from vnetbench import __version__
from vnetbench.errors import BenchError
from vnetbench.process import is_alive, this_process
from vnetbench.results.records import (
    CampaignRecord,
    Histogram,
    Sample,
    SideRecord,
    StreamSample,
    TreatmentRecord,
    TrialRecord,
)
from vnetbench.study.model import Plan, Study

APPLICATION_ID = 0x764E4231  # "vNB1", in the SQLite header: `file` and we know the file by it
SCHEMA_VERSION = 1
PAGE_BYTES = 16384
"""A sample's row is up to 2 KB, and rows of an index tree that exceed a quarter page waste one each."""
SAMPLE_COLUMNS = ("rtt_us", "cwnd", "retransmits", "id", "role", "bytes")


class ResultsFile:
    """An open results file. Made by `create`, `open_to_read` or `open_to_write`; close it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, session: int | None) -> None:
        self.path = path
        self._db = connection
        self._session = session

    @classmethod
    def create(cls, path: Path, study: Study, plan: Plan) -> ResultsFile:
        """A new file for a campaign of `study`; raises BenchError when `path` exists or can't be written."""
        if path.exists():
            raise BenchError(
                "this file exists already, and results are never overwritten",
                where=str(path),
                fix=f"go on with it (vnetbench resume {path}), name another with -o, or remove it first",
            )
        if not path.parent.is_dir():
            raise BenchError(
                "the folder does not exist", where=str(path.parent), fix=f"mkdir -p {path.parent}"
            )
        with _explained(path):
            db = _connect(path, "rwc")
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            schema = resources.files("vnetbench.results").joinpath("schema.sql").read_text()
            db.executescript(
                f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
                f"{schema} COMMIT;"
            )
            with db:
                db.execute(
                    "INSERT INTO campaign VALUES (1, ?, ?, ?, ?, ?, ?, 'running', NULL)",
                    (study.title, study.text, study.path, _json(study.overrides), plan.seed, _now()),
                )
                db.executemany(
                    "INSERT INTO treatment (id, factors) VALUES (?, ?)",
                    [(t.index, _json(dict(t.factors))) for t in plan.treatments],
                )
            return cls(path, db, None)._begin_session()

    @classmethod
    def open_to_read(cls, path: Path) -> ResultsFile:
        """Open for estimates; a campaign that still runs may be read too."""
        with _explained(path):
            _undo_half_a_trial(path)
            return cls(path, _checked(path, "ro"), None)

    @classmethod
    def open_to_write(cls, path: Path) -> ResultsFile:
        """Open to go on with a campaign; raises BenchError while another bench is at work on it."""
        with _explained(path):
            db = _checked(path, "rw")
            (writer,) = db.execute("SELECT writer FROM campaign").fetchone()
            if writer and writer != this_process() and is_alive(writer):
                db.close()
                raise BenchError(
                    f"a campaign is at work on this file (process {writer.split(':')[0]})",
                    where=str(path),
                    fix="wait for it to end, or stop it with Ctrl-C where it runs",
                )
            return cls(path, db, None)._begin_session()

    def close(self, status: str | None = None) -> None:
        """Close the file; `status` is how the campaign stands (`finished`, `interrupted`)."""
        try:
            if self._session is not None:
                with _explained(self.path), self._db:
                    self._db.execute("UPDATE campaign SET writer = NULL")
                    if status:
                        self._db.execute("UPDATE campaign SET status = ?", (status,))
        finally:
            self._db.close()

    # -- what a campaign writes --

    def add_facts(self, place: str, facts: Mapping[str, object]) -> None:
        """Keep facts about `place` (`bench`, `host`, an endpoint) for this session."""
        with _explained(self.path), self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO fact VALUES (?, ?, ?, ?)",
                [(self._session, place, name, _json(value)) for name, value in facts.items()],
            )

    def add_testbed(self, shape: str, description: Mapping[str, object]) -> None:
        """Keep the description of a testbed that trials of this campaign ran on."""
        with _explained(self.path), self._db:
            self._db.execute("INSERT OR REPLACE INTO testbed VALUES (?, ?)", (shape, _json(description)))

    def add_trial(self, trial: TrialRecord, elapsed_s: float) -> int:
        """Write a trial with all that belongs to it in one transaction; returns its id.

        When this returns the trial is on disk. Raises BenchError when it cannot be (a full disk); then
        nothing of it is in the file.
        """
        with _explained(self.path), self._db:
            cursor = self._db.execute(
                "INSERT INTO trial (treatment_id, block, session_id, shape, started_s, duration_s, setup_s,"
                " state, failure, effective, notes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    trial.treatment, trial.block, self._session, trial.shape, trial.started_s,
                    trial.duration_s, trial.setup_s, trial.state, trial.failure, _json(trial.effective),
                    _json(trial.notes),
                ),
            )  # fmt: skip
            trial_id = int(cursor.lastrowid or 0)
            for side in trial.sides:
                self._add_side(trial_id, side)
            self._db.execute("UPDATE session SET elapsed_s = ? WHERE id = ?", (elapsed_s, self._session))
            return trial_id

    def _add_side(self, trial_id: int, side: SideRecord) -> None:
        key = (trial_id, side.endpoint)
        self._db.execute(
            "INSERT INTO side VALUES (?, ?, ?, ?, ?, ?)",
            (*key, side.role, side.bytes_sent, side.bytes_received, _json(side.totals)),
        )
        self._db.executemany(
            "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*key, s.seq, s.t_s, s.interval_s, s.bytes_sent, s.bytes_received, _json(s.counters),
                 _json(s.cpu) if s.cpu else None)
                for s in side.samples
            ],
        )  # fmt: skip
        self._db.executemany(
            "INSERT INTO stream_sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *key,
                    x.stream,
                    s.seq,
                    x.role,
                    x.bytes,
                    x.rtt_us,
                    x.cwnd,
                    x.retransmits,
                    _json(x.tcp_info),
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
        with _explained(self.path), self._db:
            self._db.execute(
                "UPDATE treatment SET state = ?, reason = ? WHERE id = ?", (state, reason, index)
            )

    # -- what the estimate stage reads --

    def campaign(self) -> CampaignRecord:
        """The head of the file. A campaign whose bench was killed is `interrupted`."""
        with _explained(self.path):
            row = self._db.execute(
                "SELECT title, study_text, study_path, overrides, seed, started_at, status, writer"
                " FROM campaign"
            ).fetchone()
            elapsed_s, version = self._db.execute(
                "SELECT coalesce(sum(elapsed_s), 0), max(vnetbench) FROM session"
            ).fetchone()
        title, text, path, overrides, seed, started_at, status, writer = row
        if status == "running" and not (writer and is_alive(writer)):
            status = "interrupted"
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
        with _explained(self.path):
            rows = self._db.execute("SELECT id, factors, state, reason FROM treatment ORDER BY id").fetchall()
        return tuple(TreatmentRecord(i, json.loads(f), state, reason) for i, f, state, reason in rows)

    def trials(self) -> Iterator[TrialRecord]:
        """All trials in the order in which they ran, one in memory at a time."""
        with _explained(self.path):
            rows = self._db.execute(
                "SELECT id, treatment_id, block, shape, started_s, duration_s, setup_s, failure, effective,"
                " notes FROM trial ORDER BY id"
            ).fetchall()
            for i, treatment, block, shape, started, duration, setup, failure, effective, notes in rows:
                yield TrialRecord(
                    treatment, block, shape, started, duration, setup, json.loads(effective),
                    tuple(self._sides(i)), failure, tuple(json.loads(notes)), i,
                )  # fmt: skip

    def _sides(self, trial_id: int) -> Iterator[SideRecord]:
        streams: dict[tuple[str, int], list[StreamSample]] = {}
        for endpoint, stream, seq, role, size, rtt, cwnd, retransmits, info in self._db.execute(
            "SELECT endpoint, stream, seq, role, bytes, rtt_us, cwnd, retransmits, tcp_info"
            " FROM stream_sample WHERE trial_id = ? ORDER BY endpoint, seq, stream",
            (trial_id,),
        ):
            sample = StreamSample(stream, role, size, rtt, cwnd, retransmits, json.loads(info))
            streams.setdefault((endpoint, seq), []).append(sample)
        histograms: dict[tuple[str, int], dict[str, Histogram]] = {}
        for endpoint, seq, kind, buckets in self._db.execute(
            "SELECT endpoint, seq, kind, buckets FROM histogram WHERE trial_id = ?", (trial_id,)
        ):
            histograms.setdefault((endpoint, seq), {})[kind] = histogram_of(json.loads(buckets))
        samples: dict[str, list[Sample]] = {}
        for endpoint, seq, t_s, interval_s, sent, received, counters, cpu in self._db.execute(
            "SELECT endpoint, seq, t_s, interval_s, bytes_sent, bytes_received, counters, cpu FROM sample"
            " WHERE trial_id = ? ORDER BY endpoint, seq",
            (trial_id,),
        ):
            samples.setdefault(endpoint, []).append(
                Sample(
                    seq, t_s, interval_s, sent, received, json.loads(counters),
                    tuple(json.loads(cpu)) if cpu else (), tuple(streams.get((endpoint, seq), ())),
                    histograms.get((endpoint, seq), {}),
                )
            )  # fmt: skip
        for endpoint, role, totals in self._db.execute(
            "SELECT endpoint, role, totals FROM side WHERE trial_id = ? ORDER BY endpoint", (trial_id,)
        ).fetchall():
            yield SideRecord(endpoint, role, json.loads(totals), tuple(samples.get(endpoint, ())))

    def facts(self) -> dict[str, dict[str, object]]:
        """Place to fact to value, of the newest session that knew them."""
        found: dict[str, dict[str, object]] = {}
        with _explained(self.path):
            for place, name, value in self._db.execute(
                "SELECT place, name, value FROM fact ORDER BY session_id"
            ):
                found.setdefault(place, {})[name] = json.loads(value)
        return found

    def testbeds(self) -> dict[str, dict[str, object]]:
        """Shape to description."""
        with _explained(self.path):
            rows = self._db.execute("SELECT shape, description FROM testbed ORDER BY shape").fetchall()
        return {shape: json.loads(text) for shape, text in rows}

    def _begin_session(self) -> ResultsFile:
        with self._db:
            cursor = self._db.execute(
                "INSERT INTO session (vnetbench, started_at) VALUES (?, ?)", (__version__, _now())
            )
            self._db.execute("UPDATE campaign SET writer = ?, status = 'running'", (this_process(),))
        self._session = cursor.lastrowid
        return self


def histogram_of(raw: list[list[int]]) -> Histogram:
    """The buckets of a distribution of the agent's events."""
    return tuple((int(value_ns), int(count)) for value_ns, count in raw)


def stream_sample(raw: Mapping[str, object]) -> StreamSample:
    """One element of `streams` of the agent's trial.sample event."""
    rest = {key: value for key, value in raw.items() if key not in SAMPLE_COLUMNS}
    rtt, cwnd, retransmits = (raw.get(key) for key in ("rtt_us", "cwnd", "retransmits"))
    return StreamSample(
        stream=int(str(raw["id"])),
        role=str(raw["role"]),
        bytes=int(str(raw["bytes"])),
        rtt_us=None if rtt is None else float(str(rtt)),
        cwnd=None if cwnd is None else int(str(cwnd)),
        retransmits=None if retransmits is None else int(str(retransmits)),
        tcp_info=rest,
    )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=20, check_same_thread=False
    )
    db.execute("PRAGMA foreign_keys = ON")
    if mode != "ro":
        db.execute("PRAGMA synchronous = FULL")  # a trial is durable before it is announced
    return db


def _undo_half_a_trial(path: Path) -> None:
    """Let SQLite roll back what a killed writer began: a connection that only reads may not."""
    journal = path.with_name(path.name + "-journal")
    if journal.exists() and path.exists() and os.access(path, os.W_OK):
        db = _connect(path, "rw")
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            db.close()


def _checked(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to a file that is whole, ours, and of a version that we read."""
    if not path.exists():
        raise BenchError(
            "there is no such file", where=str(path), fix="vnetbench run STUDY -o FILE makes one"
        )
    db = _connect(path, mode)
    try:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise BenchError(
                "this is not a results file of vnetbench", where=str(path), fix="name a .vnb file"
            )
        if version > SCHEMA_VERSION:
            raise BenchError(
                f"this file was written by a newer vnetbench (schema {version}, this one reads up to "
                f"{SCHEMA_VERSION})",
                where=str(path),
                fix="install the newer vnetbench and open it with that",
            )
        problems = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
        if problems != ["ok"]:
            raise sqlite3.DatabaseError(f"malformed: {problems[0]}")
        _check_length(path, db)
        if db.execute("SELECT count(*) FROM campaign").fetchone() != (1,):
            raise BenchError(
                "the campaign in this file was never begun", where=str(path), fix="remove it and run again"
            )
    except BaseException:
        db.close()
        raise
    return db


def _check_length(path: Path, db: sqlite3.Connection) -> None:
    """SQLite reads a missing last page as an empty one, and its quick check lets that pass.

    The header keeps how many pages there are (https://www.sqlite.org/fileformat2.html, 1.3.7).
    """
    with db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on nobody else writes
        (page_size,) = db.execute("PRAGMA page_size").fetchone()
        with path.open("rb") as file:
            pages = int.from_bytes(file.read(32)[28:], "big")
        if path.stat().st_size < pages * page_size:
            raise sqlite3.DatabaseError(f"malformed: {path.stat().st_size} bytes of {pages * page_size}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors in words that say what, where and the fix."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            what, fix = f"the disk is full or failed ({text})", f"make room, then: vnetbench resume {path}"
        elif "malformed" in text or "not a database" in text:
            what = f"the file is damaged or was cut short ({text})"
            fix = f'get it again from where it came; `sqlite3 {path} ".recover"` saves what can be saved'
        elif "unable to open" in text or "readonly" in text:
            what, fix = (
                f"the file cannot be opened ({text})",
                "check that it and its folder are yours to write",
            )
        elif "locked" in text:
            what, fix = f"the file is in use ({text})", "wait for the program that writes to it"
        else:
            what, fix = f"the file cannot be used ({text})", "check that it is a results file and is whole"
        raise BenchError(what, where=str(path), fix=fix) from error


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
