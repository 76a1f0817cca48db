"""Evidence of queues by direction from readings that lack a counter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import change_endpoint, trial_evidence, uniform_trial, with_counters
from vnetbench.results.records import EndpointRecord

pytestmark = pytest.mark.pure


def without_first_drops(endpoint: EndpointRecord) -> EndpointRecord:
    """Return the endpoint without the count of drops in its first sample."""
    first, *others = endpoint.samples
    known = {name: count for name, count in first.counters.items() if name != "qdisc_drops"}
    return replace(endpoint, samples=(replace(first, counters=known), *others))


def test_drops_count_in_their_own_reading_although_another_reading_lacks_them() -> None:
    trial = with_counters(
        uniform_trial(), "a1",
        tx_bytes=50_000_000, rx_bytes=0,
        qdisc_backlog_bytes=[0] * 15 + [9] * 5, qdisc_drops=[0] * 10 + [2] * 10,
    )  # fmt: skip
    assert trial_evidence(trial)["data_queue_busy_percent"] == pytest.approx(50)
    partial = change_endpoint(trial, "a1", without_first_drops)
    assert trial_evidence(partial)["data_queue_busy_percent"] == pytest.approx(50)
