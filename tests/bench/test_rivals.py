"""What rivals tell of themselves is their own load's, whatever else leaves the same interfaces."""

from __future__ import annotations

import itertools
import queue
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import pytest

from bench.corpus.disturb import rivals
from bench.corpus.scene import Scene
from vnetbench.campaign.trial import TrialAbandoned, TrialLoad, run_trial
from vnetbench.campaign.trial_endpoint import TrialEndpoint
from vnetbench.lab.netns.testbed import NetnsTestbed
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.workloads import TCP_STREAM

pytestmark = pytest.mark.pure

LOAD = TrialLoad(complete_levels({}, TCP_STREAM), 60.0, 0.2)
SAMPLE = {
    "trial": "", "seq": 0, "t_s": 0.2, "interval_s": 0.2, "bytes_sent": 0, "bytes_received": 700,
    "counters": {}, "cpu": [], "streams": [],
}  # fmt: skip


class Agent:
    """One that answers, and tells of one interval once its trial has begun."""

    def __init__(self, endpoint: str, received: int) -> None:
        self.endpoint = endpoint
        self.events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._received = received

    def send(self, method: str, trial: str, **_: object) -> None:
        if method == "trial.start":
            self.events.put(("trial.sample", {**SAMPLE, "trial": trial, "bytes_received": self._received}))

    def wait(self, *_: object) -> dict[str, Any]:
        return {}

    def discard_events(self) -> None:
        pass


def left(is_given_up: Callable[[], bool]) -> None:
    """A trial of two sides and an observer that is left, of which one has taken 700 bytes."""
    sides = {
        name: TrialEndpoint(cast(Any, Agent(name, received)), role)
        for name, role, received in (("a1", "source", 0), ("b1", "sink", 700), ("host", "observe", 0))
    }
    run_trial(sides, lambda _: {}, LOAD, is_given_up)


def test_a_trial_that_is_left_tells_what_had_come_by_then() -> None:
    asked = iter([False, True])
    with pytest.raises(TrialAbandoned) as abandoned:
        left(lambda: next(asked))
    assert [sum(x.bytes_received for x in side.samples) for side in abandoned.value.endpoints] == [0, 700, 0]


def test_rivals_tell_the_bytes_of_their_own_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(bed: object, observer: object, load: TrialLoad, is_given_up: Callable[[], bool]) -> None:
        looks = itertools.count()
        left(lambda: next(looks) > 0 and is_given_up())

    monkeypatch.setattr(rivals, "measure", measure)
    monkeypatch.setattr(rivals, "_LEAD_S", 0.0)
    told: defaultdict[str, float] = defaultdict(float)
    scene = Scene(cast(NetnsTestbed, None), 0, random.Random(0), told)
    for trial in (1, 2):
        with rivals._at_work(scene, cast(NetnsTestbed, None), cast(Any, None), LOAD):
            pass
        assert told[rivals.CARRIED] == 700 * trial
