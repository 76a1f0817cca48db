"""Tests of real traffic, and again what failed of them: python -m tools.look_twice pytest|cargo COMMAND...

A host that takes CPUs away for a while can make any one of some 1,200 tests of real traffic fail. What failed
has to pass twice in a row, alone: what is broken does not, and what is so at times seldom does. All runs are
printed, and what failed at first is told last, by name, with the CPU time that the host took meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cpu_time import cpu_time

TESTS_FAILED = {"pytest": 1, "cargo": 101}
"""What each exits with where tests ran and failed; with anything else there is nothing to look at again."""

CACHE = Path("out/pytest-real")
"""Apart from that of the tests that only compute, which run meanwhile."""

TIMES = 2

Ran = tuple[int, list[str], list[str]]
"""Status, the names of what failed, and the command that runs these alone."""


def pytest(command: Sequence[str]) -> Ran:
    """Its cache has the names of what failed."""
    command = [*command, "-o", f"cache_dir={CACHE.resolve()}"]
    status = subprocess.run([*command, "--cache-clear"], check=False).returncode
    record = CACHE / "v/cache/lastfailed"
    failed = list(json.loads(record.read_text())) if record.exists() else []
    return status, failed, [*command, "--exitfirst", *failed]


def cargo(command: Sequence[str]) -> Ran:
    """Its last list of failures has their names, indented."""
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


RUNNERS: dict[str, Callable[[Sequence[str]], Ran]] = {"pytest": pytest, "cargo": cargo}


def main(runner: str, *command: str) -> int:
    before = cpu_time()
    status, failed, again = RUNNERS[runner](command)
    if status != TESTS_FAILED[runner] or not failed:
        return status
    after = cpu_time()
    asked_for = (after.whole - before.whole) - (after.idle - before.idle)
    stolen = (after.stolen - before.stolen) / asked_for if asked_for else 0.0
    print(f"\nAgain, alone: {', '.join(failed)}", flush=True)
    for _ in range(TIMES):
        status = subprocess.run(again, check=False).returncode
        if status:
            break
    verdict = (
        "Failed again, these or one of them" if status else f"Failed at first, then passed {TIMES} times"
    )
    host = f"the host took {stolen:.0%} of the CPU time asked for"
    print(f"{verdict} ({host}): {', '.join(failed)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
