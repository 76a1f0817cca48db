"""Runs one campaign to its end through faults, and collects every broken guarantee."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.soak.faults import FAULTS, Fault, RunningBench
from bench.soak.leftovers import MachineState, read_machine_state
from bench.soak.usage import UsageSamples

LABEL_NAME = "VNETBENCH_SOAK"
TRIALS_BETWEEN_FAULTS = 5.0
"""Mean number of finished trials between two faults."""
STEADY_SHARE = 1 / 3
"""Share of the trials, at the end, that one bench runs without a fault. Memory and files are judged there."""
MAX_DELAY_S = 0.6
"""Longest time from a finished trial to a fault, so that faults hit every phase of a trial."""
STALL_S = 180.0
"""A bench that finishes no trial for this long hangs."""
END_TIMEOUT_S = 30.0
"""Processes that end with their bench take a moment to vanish, on a busy machine a longer one."""
MAX_SESSIONS_WITHOUT_PROGRESS = 10
CLEAN_SHARE = 0.5
"""Share of the kills after which `lab clean` runs before the next session."""
_POLL_S = 0.1
_CLOCK_SOURCE = Path(__file__).parent / "stepped_clock.c"

TrialKey = tuple[int, int]
"""Treatment and block of a trial."""


@dataclass
class Record:
    """What happened, and every guarantee that was broken."""

    faults: Counter[str] = field(default_factory=Counter)
    """Faults that disturbed something, by name."""
    exit_codes: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    failed_trials: int = 0
    violations: list[str] = field(default_factory=list)
    steady_usage: UsageSamples = field(default_factory=UsageSamples)


def write_study(path: Path, lab: str, trials: int, duration_ms: int) -> int:
    """Write a study of at least this many trials; returns the number of its trials."""
    blocks = -(-trials // 4)
    factors = 'cpu_quota = ["none", "80 %"]' if lab == "netns" else 'adapter = ["virtio-net", "e1000e"]'
    path.write_text(
        f'title = "Soak"\nworkload = "tcp_stream"\n\n[testbed]\nlab = "{lab}"\n\n'
        f'[timing]\nduration = "{duration_ms} ms"\n\n'
        f'[precision]\nhalf_width = "0.01 %"\nmin_trials = {blocks}\nmax_trials = {blocks}\n'
        f'time_limit = "24 h"\n\n[factors]\nstreams = [1, 2]\n{factors}\n'
    )
    return 4 * blocks


class Soak:
    """One campaign that is disturbed until all its trials are finished."""

    def __init__(self, folder: Path, lab: str, trials: int, duration_ms: int, seed: int) -> None:
        self.folder, self.lab = folder, lab
        self.study, self.results = folder / f"{lab}.toml", folder / f"{lab}.vnb"
        self.trials = write_study(self.study, lab, trials, duration_ms)
        self.chance = random.Random(seed)
        self.record = Record()
        self.finished: dict[TrialKey, str] = {}
        self._label = f"{LABEL_NAME}={os.getpid()}-{lab}"
        self._clock = folder / "clock"
        self._clock_library = build_clock_library(folder)
        self._faults = [each for each in FAULTS if each.lab in ("", lab)]
        self._temporary_folder = folder / "tmp"
        self._temporary_folder.mkdir()
        self._output = Path(tempfile.mkstemp(prefix="soak-output-")[1])
        self._bench_pids: set[int] = set()
        self._original = self._before = self._read_machine_state()

    def run(self) -> Record:
        """Run the campaign through sessions until it is complete or makes no progress."""
        steady_from = int(self.trials * (1 - STEADY_SHARE))
        without_progress = 0
        while len(self.finished) < self.trials and without_progress < MAX_SESSIONS_WITHOUT_PROGRESS:
            known = len(self.finished)
            self._run_session(steady_from)
            self.check_trials()
            self._show()
            without_progress = 0 if len(self.finished) > known else without_progress + 1
        self._clean()
        self._output.unlink()
        if len(self.finished) != self.trials:
            self._violation(f"{len(self.finished)} of {self.trials} trials are finished at the end")
        return self.record

    def _start(self) -> RunningBench:
        words = ["resume", str(self.results)]
        if not self.results.exists():
            words = ["run", str(self.study), "-o", str(self.results)]
        name, _, value = self._label.partition("=")
        self._clock.write_text("0")
        environment = {
            **os.environ,
            name: value,
            "TMPDIR": str(self._temporary_folder),
            "LD_PRELOAD": str(self._clock_library),
            "VNETBENCH_CLOCK_OFFSET": str(self._clock),
        }
        with self._output.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "vnetbench", *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                env=environment,
            )
        self._bench_pids.add(process.pid)
        return RunningBench(process, self.folder, self._clock)

    def _run_session(self, steady_from: int) -> None:
        """Run one bench with faults until one of them ends it, or until it ends by itself."""
        self.record.sessions += 1
        bench, fault = self._start(), None
        count = len(self.finished)
        while bench.process.poll() is None:
            if count >= steady_from:
                self._wait_for_trials(bench, None)
                break
            count += 1 + int(self.chance.expovariate(1 / TRIALS_BETWEEN_FAULTS))
            if not self._wait_for_trials(bench, min(count, steady_from)):
                break
            time.sleep(self.chance.uniform(0, MAX_DELAY_S))
            fault = self.chance.choices(self._faults, [each.weight for each in self._faults])[0]
            if fault.inject(bench, self.chance):
                self.record.faults[fault.name] += 1
            if fault.exit_codes:
                break
        self._end_session(bench, fault if fault and fault.exit_codes else None)

    def _wait_for_trials(self, bench: RunningBench, count: int | None) -> bool:
        """Wait for this number of finished trials; returns False if the bench ended or hangs.

        Without a number, wait until the bench ends, and sample its memory and files.
        """
        last, since = -1, time.monotonic()
        while bench.process.poll() is None:
            found = count_finished_trials(self.results)
            if count is None:
                self.record.steady_usage.add(bench.process.pid)
            elif found >= count:
                return True
            if found != last:
                last, since = found, time.monotonic()
            elif time.monotonic() - since > STALL_S:
                self._violation(f"the bench finished no trial for {STALL_S:.0f} s")
                bench.process.kill()
                return False
            time.sleep(1.0 if count is None else _POLL_S)
        return False

    def _end_session(self, bench: RunningBench, fault: Fault | None) -> None:
        try:
            code = bench.process.wait(STALL_S)
        except subprocess.TimeoutExpired:
            self._violation(f"the bench did not end within {STALL_S:.0f} s after: {fault and fault.name}")
            bench.process.kill()
            code = bench.process.wait()
        output = self._output.read_text(errors="replace")
        name = fault.name if fault else "no fault"
        self.record.exit_codes[f"{code} after {name}"] += 1
        self.check_exit_code(code, fault, output)
        if "Traceback" in output:
            start = output.index("Traceback")
            self._violation(f"a traceback after {name}: {output[start : start + 4000]!r}")
        if not output.strip() and code != -signal.SIGKILL:
            self._violation(f"no output, exit code {code}, after {name}")
        # Only a killed bench may leave its testbed. `lab clean` removes it, also while another bench runs.
        if code != -signal.SIGKILL:
            self._check_leftovers(f"after {name}")
        elif self.chance.random() < CLEAN_SHARE:
            self._clean()
        else:
            self._before = self._read_machine_state()

    def check_exit_code(self, code: int, fault: Fault | None, output: str) -> None:
        """Report an exit code that does not fit: 0 stands for a complete campaign, whatever the fault."""
        name = fault.name if fault else "no fault"
        if code not in ((*fault.exit_codes, 0) if fault else (0,)):
            self._violation(f"exit code {code} after {name}: {output[-400:]!r}")
        elif code == 0 and count_finished_trials(self.results) < self.trials:
            self._violation(f"exit code 0 without the last trial, after {name}")

    def _clean(self) -> None:
        name, _, value = self._label.partition("=")
        done = subprocess.run(
            [sys.executable, "-m", "vnetbench", "lab", "clean"],
            capture_output=True,
            text=True,
            env={**os.environ, name: value},
        )
        if done.returncode:
            self._violation(f"`lab clean` ended with {done.returncode}: {done.stderr[-300:]}")
        self._before = self._original
        self._check_leftovers("after `lab clean`")

    def _check_leftovers(self, moment: str) -> None:
        deadline = time.monotonic() + END_TIMEOUT_S
        while (added := self._read_machine_state().added_since(self._before)) and (
            time.monotonic() < deadline
        ):
            time.sleep(_POLL_S)
        for item in added:
            self._violation(f"left behind {moment}: {item}")
        if added:
            self._before = self._read_machine_state()  # Report each thing once.

    def _read_machine_state(self) -> MachineState:
        return read_machine_state(self._label, self._temporary_folder, self._bench_pids)

    def check_trials(self) -> None:
        """Compare the finished trials with those of the last check; a lost or changed one is a violation."""
        found = read_finished_trials(self.results)
        for key, digest in self.finished.items():
            if key not in found:
                self._violation(f"the finished trial {key} is lost")
            elif found[key] != digest:
                self._violation(f"the finished trial {key} has changed")
        self.finished = found
        self.record.failed_trials = count_failed_trials(self.results)

    def _violation(self, text: str) -> None:
        self.record.violations.append(text)
        print(f"VIOLATION: {text}", flush=True)

    def _show(self) -> None:
        print(
            f"{self.lab}: {len(self.finished)} of {self.trials} trials, {self.record.sessions} sessions, "
            f"{sum(self.record.faults.values())} faults, {self.record.failed_trials} failed trials, "
            f"{len(self.record.violations)} violations",
            flush=True,
        )


def build_clock_library(folder: Path) -> Path:
    """Compile the library that steps the clock of one process."""
    library = folder / "stepped_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, _CLOCK_SOURCE], check=True)
    return library


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)) as db:
        yield db


def count_finished_trials(path: Path) -> int:
    """Return the number of finished trials of a results file that may be in use, or not exist yet."""
    return _count_trials(path, "done")


def count_failed_trials(path: Path) -> int:
    """Return the number of failed trials of a results file."""
    return _count_trials(path, "failed")


def _count_trials(path: Path, state: str) -> int:
    if not path.exists():
        return 0
    with _database(path) as db:
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'trial'").fetchall():
            return 0  # The bench creates the file at this moment.
        (count,) = db.execute("SELECT count(*) FROM trial WHERE state = ?", (state,)).fetchone()
        return int(count)


def read_finished_trials(path: Path) -> dict[TrialKey, str]:
    """Return each finished trial with a digest of its rows in all tables."""
    if not path.exists():
        return {}
    with _database(path) as db:
        trials = db.execute("SELECT id, * FROM trial WHERE state = 'done'").fetchall()
        digests = {row[0]: hashlib.sha256(repr(row).encode()) for row in trials}
        tables = db.execute(
            "SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c "
            "WHERE m.type = 'table' AND c.name = 'trial_id'"
        ).fetchall()
        for (table,) in tables:
            for row in db.execute(f"SELECT trial_id, * FROM {table} ORDER BY 1, 2, 3"):
                if row[0] in digests:
                    digests[row[0]].update(repr(row).encode())
        keys = db.execute("SELECT id, treatment_id, block FROM trial WHERE state = 'done'")
        return {(treatment, block): digests[trial].hexdigest() for trial, treatment, block in keys}
