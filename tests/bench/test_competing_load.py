"""The competing load measures its own bytes, independent of other traffic on the same interfaces."""

from __future__ import annotations

import itertools
import json
import queue
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import pytest

from bench.corpus.disturbance import DisturbanceTarget
from bench.corpus.disturbances import competing_load
from vnetbench.agents.sample_lines import SampleLines
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
    """An agent that sends one sample after the start of its trial, and holds another one until its stop."""

    def __init__(self, endpoint: str, received: int) -> None:
        self.endpoint = endpoint
        self.events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.sample_lines = SampleLines()
        self._unsent_bytes = [received - received // 2, received // 2]

    def send(self, method: str, trial: str, **_: object) -> None:
        if method in ("trial.start", "trial.stop") and self._unsent_bytes:
            sample = {**SAMPLE, "trial": trial, "bytes_received": self._unsent_bytes.pop()}
            self.sample_lines.append(json.dumps({"method": "trial.sample", "params": sample}).encode())

    def wait(self, *_: object) -> dict[str, Any]:
        return {}

    def discard_events(self) -> None:
        pass


def run_abandoned_trial(should_abandon: Callable[[], bool]) -> None:
    """Run a trial with an observer until it is abandoned, when the sink has received 700 bytes."""
    endpoints = {
        name: TrialEndpoint(cast(Any, Agent(name, received)), role)
        for name, role, received in (("a1", "source", 0), ("b1", "sink", 700), ("host", "observe", 0))
    }
    run_trial(endpoints, lambda _: {}, LOAD, should_abandon)


def test_an_abandoned_trial_reports_the_bytes_received_so_far() -> None:
    answers = iter([False, True])
    with pytest.raises(TrialAbandoned) as abandoned:
        run_abandoned_trial(lambda: next(answers))
    assert [
        sum(sample.bytes_received for sample in endpoint.samples) for endpoint in abandoned.value.endpoints
    ] == [0, 700, 0]


def test_the_competing_load_measures_the_bytes_of_its_own_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(
        testbed: object, observer: object, load: TrialLoad, should_abandon: Callable[[], bool]
    ) -> None:
        calls = itertools.count()
        run_abandoned_trial(lambda: next(calls) > 0 and should_abandon())

    monkeypatch.setattr(competing_load, "measure_trial", measure)
    monkeypatch.setattr(competing_load, "_LEAD_TIME_S", 0.0)
    measurements: defaultdict[str, float] = defaultdict(float)
    target = DisturbanceTarget(cast(NetnsTestbed, None), 0, random.Random(0), measurements)
    for trial in (1, 2):
        with competing_load._run_load(target, cast(NetnsTestbed, None), cast(Any, None), LOAD):
            pass
        assert measurements[competing_load.COMPETING_BYTES] == 700 * trial
