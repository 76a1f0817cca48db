"""Injections whose strength is a share of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.redteam.causes import BY_ID, cpu
from bench.redteam.model import tcp
from bench.redteam.target import Target


def test_agents_share_one_cpu_for_longer_at_a_higher_intensity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def cpuset(name: str, pids: Sequence[int], cpus: Sequence[int]) -> Iterator[Path]:
        assert list(pids) == [11, 12]
        yield tmp_path

    def repeat(self: Target, stack: ExitStack, action: Callable[[], float]) -> None:
        actions.append(action)

    actions: list[Callable[[], float]] = []
    monkeypatch.setattr(cpu, "cpuset", cpuset)
    monkeypatch.setattr(Target, "repeat", repeat)
    cause = BY_ID["agents-on-one-cpu"]
    assert cause.inject
    shares = []
    for value in cause.intensities:
        with ExitStack() as stack:
            cause.inject(Target({}, {"a1": 11, "b1": 12}, 0, (2, 3), tcp(1), "bridge"), value, stack)
        times = {"2": 0.0, "2,3": 0.0}
        for _ in range(2):
            wait_s = actions[-1]()
            times[(tmp_path / "cpuset.cpus").read_text()] += wait_s
        shares.append(times["2"] / sum(times.values()))
    assert shares == [0.25, 0.5, 1.0]
