"""Tests of real traffic, and once more what failed of them, alone: look_twice.py pytest|cargo COMMAND...

A host that takes CPUs away for a while can make any one of some 1,200 tests of real traffic fail. What is
broken fails twice. Both runs are printed, and what passed only the second time is told last, by name.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

TESTS_FAILED = {"pytest": 1, "cargo": 101}
"""What each exits with where tests ran and failed; with anything else there is nothing to look at again."""

CACHE = Path("out/pytest-real")
"""Apart from that of the tests that only compute, which run meanwhile."""


Ran = tuple[int, list[str], list[str]]
"""Status, the names of what failed, and the command that runs these alone."""


def pytest(command: Sequence[str]) -> Ran:
    """Its cache has the names of what failed."""
    command = [*command, "-o", f"cache_dir={CACHE.resolve()}"]
    status = subprocess.run([*command, "--cache-clear"], check=False).returncode
    record = CACHE / "v/cache/lastfailed"
    failed = list(json.loads(record.read_text())) if record.exists() else []
    return status, failed, [*command, "--last-failed", "--last-failed-no-failures=none", "--exitfirst"]


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


RUNNERS: dict[str, Callable[[Sequence[str]], Ran]] = {
    "pytest": pytest,
    "cargo": cargo,
}


def main(runner: str, *command: str) -> int:
    status, failed, again = RUNNERS[runner](command)
    if status != TESTS_FAILED[runner] or not failed:
        return status
    print(f"\nOnce more, alone: {', '.join(failed)}", flush=True)
    status = subprocess.run(again, check=False).returncode
    verdict = "Passed the second time only" if status == 0 else "Failed twice, or among them one that did"
    print(f"{verdict}: {', '.join(failed)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
