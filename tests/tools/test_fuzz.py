"""The runner of the fuzz targets: batches until the time is over, and failures that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tools.fuzz import BATCH_S, CASES_OF_FIRST_BATCH, Target, fuzz

pytestmark = pytest.mark.pure

TARGET = Target("t", ("run", "t"), "COUNT", "--seed=")


class Batches:
    """Runs batches on a simulated clock, at a fixed number of examples per second."""

    def __init__(self, examples_per_s: float, statuses: Mapping[int, int] | None = None) -> None:
        self.now = 0.0
        self.counts: list[int] = []
        self.commands: list[tuple[str, ...]] = []
        self._examples_per_s, self._statuses = examples_per_s, statuses or {}

    def run(self, command: Sequence[str], variables: Mapping[str, str]) -> int:
        self.counts.append(int(variables["COUNT"]))
        self.commands.append(tuple(command))
        self.now += self.counts[-1] / self._examples_per_s
        return self._statuses.get(len(self.counts), 0)

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize("examples_per_s", [0.5, 10, 1000])
def test_a_target_runs_for_its_time_in_batches_of_new_seeds(examples_per_s: float) -> None:
    batches = Batches(examples_per_s)
    passed, count = fuzz(TARGET, 600, batches.run, batches.clock)
    assert passed and count == sum(batches.counts)
    longest_s = max(CASES_OF_FIRST_BATCH / examples_per_s, BATCH_S + 1 / examples_per_s)
    assert 600 <= batches.now <= 600 + longest_s
    assert len(set(batches.commands)) == len(batches.commands)


def test_a_failed_batch_ends_the_target() -> None:
    batches = Batches(10, {2: 1})
    passed, _ = fuzz(TARGET, 600, batches.run, batches.clock)
    assert not passed and len(batches.counts) == 2
