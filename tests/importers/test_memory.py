"""How much memory an import takes: that of a run, and little for each more. 1 GiB takes less than 300 MiB."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.importers.test_logs import PAGES, log_of

SHORT, LONG, ASKED = 8, 24, 1024
"""MiB of log."""
MOST_KIB = 300 * 2**10
"""For the log that is asked for. What each MiB takes is measured between the short one and the long one."""

pytestmark = pytest.mark.pure


def test_an_import_of_a_gibibyte_takes_less_than_300_mib(tmp_path: Path) -> None:
    few, short_kib = imported(tmp_path, SHORT)
    many, long_kib = imported(tmp_path, LONG)

    assert many > 2 * few > 0
    assert long_kib + (ASKED - LONG) * (long_kib - short_kib) / (LONG - SHORT) < MOST_KIB


def imported(folder: Path, mebibytes: int) -> tuple[int, int]:
    """The trials of so many MiB of all logs over and over, and the peak of memory in KiB."""
    all_logs = b"\n".join(log_of(page).read_bytes() for page in PAGES) + b"\n"
    log, results = folder / f"{mebibytes}.log", folder / f"{mebibytes}.vnb"
    log.write_bytes(all_logs * (mebibytes * 2**20 // len(all_logs) + 1))
    command = [sys.executable, "-m", "tests.importers.importing", str(log), str(results)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    log.unlink()
    db = sqlite3.connect(results)
    (trials,) = db.execute("SELECT count(*) FROM trial").fetchone()
    db.close()
    return trials, int(done.stdout.split()[-1])
