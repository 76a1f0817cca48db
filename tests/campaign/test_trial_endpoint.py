"""An endpoint of a trial processes its agent's events."""

from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import cast

import pytest

from vnetbench.agents.client import AgentClient
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
