"""How much memory reading takes: that of a run, whatever the length of the log."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.importers.test_logs import PAGES, log_of

MOST_GROWTH_KIB = 8 * 2**10
"""Between a log and one of many times its length."""

pytestmark = pytest.mark.pure

LOGS = [log_of(page) for page in PAGES]


def test_a_long_log_takes_no_more_memory_than_a_short_one() -> None:
    few_runs, short = read(1)
    many_runs, long = read(16)

    assert many_runs > 10 * few_runs > 0
    assert long - short < MOST_GROWTH_KIB


def read(mebibytes: int) -> tuple[int, int]:
    """The runs of so many MiB of all logs, and the peak of memory in KiB, in a process of its own."""
    command = [sys.executable, "-m", "tests.importers.reading", str(mebibytes), *map(str, LOGS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    runs, peak_kib = done.stdout.split()
    return int(runs), int(peak_kib)
