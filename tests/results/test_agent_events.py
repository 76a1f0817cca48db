"""Parsing of the samples in agents' events."""

from __future__ import annotations

import pytest

from vnetbench.results.agent_events import parse_observation

pytestmark = pytest.mark.pure


def test_a_thread_without_reported_wait_time_has_only_cpu_time() -> None:
    threads = [
        {"name": "a1 vcpu0", "cpu_s": 0.05, "waited_s": 0.01},
        {"name": "a1 vhost0", "cpu_s": 0.02, "gone": True},
    ]
    watched = parse_observation({"threads": threads, "interfaces": [], "kvm_exits": None})
    assert watched is not None
    assert watched.thread_cpu_s == {"a1 vcpu0": 0.05, "a1 vhost0": 0.02}
    assert watched.thread_wait_s == {"a1 vcpu0": 0.01}


def test_an_agent_that_observes_nothing_has_no_observation() -> None:
    assert parse_observation({"counters": {}, "streams": []}) is None
