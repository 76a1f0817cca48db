"""How much memory an import takes: that of a run, and little for each more (of 1 GiB: bench/README.md)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.importers.test_logs import EXPECTATIONS, find_log

MOST_GROWTH_KIB = 8 * 2**10
"""Between a log and one of four times its length; the databases' caches have filled with the first."""

pytestmark = pytest.mark.pure


def test_a_long_log_takes_hardly_more_memory_than_a_short_one(tmp_path: Path) -> None:
    few, short_kib = imported(tmp_path, 4)
    many, long_kib = imported(tmp_path, 16)

    assert many > 3 * few > 0
    assert long_kib - short_kib < MOST_GROWTH_KIB


def imported(folder: Path, mebibytes: int) -> tuple[int, int]:
    """The trials of so many MiB of all logs over and over, and the peak of memory in KiB."""
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
