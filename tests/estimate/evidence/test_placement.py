"""Evidence of placement: CPUs of the busiest threads and of packet processing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import (
    change_endpoint,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
)
from vnetbench.results.records import OBSERVE, EndpointRecord, TrialRecord

LITTLE, MUCH = {"softirq_s": 0.01, "idle_s": 0.04}, {"softirq_s": 0.04, "idle_s": 0.01}


def running(a1: list[int], b1: list[int]) -> TrialRecord:
    """Return the uniform trial with the CPUs of both busiest threads at the end of each sample."""
    return with_counters(
        with_counters(uniform_trial(), "a1", busiest_thread_cpu=a1), "b1", busiest_thread_cpu=b1
    )


def test_thread_cpus_and_migrations_are_reported() -> None:
    evidence = trial_evidence(running([0] * 20, [0] * 5 + [1] * 15))
    assert evidence["threads_on_one_cpu_percent"] == pytest.approx(25)
    assert (evidence["sender_cpu"], evidence["receiver_cpu"]) == (0, 1)
    assert evidence["sender_migrations_per_s"] == 0
    assert evidence["receiver_migrations_per_s"] == pytest.approx(1)


def both_ways(trial: TrialRecord) -> TrialRecord:
    """Return the trial with endpoints that send and receive."""
    endpoints = (s if s.role == OBSERVE else replace(s, role="both") for s in trial.endpoints)
    return replace(trial, endpoints=tuple(endpoints))


def test_bidirectional_endpoints_use_the_cpus_of_their_busiest_threads() -> None:
    evidence = trial_evidence(both_ways(running([0] * 20, [0] * 5 + [1] * 15)))
    assert evidence["threads_on_one_cpu_percent"] == pytest.approx(25)
    assert (evidence["sender_cpu"], evidence["receiver_cpu"]) == (0, 0), "of the first end's busiest thread"
    assert evidence["sender_migrations_per_s"] == evidence["receiver_migrations_per_s"] == pytest.approx(1)


@pytest.mark.parametrize("transform", [lambda trial: trial, both_ways])
def test_endpoints_are_matched_within_their_pair(transform: Callable[[TrialRecord], TrialRecord]) -> None:
    first, second = running([0] * 20, [0] * 20), running([1] * 20, [0] * 15 + [1] * 5)
    (a1, b1, *others), (a2, b2) = first.endpoints, second.endpoints[:2]
    a2, b2 = replace(a2, name="a2"), replace(b2, name="b2")
    testbed = {"endpoints": [{"name": name, "pair": int(name[1])} for name in ("a1", "a2", "b1", "b2")]}
    for endpoints in ((a1, a2, b1, b2), (a1, b1, a2, b2)):
        evidence = trial_evidence(transform(replace(first, endpoints=(*endpoints, *others))), testbed=testbed)
        assert evidence["threads_on_one_cpu_percent"] == pytest.approx((100 + 25) / 2)


def test_softirq_on_a_threads_cpu_is_a_share_of_the_samples() -> None:
    evidence = trial_evidence(with_cpus(running([0] * 20, [0] * 5 + [1] * 15), "host", LITTLE, MUCH))
    assert evidence["softirq_cpu"] == 1
    assert evidence["sender_on_softirq_cpu_percent"] == 0
    assert evidence["receiver_on_softirq_cpu_percent"] == pytest.approx(75)


def test_each_sample_uses_the_nearest_kernel_sample() -> None:
    def moving(side: EndpointRecord) -> EndpointRecord:
        """Move packets from CPU 0 to CPU 1 in the middle; the host's samples end a moment later."""
        samples = (
            replace(
                x,
                end_s=x.end_s + 0.01,
                cpu=tuple({"cpu": cpu, **(MUCH if cpu == (place >= 10) else LITTLE)} for cpu in (0, 1)),
            )
            for place, x in enumerate(side.samples)
        )
        return replace(side, samples=tuple(samples))

    evidence = trial_evidence(change_endpoint(running([0] * 20, [0] * 10 + [1] * 10), "host", moving))
    assert evidence["receiver_on_softirq_cpu_percent"] == 100
    assert evidence["sender_on_softirq_cpu_percent"] == 50


def test_cpu_numbers_of_guests_are_not_compared() -> None:
    guests = with_cpus(with_cpus(running([0] * 20, [0] * 20), "a1", MUCH, LITTLE), "b1", LITTLE, MUCH)
    evidence = trial_evidence(with_cpus(guests, "host", MUCH))
    assert "threads_on_one_cpu_percent" not in evidence
    assert evidence["softirq_cpu"] == 1
    assert evidence["sender_on_softirq_cpu_percent"] == 100
    assert evidence["receiver_on_softirq_cpu_percent"] == 0


def test_without_packets_there_is_no_softirq_cpu() -> None:
    assert "softirq_cpu" not in trial_evidence(
        with_cpus(running([0] * 20, [1] * 20), "host", {"idle_s": 0.05})
    )
