"""Time series of evidence metrics near their limit, warm-up included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import (
    trial_data,
    uniform_trial,
    with_counters,
    with_cpus,
    with_observation,
    with_stream_details,
)
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.estimate.evidence.time_series import near_limit_evidence_series
from vnetbench.results.records import HOST, TrialRecord


def time_series(trial: TrialRecord, cut: int = 0) -> dict[str, tuple[float, ...]]:
    data = trial_data(trial, cut)
    return near_limit_evidence_series(data, collect_evidence(data))


def test_a_busy_thread_has_a_time_series_from_the_first_interval_on() -> None:
    trial = with_counters(uniform_trial(), "a1", busiest_thread_cpu_s=[0.01] * 5 + [0.05] * 15)
    trial = with_counters(trial, "b1", busiest_thread_cpu_s=0.01)
    series = time_series(trial, cut=5)
    assert series == {"sender_thread_busy_percent": pytest.approx([20.0] * 5 + [100.0] * 15)}


def test_each_interval_has_the_host_observations_of_its_time() -> None:
    queue = {"backlog_bytes": 200_000}
    port = {"rx_dropped": 0, "tx_dropped": 0, "rx_bytes": 0, "tx_bytes": 1000, "qdisc": queue}
    trial = with_observation(
        with_cpus(uniform_trial(), "host", {"softirq_s": 0.04, "idle_s": 0.01}), up0=port
    )
    series = time_series(with_stream_details(trial, "a1", busy_s=0.05, rwnd_limited_s=0.025))
    assert series["busiest_cpu_softirq_percent"] == pytest.approx([80.0] * 20)
    assert series["backlog_bytes"] == (200_000,) * 20
    assert series["rwnd_limited_percent"] == pytest.approx([50.0] * 20)


def test_a_forwarding_guest_is_a_kernel_in_each_interval() -> None:
    trial = with_cpus(uniform_trial(), "host", {"softirq_s": 0.0, "idle_s": 0.05})
    host = next(side for side in trial.endpoints if side.name == HOST)
    forwarder = replace(host, name="f1")
    trial = with_cpus(replace(trial, endpoints=(*trial.endpoints, forwarder)), "f1", {"softirq_s": 0.05})
    assert time_series(trial)["busiest_cpu_softirq_percent"] == pytest.approx([100.0] * 20)


def test_a_metric_missing_in_one_interval_has_no_time_series() -> None:
    trial = with_counters(uniform_trial(), "a1", busiest_thread_cpu_s=0.05)
    a1 = trial.endpoints[0]
    del a1.samples[3].counters["busiest_thread_cpu_s"]  # type: ignore[attr-defined]
    assert time_series(trial) == {}
