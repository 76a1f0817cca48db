"""Run all fuzz targets for a time each: python -m tools.fuzz SECONDS [WORD...].

Targets are the tests in tests/fuzz (hypothesis) and the agent's tests that have `mutated` in their name.
Tests with `_kept_` in their name are no targets: they repeat the examples of earlier failures.
Each runs in batches with new random examples until its time is over. With words, only targets whose name
contains one of them run. A failure prints its example; the other targets still run. Exit status 1: a target
failed, or there is none.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHON_FOLDER = "tests/fuzz"
RUST_WORD = "mutated"
KEPT_WORD = "_kept_"
EXAMPLES_VARIABLE, CASES_VARIABLE = "VNETBENCH_FUZZ_EXAMPLES", "PROPTEST_CASES"
CASES_OF_FIRST_BATCH = 200
BATCH_S = 60.0
"""Desired duration of a batch: much longer than the start of a test runner."""
MAX_BATCH_S = 1800.0
"""A batch that takes longer hangs: it fails."""
IN_LAB = ("tools/in-lab", sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
CARGO_TEST = ("cargo", "test", "--locked", "--release", "--quiet")

RunBatch = Callable[[Sequence[str], Mapping[str, str]], int]
"""Runs a command with variables added to the environment, and returns its exit status."""


@dataclass(frozen=True)
class Target:
    """One fuzz target: a test that takes any number of random examples."""

    name: str
    command: tuple[str, ...]
    count_variable: str
    """Environment variable with the number of examples."""
    seed_option: str = ""
    """Option with the seed of a batch; empty: each run has a new seed."""

    def batch_command(self, seed: int) -> list[str]:
        """Return the command of a batch."""
        return [*self.command, f"{self.seed_option}{seed}"] if self.seed_option else list(self.command)


def python_targets() -> list[Target]:
    """Return the tests in tests/fuzz that take random examples."""
    listing = _output([*IN_LAB, "--collect-only", "-q", "-o", "addopts=", PYTHON_FOLDER])
    names = [line for line in listing.splitlines() if "::" in line and KEPT_WORD not in line]
    return [Target(each, (*IN_LAB, each), EXAMPLES_VARIABLE, "--hypothesis-seed=") for each in names]


def rust_targets() -> list[Target]:
    """Return the agent's tests whose name contains `mutated`."""
    lines = _output([*CARGO_TEST, RUST_WORD, "--", "--list"]).splitlines()
    names = sorted({line.removesuffix(": test") for line in lines if line.endswith(": test")})
    return [Target(each, (*CARGO_TEST, each, "--", "--exact"), CASES_VARIABLE) for each in names]


def fuzz(target: Target, seconds: float, run_batch: RunBatch, clock: Callable[[], float]) -> tuple[bool, int]:
    """Run batches of a target until its time is over or one fails.

    Args:
        target: The target.
        seconds: Its time. The last batch may end later.
        run_batch: Runs a batch.
        clock: Returns the time in seconds.

    Returns:
        Whether all batches passed, and the number of examples requested.
    """
    began, count, total = clock(), CASES_OF_FIRST_BATCH, 0
    while True:
        batch_began = clock()
        seed = random.SystemRandom().getrandbits(32)
        status = run_batch(target.batch_command(seed), {target.count_variable: str(count)})
        total += count
        if status:
            return False, total
        now = clock()
        remaining_s = seconds - (now - began)
        if remaining_s <= 0:
            return True, total
        per_s = count / max(now - batch_began, 0.1)
        count = max(1, round(per_s * min(BATCH_S, remaining_s)))


def run_command(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a batch; one that hangs is killed and fails."""
    try:
        return subprocess.run(command, env={**os.environ, **variables}, timeout=MAX_BATCH_S).returncode
    except subprocess.TimeoutExpired:
        print(f"the batch took more than {MAX_BATCH_S:.0f} s", flush=True)
        return 1


def main(seconds: str, *words: str) -> int:
    """Run all targets and return the exit status."""
    os.chdir(Path(__file__).parents[1])
    count, failed = 0, []
    for list_targets in (python_targets, rust_targets):  # building the second takes minutes
        for target in list_targets():
            if words and not any(word in target.name for word in words):
                continue
            print(f"== {target.name}", flush=True)
            passed, examples = fuzz(target, float(seconds), run_command, time.monotonic)
            count += 1
            print(f"== {target.name}: {'passed' if passed else 'FAILED'}, {examples} examples", flush=True)
            if not passed:
                failed.append(target.name)
    print(f"{count} targets, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}", flush=True)
    return 1 if failed or not count else 0


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
