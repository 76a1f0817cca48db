"""Test how the memory of an import grows with the log: reading and writing, and the estimates apart."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.importers.test_logs import EXPECTATIONS, find_log

SHORT_MIB, LONG_MIB = 2, 6
MAX_GROWTH_KIB = (LONG_MIB - SHORT_MIB) * 2**10
"""The text that the long log has in addition. Caches of the databases grow less: we measured 2,500 KiB."""
MAX_ESTIMATES_KIB_PER_TRIAL = 6
"""The import reads a summary of all trials, to store estimates and the narrative. We measured 3.3 KiB."""

pytestmark = pytest.mark.pure


@dataclass(frozen=True)
class Import:
    """What an import of one log needed."""

    trials: int
    peak_before_estimates_kib: int
    """Peak memory of reading the log and writing the results file."""
    peak_kib: int
    """Peak memory of the whole command."""

    @property
    def estimates_kib(self) -> int:
        """Return what estimates and the narrative add to the peak."""
        return self.peak_kib - self.peak_before_estimates_kib


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Import, Import]:
    """Import a short and a long log."""
    folder = tmp_path_factory.mktemp("imports")
    short, long = import_log(folder, SHORT_MIB), import_log(folder, LONG_MIB)
    assert long.trials > 2 * short.trials > 0
    return short, long


def test_reading_and_writing_keep_less_in_memory_than_a_longer_log_has_more_text(
    imports: tuple[Import, Import],
) -> None:
    short, long = imports
    assert long.peak_before_estimates_kib - short.peak_before_estimates_kib < MAX_GROWTH_KIB


def test_estimates_take_little_memory_for_each_further_trial(imports: tuple[Import, Import]) -> None:
    short, long = imports
    growth_kib = long.estimates_kib - short.estimates_kib
    assert growth_kib < MAX_ESTIMATES_KIB_PER_TRIAL * (long.trials - short.trials)


def import_log(folder: Path, mebibytes: int) -> Import:
    """Import a log of this size, made of all logs of the tests, in a process of its own."""
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
    before_estimates, peak = done.stdout.split()[-2:]
    return Import(trials, int(before_estimates), int(peak))
