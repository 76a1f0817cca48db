"""Test that memory of an import does not grow with the log (1 GiB is measured in bench/README.md)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.importers.test_logs import EXPECTATIONS, find_log

MAX_GROWTH_KIB_PER_TRIAL = 6
"""Growth from a log to one of four times its length: the estimates of each trial, which the import stores.
Runs and intervals stay on disk. The first log has filled the databases' caches."""

pytestmark = pytest.mark.pure


def test_a_long_log_needs_hardly_more_memory_than_a_short_one(tmp_path: Path) -> None:
    few_trials, short_kib = import_logs(tmp_path, 4)
    many_trials, long_kib = import_logs(tmp_path, 16)

    assert many_trials > 3 * few_trials > 0
    assert long_kib - short_kib < MAX_GROWTH_KIB_PER_TRIAL * (many_trials - few_trials)


def import_logs(folder: Path, mebibytes: int) -> tuple[int, int]:
    """Import a log of this size, made of all logs. Return the number of trials and the peak memory in KiB."""
    all_logs = b"\n".join(find_log(each).read_bytes() for each in EXPECTATIONS) + b"\n"
    log, results = folder / f"{mebibytes}.log", folder / f"{mebibytes}.vnb"
    log.write_bytes(all_logs * (mebibytes * 2**20 // len(all_logs) + 1))
    command = [sys.executable, "-m", "tests.importers.import_process", str(log), str(results)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    log.unlink()
    assert done.returncode == 0, done.stderr
    db = sqlite3.connect(results)
    (trials,) = db.execute("SELECT count(*) FROM trial").fetchone()
    db.close()
    return trials, int(done.stdout.split()[-1])
