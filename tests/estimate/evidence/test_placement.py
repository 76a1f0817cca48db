"""Evidence of placement: where the busiest threads ran, and which CPU took the packets in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import at, counting, even, evidence, of_cpus
from vnetbench.results.records import OBSERVE, EndpointRecord, TrialRecord

LITTLE, MUCH = {"softirq_s": 0.01, "idle_s": 0.04}, {"softirq_s": 0.04, "idle_s": 0.01}


def running(a1: list[int], b1: list[int]) -> TrialRecord:
    """The even stream, whose ends' busiest threads were on these CPUs at the end of each sample."""
    return counting(counting(even(), "a1", busiest_thread_cpu=a1), "b1", busiest_thread_cpu=b1)


def test_where_both_ends_ran_is_told_by_samples_and_by_moves() -> None:
    found = evidence(running([0] * 20, [0] * 5 + [1] * 15))
    assert found["threads_on_one_cpu_percent"] == pytest.approx(25)
    assert (found["sender_cpu"], found["receiver_cpu"]) == (0, 1)
    assert found["sender_migrations_per_s"] == 0
    assert found["receiver_migrations_per_s"] == pytest.approx(1)


def both_ways(trial: TrialRecord) -> TrialRecord:
    """The same with ends that send and receive."""
    sides = (s if s.role == OBSERVE else replace(s, role="both") for s in trial.endpoints)
    return replace(trial, endpoints=tuple(sides))


def test_ends_that_send_and_receive_are_on_one_cpu_where_their_busiest_threads_are() -> None:
    found = evidence(both_ways(running([0] * 20, [0] * 5 + [1] * 15)))
    assert found["threads_on_one_cpu_percent"] == pytest.approx(25)
    assert (found["sender_cpu"], found["receiver_cpu"]) == (0, 0), "of the first end's busiest thread"
    assert found["sender_migrations_per_s"] == found["receiver_migrations_per_s"] == pytest.approx(1)


@pytest.mark.parametrize("ways", [lambda trial: trial, both_ways])
def test_ends_go_with_those_of_their_own_pair(ways: Callable[[TrialRecord], TrialRecord]) -> None:
    first, second = running([0] * 20, [0] * 20), running([1] * 20, [0] * 15 + [1] * 5)
    (a1, b1, *others), (a2, b2) = first.endpoints, second.endpoints[:2]
    a2, b2 = replace(a2, name="a2"), replace(b2, name="b2")
    told = {"endpoints": [{"name": name, "pair": int(name[1])} for name in ("a1", "a2", "b1", "b2")]}
    for sides in ((a1, a2, b1, b2), (a1, b1, a2, b2)):
        found = evidence(ways(replace(first, endpoints=(*sides, *others))), testbed=told)
        assert found["threads_on_one_cpu_percent"] == pytest.approx((100 + 25) / 2)


def test_packets_on_a_threads_cpu_are_told_by_samples() -> None:
    found = evidence(of_cpus(running([0] * 20, [0] * 5 + [1] * 15), "host", LITTLE, MUCH))
    assert found["softirq_cpu"] == 1
    assert found["sender_on_softirq_cpu_percent"] == 0
    assert found["receiver_on_softirq_cpu_percent"] == pytest.approx(75)


def test_each_sample_goes_with_what_the_kernel_did_about_then() -> None:
    def moving(side: EndpointRecord) -> EndpointRecord:
        """Packets move from CPU 0 to CPU 1 in the middle; the host's samples end a moment later."""
        samples = (
            replace(
                x,
                t_s=x.t_s + 0.01,
                cpu=tuple({"cpu": cpu, **(MUCH if cpu == (place >= 10) else LITTLE)} for cpu in (0, 1)),
            )
            for place, x in enumerate(side.samples)
        )
        return replace(side, samples=tuple(samples))

    found = evidence(at(running([0] * 20, [0] * 10 + [1] * 10), "host", moving))
    assert found["receiver_on_softirq_cpu_percent"] == 100
    assert found["sender_on_softirq_cpu_percent"] == 50


def test_guests_have_cpus_of_their_own_whose_numbers_say_nothing_of_the_others() -> None:
    guests = of_cpus(of_cpus(running([0] * 20, [0] * 20), "a1", MUCH, LITTLE), "b1", LITTLE, MUCH)
    found = evidence(of_cpus(guests, "host", MUCH))
    assert "threads_on_one_cpu_percent" not in found
    assert found["softirq_cpu"] == 1
    assert found["sender_on_softirq_cpu_percent"] == 100
    assert found["receiver_on_softirq_cpu_percent"] == 0


def test_without_packets_no_cpu_took_them_in() -> None:
    assert "softirq_cpu" not in evidence(of_cpus(running([0] * 20, [1] * 20), "host", {"idle_s": 0.05}))
