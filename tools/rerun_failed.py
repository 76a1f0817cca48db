"""Run tests with real traffic and rerun failed ones: python -m tools.rerun_failed pytest|cargo COMMAND...

A host that takes CPUs away for a while can make any of some 1,200 tests with real traffic fail. Failed
tests must pass twice in a row, alone. A broken test fails again, and a flaky test rarely passes twice. The
output of all runs is printed, then the tests that failed at first and the CPU time that the host took
(steal).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cpu_time import cpu_time

FAILURE_STATUS = {"pytest": 1, "cargo": 101}
"""Exit status of each runner for failed tests. Other errors are not rerun."""

CACHE = Path("out/pytest-real")
"""Separate from the cache of the tests without traffic, which run at the same time."""

REQUIRED_PASSES = 2

TestRun = tuple[int, list[str], list[str]]
"""Exit status, names of the failed tests, and the command that runs only these."""


def run_pytest(command: Sequence[str]) -> TestRun:
    """Run pytest; its cache contains the names of failed tests."""
    command = [*command, "-o", f"cache_dir={CACHE.resolve()}"]
    status = subprocess.run([*command, "--cache-clear"], check=False).returncode
    record = CACHE / "v/cache/lastfailed"
    failed = list(json.loads(record.read_text())) if record.exists() else []
    return status, failed, [*command, "--exitfirst", *failed]


def run_cargo(command: Sequence[str]) -> TestRun:
    """Run cargo test; its last list of failures contains the names, indented."""
    command = [*command, "--no-fail-fast"]
    failed: list[str] = []
    listing = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            listing = line == "failures:\n" or (listing and line.strip() != "")
            if listing and line.startswith("    "):
                failed.append(line.strip())
    names = sorted(set(failed))
    return running.returncode, names, [*command, "--", "--exact", *names]


RUNNERS: dict[str, Callable[[Sequence[str]], TestRun]] = {"pytest": run_pytest, "cargo": run_cargo}


def main(runner: str, *command: str) -> int:
    """Run the command, rerun failed tests and return the exit status."""
    before = cpu_time()
    status, failed, again = RUNNERS[runner](command)
    if status != FAILURE_STATUS[runner] or not failed:
        return status
    after = cpu_time()
    requested = (after.whole - before.whole) - (after.idle - before.idle)
    stolen = (after.stolen - before.stolen) / requested if requested else 0.0
    print(f"\nRerunning alone: {', '.join(failed)}", flush=True)
    for _ in range(REQUIRED_PASSES):
        status = subprocess.run(again, check=False).returncode
        if status:
            break
    verdict = (
        "At least one failed again" if status else f"Failed at first, then passed {REQUIRED_PASSES} times"
    )
    host = f"the host took {stolen:.0%} of the requested CPU time"
    print(f"{verdict} ({host}): {', '.join(failed)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
