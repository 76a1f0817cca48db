"""Evidence of CPUs: each figure from counters whose meaning is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import at, counting, even, evidence, of_cpus, watching, with_totals
from vnetbench.results.records import TrialRecord

IDLE = {"idle_s": 0.05}


def both_ways(trial: TrialRecord) -> TrialRecord:
    """With both ends sending and receiving."""
    return replace(
        trial, endpoints=tuple(replace(x, role="both") if x.role != "observe" else x for x in trial.endpoints)
    )


def test_the_busiest_thread_of_each_end_is_a_share_of_the_time() -> None:
    trial = counting(even(), "a1", busiest_thread_cpu_s=0.04, busiest_thread_waited_s=0.01)
    found = evidence(counting(trial, "b1", busiest_thread_cpu_s=0.02, busiest_thread_waited_s=0.005))
    assert found["sender_thread_busy_percent"] == pytest.approx(80)
    assert found["sender_thread_waiting_percent"] == pytest.approx(20)
    assert found["sender_thread_runnable_percent"] == pytest.approx(100)
    assert found["receiver_thread_busy_percent"] == pytest.approx(40)
    assert found["receiver_thread_waiting_percent"] == pytest.approx(10)


def test_where_threads_are_not_told_apart_a_process_of_one_thread_stands_for_it() -> None:
    assert evidence(even(threads=1))["sender_thread_busy_percent"] == pytest.approx(50)
    assert evidence(even(threads={"a1": 2, "b1": 1})).keys() & {
        "sender_thread_busy_percent", "receiver_thread_busy_percent"
    } == {"receiver_thread_busy_percent"}  # fmt: skip
    assert "sender_thread_busy_percent" not in evidence(even())


def test_the_warm_up_is_left_out() -> None:
    trial = counting(even(), "a1", busiest_thread_cpu_s=[0.05] * 10 + [0.01] * 10)
    assert evidence(trial)["sender_thread_busy_percent"] == pytest.approx(60)
    assert evidence(trial, cut=10)["sender_thread_busy_percent"] == pytest.approx(20)


def test_an_end_that_does_both_is_sender_and_receiver_and_the_worst_counts() -> None:
    trial = counting(both_ways(even()), "a1", busiest_thread_cpu_s=0.01)
    found = evidence(counting(trial, "b1", busiest_thread_cpu_s=0.03))
    assert found["sender_thread_busy_percent"] == found["receiver_thread_busy_percent"] == pytest.approx(60)


def test_a_quota_is_told_by_time_and_by_periods() -> None:
    trial = counting(even(), "b1", cgroup_throttled_s=0.02, cgroup_periods=5, cgroup_throttled_periods=4)
    found = evidence(trial)
    assert found["receiver_throttled_percent"] == pytest.approx(40)
    assert found["receiver_throttled_periods_percent"] == pytest.approx(80)
    assert "sender_throttled_percent" not in found


def test_packet_processing_on_one_full_cpu_stands_beside_the_idle_others() -> None:
    full = {"softirq_s": 0.04, "system_s": 0.01}
    found = evidence(of_cpus(even(), "host", IDLE, full, IDLE, {"user_s": 0.02, "idle_s": 0.03}))
    assert found["busiest_cpu_percent"] == pytest.approx(100)
    assert found["busiest_cpu_softirq_percent"] == pytest.approx(80)
    assert found["softirq_cpu_busy_percent"] == pytest.approx(100)
    assert found["other_cpus_idle_percent"] == pytest.approx((100 + 100 + 60) / 3)


def test_a_cpu_that_tells_of_no_time_is_not_busy() -> None:
    told = evidence(of_cpus(even(), "host", {"user_s": 0.01, "idle_s": 0.04}, {"idle_s": 0.0}))
    assert told["busiest_cpu_percent"] == pytest.approx(20)


def test_what_a_cpu_took_in_is_no_time() -> None:
    cpu = {"softirq_s": 0.01, "idle_s": 0.04, "softnet_processed": 900.0}
    assert evidence(of_cpus(even(), "host", cpu))["busiest_cpu_softirq_percent"] == pytest.approx(20)


def test_a_machine_of_one_cpu_has_no_others_that_could_be_idle() -> None:
    assert "other_cpus_idle_percent" not in evidence(even())


def test_guests_count_for_themselves_and_the_host_beside_them_only_where_it_runs_them() -> None:
    busy = {"softirq_s": 0.03, "idle_s": 0.02}
    guests = of_cpus(of_cpus(even(), "a1", IDLE), "b1", busy)
    remote = evidence(of_cpus(guests, "host", {"softirq_s": 0.05}))
    assert remote["receiver_softirq_percent"] == pytest.approx(60)
    assert remote["sender_softirq_percent"] == 0
    assert remote["busiest_cpu_softirq_percent"] == pytest.approx(60)
    here = evidence(watching(of_cpus(guests, "host", {"softirq_s": 0.05}), {"a1 vcpu0": 0.01}))
    assert here["busiest_cpu_softirq_percent"] == pytest.approx(100)
    assert "sender_softirq_percent" not in evidence(even())


def test_a_thread_shares_its_cpu_with_packets_as_far_as_it_cannot_get_away() -> None:
    cpus = ({"softirq_s": 0.03, "idle_s": 0.02}, IDLE, {"softirq_s": 0.01, "idle_s": 0.04})
    pinned = of_cpus(even(thread_cpus={"a1": "0", "b1": "0,2"}), "host", *cpus)
    assert evidence(pinned)["sender_cpus_softirq_percent"] == pytest.approx(60)
    assert evidence(pinned)["receiver_cpus_softirq_percent"] == pytest.approx(20)
    free = of_cpus(even(thread_cpus="0-2"), "host", *cpus)
    assert evidence(free)["sender_cpus_softirq_percent"] == 0
    two = of_cpus(even(thread_cpus=["1", "2"]), "host", *cpus)
    assert evidence(two)["sender_cpus_softirq_percent"] == pytest.approx(20)


def test_other_work_is_in_a_threads_way_only_where_it_cannot_get_away() -> None:
    spun = {"user_s": 0.04, "system_s": 0.01}
    pinned = of_cpus(even(thread_cpus={"a1": "0", "b1": "0-3"}), "host", spun, IDLE, IDLE, IDLE)
    found = evidence(pinned)
    # The endpoint's own user time, 10 % of a CPU, may be there.
    assert found["sender_cpus_other_work_percent"] == pytest.approx(70)
    assert found["receiver_cpus_other_work_percent"] == 0
    assert found["sender_cpus_percent"] == 25
    assert found["receiver_cpus_percent"] == 100


def test_steal_is_of_all_cpus_and_of_the_worst() -> None:
    found = evidence(of_cpus(even(), "host", {"steal_s": 0.02, "user_s": 0.03}, IDLE))
    assert found["steal_percent"] == pytest.approx(20)
    assert found["worst_steal_percent"] == pytest.approx(40)


def test_other_work_is_what_neither_the_ends_nor_the_guests_nor_the_bench_took() -> None:
    # The ends' processes take 0.01 of user time and 0.04 of system time in each sample of 0.05 s.
    alone = {"user_s": 0.01, "system_s": 0.02, "softirq_s": 0.02}
    assert evidence(of_cpus(even(), "host", alone))["other_work_percent"] == 0
    beside = of_cpus(even(), "host", alone, {"user_s": 0.03, "nice_s": 0.02})
    assert evidence(beside)["other_work_percent"] == pytest.approx(100)
    assert evidence(watching(beside, {"a1 vcpu0": 0.03}))["other_work_percent"] == pytest.approx(40)
    assert evidence(with_totals(beside, "host", bench_cpu_s=0.1))["other_work_percent"] == pytest.approx(90)


def test_what_a_watched_thread_spent_in_the_kernel_is_no_other_work() -> None:
    cpus = {"user_s": 0.01, "system_s": 0.03, "idle_s": 0.01}, {"system_s": 0.04, "idle_s": 0.01}
    beside = of_cpus(even(), "host", *cpus)
    assert evidence(beside)["other_work_percent"] == pytest.approx(60)
    assert evidence(watching(beside, {"a1 vhost0": 0.02}))["other_work_percent"] == pytest.approx(20)
    assert evidence(watching(beside, {"a1 vhost0": 0.03}))["other_work_percent"] == pytest.approx(0)


def test_a_process_in_a_guest_is_none_of_the_hosts() -> None:
    cpu = {"user_s": 0.01, "system_s": 0.02, "idle_s": 0.02}
    guests = of_cpus(of_cpus(of_cpus(even(), "a1", cpu), "b1", cpu), "host", {"user_s": 0.05})
    found = evidence(watching(guests, {"a1 vcpu0": 0.02, "b1 vcpu0": 0.02}))
    assert found["other_work_percent"] == pytest.approx(20)


def test_pressure_is_a_share_of_the_time() -> None:
    assert evidence(counting(even(), "host", pressure_cpu_some_s=0.005))[
        "pressure_cpu_percent"
    ] == pytest.approx(10)


def test_watched_threads_are_told_by_kind_and_the_worst_counts() -> None:
    threads = {"a1 vcpu0": 0.01, "b1 vcpu1": 0.04, "a1 emulator": 0.02, "b1 vhost0": 0.03}
    waited = {"a1 vcpu0": 0.015, "b1 vcpu1": 0.005, "a1 emulator": 0.01, "b1 vhost0": 0.0}
    found = evidence(watching(even(), threads, waited))
    assert found["vcpu_busy_percent"] == pytest.approx(80)
    assert found["vcpu_waiting_percent"] == pytest.approx(30)
    assert found["emulator_busy_percent"] == pytest.approx(60)
    assert found["emulator_waiting_percent"] == pytest.approx(20)
    untold = evidence(watching(even(), threads))
    assert "vcpu_waiting_percent" not in untold and "vcpu_busy_percent" in untold


def test_streams_are_held_against_the_threads_that_were_counted_or_else_read_back() -> None:
    def four(trial: TrialRecord) -> TrialRecord:
        return at(
            trial,
            "a1",
            lambda side: replace(
                side,
                samples=tuple(
                    replace(x, streams=tuple(replace(x.streams[0], stream_id=n) for n in range(4)))
                    for x in side.samples
                ),
            ),
        )

    assert evidence(four(counting(even(), "a1", load_threads=2)))["streams_per_thread"] == 2
    assert evidence(four(even(threads=1)))["streams_per_thread"] == 4
    assert "streams_per_thread" not in evidence(even())


def test_threads_are_the_most_crowded_where_several_have_one_cpu() -> None:
    assert evidence(even(threads=1, thread_cpus="0-3"))["threads_per_cpu"] == 0.5
    assert evidence(even(threads=1, thread_cpus="1"))["threads_per_cpu"] == 2
    apart = even(threads={"a1": 2, "b1": 1}, thread_cpus={"a1": ["0", "1"], "b1": "2-3"})
    assert evidence(apart)["threads_per_cpu"] == 1


@pytest.mark.parametrize("pinned", [["1"], {"a1": ["0", "1"], "b1": ["1"]}])
def test_vcpus_are_crowded_where_guests_share_a_cpu_however_that_is_read_back(pinned: object) -> None:
    guests = of_cpus(of_cpus(even(vcpu_pin=pinned, thread_cpus="0"), "a1", IDLE), "b1", IDLE)
    assert evidence(guests)["threads_per_cpu"] == 2
