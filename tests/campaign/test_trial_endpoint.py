"""An endpoint of a trial processes its agent's events."""

from __future__ import annotations

import itertools
import json
import math
import queue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vnetbench.agents.client import AgentClient
from vnetbench.agents.sample_lines import SampleLines
from vnetbench.campaign.trial_endpoint import TrialEndpoint

pytestmark = pytest.mark.pure


def end_with_fault(kind: str, fault: str) -> TrialEndpoint:
    events: queue.Queue[tuple[str, dict[str, object]]] = queue.Queue()
    events.put(("trial.end", {"trial": "t", "reason": "fault", "fault": fault, "fault_kind": kind}))
    endpoint = TrialEndpoint(cast(AgentClient, SimpleNamespace(endpoint="a1", events=events)), "source")
    endpoint.process_queued_events("t")
    return endpoint


def test_a_broken_stream_ranks_behind_the_fault_that_may_have_caused_it() -> None:
    # The ranks follow the kind: the messages are sentences for people.
    stream = end_with_fault("stream", "the sentence says nothing").fault
    interface = end_with_fault("interface", "stream 0 broke: not really").fault
    assert stream is not None and interface is not None
    assert stream.cause_rank > interface.cause_rank
    assert interface.message == "a1: stream 0 broke: not really"


def test_an_endpoint_whose_trial_ended_without_a_fault_has_none() -> None:
    events: queue.Queue[tuple[str, dict[str, object]]] = queue.Queue()
    events.put(("trial.end", {"trial": "t", "reason": "done", "fault": "", "fault_kind": None}))
    endpoint = TrialEndpoint(cast(AgentClient, SimpleNamespace(endpoint="a1", events=events)), "sink")
    endpoint.process_queued_events("t")
    assert endpoint.is_over and endpoint.fault is None


SAMPLE: dict[str, Any] = {
    "trial": "t", "seq": 0, "t_s": 0.05, "interval_s": 0.05, "bytes_sent": 1, "bytes_received": 0,
    "counters": {"interrupts": 1}, "cpu": [], "streams": [{"id": 0, "role": "source", "bytes": 1}],
}  # fmt: skip
END: dict[str, Any] = {"trial": "t", "reason": "done", "fault": "", "fault_kind": None, "bytes_sent": 1}
DEEP: list[Any] = []
for _ in range(60):
    DEEP = [DEEP]


def process(method: str, params: dict[str, Any]) -> TrialEndpoint:
    events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
    events.put((method, params))
    endpoint = TrialEndpoint(cast(AgentClient, SimpleNamespace(endpoint="a1", events=events)), "source")
    endpoint.process_queued_events("t")
    return endpoint


def decode(*lines: bytes) -> TrialEndpoint:
    sample_lines = SampleLines()
    for line in lines:
        sample_lines.append(line)
    agent = cast(AgentClient, SimpleNamespace(endpoint="a1", sample_lines=sample_lines))
    endpoint = TrialEndpoint(agent, "source")
    endpoint.decode_samples("t")
    return endpoint


def sample_line(**changed: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "trial.sample", "params": SAMPLE | changed}).encode()


def test_a_sample_is_kept() -> None:
    endpoint = decode(sample_line())
    assert [sample.bytes_sent for sample in endpoint.samples] == [1] and endpoint.fault is None


def test_a_sample_of_another_trial_is_not_kept() -> None:
    endpoint = decode(sample_line(trial="earlier", bytes_sent=-1), sample_line(bytes_sent=2))
    assert [sample.bytes_sent for sample in endpoint.samples] == [2] and endpoint.fault is None


def test_samples_before_a_malformed_one_are_kept() -> None:
    endpoint = decode(sample_line(), sample_line(bytes_sent="x"), sample_line())
    assert len(endpoint.samples) == 1 and endpoint.fault is not None


def test_a_malformed_sample_does_not_hide_the_end_of_the_agent() -> None:
    agent = SimpleNamespace(endpoint="a1", events=queue.Queue(), sample_lines=SampleLines())
    agent.sample_lines.append(b"{")
    agent.events.put(("agent.gone", {"reason": "the agent ended"}))
    endpoint = TrialEndpoint(cast(AgentClient, agent), "source")
    endpoint.process_queued_events("t")
    endpoint.decode_samples("t")
    assert endpoint.fault is not None and endpoint.fault.message == "a1: the agent ended"


@pytest.mark.parametrize(
    "changed",
    [
        {"t_s": math.nan}, {"interval_s": 0}, {"bytes_sent": -1}, {"bytes_sent": None}, {"seq": "x"},
        {"counters": []}, {"counters": {"interrupts": "many"}}, {"counters": {"interrupts": 1e300}},
        {"streams": None}, {"streams": [{}]}, {"streams": [{"id": 0, "role": "\ud800", "bytes": 1}]},
        {"latency": {"buckets": [[1]]}}, {"threads": [{}]},
    ],
    ids=repr,
)  # fmt: skip
def test_a_sample_that_the_results_file_could_not_keep_is_a_fault(changed: dict[str, Any]) -> None:
    endpoint = decode(sample_line(**changed))
    assert endpoint.fault is not None and "does not follow the protocol" in endpoint.fault.message
    assert not endpoint.samples and endpoint.is_over


@pytest.mark.parametrize("params", ["{", "null", "[]", "7", "[" * 900 + "]" * 900])
def test_a_sample_that_is_no_object_is_a_fault(params: str) -> None:
    endpoint = decode(f'{{"jsonrpc":"2.0","method":"trial.sample","params":{params}}}'.encode())
    assert endpoint.fault is not None and "does not follow the protocol" in endpoint.fault.message


@pytest.mark.parametrize(
    "changed",
    [{"bytes_sent": "x"}, {"late": math.inf}, {"late": DEEP}, {"late": "\ud800"}, {"reason": "fault"}],
    ids=["text", "infinite", "deep", "half a surrogate pair", "fault without a kind"],
)
def test_an_end_that_does_not_follow_the_protocol_is_a_fault(changed: dict[str, Any]) -> None:
    endpoint = process("trial.end", END | changed)
    assert endpoint.fault is not None and "does not follow the protocol" in endpoint.fault.message
    assert endpoint.is_over


def test_the_text_of_a_fault_has_no_control_characters() -> None:
    fault = end_with_fault("stream", "\x1b[2J").fault
    assert fault is not None and fault.message == "a1: \N{REPLACEMENT CHARACTER}[2J"


def test_an_agent_that_sends_without_end_does_not_keep_the_caller() -> None:
    class EndlessQueue(queue.Queue[tuple[str, dict[str, Any]]]):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = itertools.count()
            self.put(("unknown", {}))

        def get(self, block: bool = True, timeout: float | None = None) -> tuple[str, dict[str, Any]]:
            if next(self.numbers) > 1000:
                raise AssertionError("the caller is kept")
            self.put(("unknown", {}))
            return super().get(block, timeout)

    agent = cast(AgentClient, SimpleNamespace(endpoint="a1", events=EndlessQueue()))
    TrialEndpoint(agent, "source").process_queued_events("t")
