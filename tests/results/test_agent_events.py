"""Samples as the agent tells them become records, with what some kernels do not tell left out."""

from __future__ import annotations

import pytest

from vnetbench.results.agent_events import watched_of

pytestmark = pytest.mark.pure


def test_a_thread_whose_kernel_keeps_no_waits_has_cpu_time_only() -> None:
    threads = [
        {"name": "a1 vcpu0", "cpu_s": 0.05, "waited_s": 0.01},
        {"name": "a1 vhost0", "cpu_s": 0.02, "gone": True},
    ]
    watched = watched_of({"threads": threads, "interfaces": [], "kvm_exits": None})
    assert watched is not None
    assert watched.threads == {"a1 vcpu0": 0.05, "a1 vhost0": 0.02}
    assert watched.waited == {"a1 vcpu0": 0.01}


def test_a_side_that_watches_nothing_has_no_record_of_it() -> None:
    assert watched_of({"counters": {}, "streams": []}) is None
