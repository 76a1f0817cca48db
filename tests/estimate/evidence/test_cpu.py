"""Evidence of CPUs from known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import (
    change_endpoint,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
    with_observation,
    with_totals,
)
from vnetbench.results.records import TrialRecord

IDLE = {"idle_s": 0.05}


def both_ways(trial: TrialRecord) -> TrialRecord:
    """Return the trial with both endpoints sending and receiving."""
    return replace(
        trial, endpoints=tuple(replace(x, role="both") if x.role != "observe" else x for x in trial.endpoints)
    )


def test_the_busiest_thread_of_each_endpoint_is_a_share_of_the_time() -> None:
    trial = with_counters(uniform_trial(), "a1", busiest_thread_cpu_s=0.04, busiest_thread_waited_s=0.01)
    evidence = trial_evidence(
        with_counters(trial, "b1", busiest_thread_cpu_s=0.02, busiest_thread_waited_s=0.005)
    )
    assert evidence["sender_thread_busy_percent"] == pytest.approx(80)
    assert evidence["sender_thread_waiting_percent"] == pytest.approx(20)
    assert evidence["sender_thread_runnable_percent"] == pytest.approx(100)
    assert evidence["receiver_thread_busy_percent"] == pytest.approx(40)
    assert evidence["receiver_thread_waiting_percent"] == pytest.approx(10)


def test_waits_that_end_in_a_sample_do_not_exceed_its_time() -> None:
    # The kernel counts a wait when it ends, and in each sample another thread can be the busiest.
    trial = with_counters(uniform_trial(), "a1", busiest_thread_cpu_s=0.01, busiest_thread_waited_s=0.2)
    evidence = trial_evidence(trial)
    assert evidence["sender_thread_waiting_percent"] == pytest.approx(80)
    assert evidence["sender_thread_runnable_percent"] == pytest.approx(100)


def test_without_thread_counters_a_process_of_one_thread_counts_as_the_thread() -> None:
    assert trial_evidence(uniform_trial(threads=1))["sender_thread_busy_percent"] == pytest.approx(50)
    assert trial_evidence(uniform_trial(threads={"a1": 2, "b1": 1})).keys() & {
        "sender_thread_busy_percent", "receiver_thread_busy_percent"
    } == {"receiver_thread_busy_percent"}  # fmt: skip
    assert "sender_thread_busy_percent" not in trial_evidence(uniform_trial())


def test_evidence_excludes_the_warm_up() -> None:
    trial = with_counters(uniform_trial(), "a1", busiest_thread_cpu_s=[0.05] * 10 + [0.01] * 10)
    assert trial_evidence(trial)["sender_thread_busy_percent"] == pytest.approx(60)
    assert trial_evidence(trial, warmup_samples=10)["sender_thread_busy_percent"] == pytest.approx(20)


def test_a_bidirectional_endpoint_is_sender_and_receiver_and_the_worst_counts() -> None:
    trial = with_counters(both_ways(uniform_trial()), "a1", busiest_thread_cpu_s=0.01)
    evidence = trial_evidence(with_counters(trial, "b1", busiest_thread_cpu_s=0.03))
    assert (
        evidence["sender_thread_busy_percent"]
        == evidence["receiver_thread_busy_percent"]
        == pytest.approx(60)
    )


def test_a_cpu_quota_is_measured_by_time_and_by_periods() -> None:
    trial = with_counters(
        uniform_trial(), "b1", cgroup_throttled_s=0.02, cgroup_periods=5, cgroup_throttled_periods=4
    )
    evidence = trial_evidence(trial)
    assert evidence["receiver_throttled_percent"] == pytest.approx(40)
    assert evidence["receiver_throttled_periods_percent"] == pytest.approx(80)
    assert "sender_throttled_percent" not in evidence


def test_softirq_time_of_the_busiest_cpu_and_idle_time_of_the_others_are_reported() -> None:
    full = {"softirq_s": 0.04, "system_s": 0.01}
    evidence = trial_evidence(
        with_cpus(uniform_trial(), "host", IDLE, full, IDLE, {"user_s": 0.02, "idle_s": 0.03})
    )
    assert evidence["busiest_cpu_percent"] == pytest.approx(100)
    assert evidence["busiest_cpu_softirq_percent"] == pytest.approx(80)
    assert evidence["softirq_cpu_busy_percent"] == pytest.approx(100)
    assert evidence["other_cpus_idle_percent"] == pytest.approx((100 + 100 + 60) / 3)


def test_a_cpu_without_times_is_not_busy() -> None:
    evidence = trial_evidence(
        with_cpus(uniform_trial(), "host", {"user_s": 0.01, "idle_s": 0.04}, {"idle_s": 0.0})
    )
    assert evidence["busiest_cpu_percent"] == pytest.approx(20)


def test_packet_counts_of_a_cpu_are_not_times() -> None:
    cpu = {"softirq_s": 0.01, "idle_s": 0.04, "softnet_processed": 900.0}
    assert trial_evidence(with_cpus(uniform_trial(), "host", cpu))[
        "busiest_cpu_softirq_percent"
    ] == pytest.approx(20)


def test_a_machine_with_one_cpu_has_no_other_idle_cpus() -> None:
    assert "other_cpus_idle_percent" not in trial_evidence(uniform_trial())


def test_the_host_kernel_counts_only_if_it_runs_the_guests() -> None:
    busy = {"softirq_s": 0.03, "idle_s": 0.02}
    guests = with_cpus(with_cpus(uniform_trial(), "a1", IDLE), "b1", busy)
    remote = trial_evidence(with_cpus(guests, "host", {"softirq_s": 0.05}))
    assert remote["receiver_softirq_percent"] == pytest.approx(60)
    assert remote["sender_softirq_percent"] == 0
    assert remote["busiest_cpu_softirq_percent"] == pytest.approx(60)
    here = trial_evidence(
        with_observation(with_cpus(guests, "host", {"softirq_s": 0.05}), {"a1 vcpu0": 0.01})
    )
    assert here["busiest_cpu_softirq_percent"] == pytest.approx(100)
    assert "sender_softirq_percent" not in trial_evidence(uniform_trial())


def test_softirq_time_counts_on_the_least_loaded_cpu_that_a_thread_may_use() -> None:
    cpus = ({"softirq_s": 0.03, "idle_s": 0.02}, IDLE, {"softirq_s": 0.01, "idle_s": 0.04})
    pinned = with_cpus(uniform_trial(thread_cpus={"a1": "0", "b1": "0,2"}), "host", *cpus)
    assert trial_evidence(pinned)["sender_cpus_softirq_percent"] == pytest.approx(60)
    assert trial_evidence(pinned)["receiver_cpus_softirq_percent"] == pytest.approx(20)
    free = with_cpus(uniform_trial(thread_cpus="0-2"), "host", *cpus)
    assert trial_evidence(free)["sender_cpus_softirq_percent"] == 0
    two = with_cpus(uniform_trial(thread_cpus=["1", "2"]), "host", *cpus)
    assert trial_evidence(two)["sender_cpus_softirq_percent"] == pytest.approx(20)


def test_other_work_counts_on_the_least_loaded_cpu_that_a_thread_may_use() -> None:
    spun = {"user_s": 0.04, "system_s": 0.01}
    pinned = with_cpus(uniform_trial(thread_cpus={"a1": "0", "b1": "0-3"}), "host", spun, IDLE, IDLE, IDLE)
    evidence = trial_evidence(pinned)
    # The endpoint's own user time, 10 % of a CPU, may be on this CPU.
    assert evidence["sender_cpus_other_work_percent"] == pytest.approx(70)
    assert evidence["receiver_cpus_other_work_percent"] == 0
    assert evidence["sender_cpus_percent"] == 25
    assert evidence["receiver_cpus_percent"] == 100


def test_steal_is_reported_for_all_cpus_and_for_the_worst() -> None:
    evidence = trial_evidence(with_cpus(uniform_trial(), "host", {"steal_s": 0.02, "user_s": 0.03}, IDLE))
    assert evidence["steal_percent"] == pytest.approx(20)
    assert evidence["worst_steal_percent"] == pytest.approx(40)


def test_other_work_excludes_endpoints_guests_and_bench() -> None:
    # The endpoints' processes use 0.01 s of user and 0.04 s of system time in each sample of 0.05 s.
    alone = {"user_s": 0.01, "system_s": 0.02, "softirq_s": 0.02}
    assert trial_evidence(with_cpus(uniform_trial(), "host", alone))["other_work_cpus"] == 0
    beside = with_cpus(uniform_trial(), "host", alone, {"user_s": 0.03, "nice_s": 0.02})
    assert trial_evidence(beside)["other_work_cpus"] == pytest.approx(1)
    assert trial_evidence(with_observation(beside, {"a1 vcpu0": 0.03}))["other_work_cpus"] == pytest.approx(
        0.4
    )
    assert trial_evidence(with_totals(beside, "host", bench_cpu_s=0.1))["other_work_cpus"] == pytest.approx(
        0.9
    )


def test_kernel_time_of_an_observed_thread_is_not_other_work() -> None:
    cpus = {"user_s": 0.01, "system_s": 0.03, "idle_s": 0.01}, {"system_s": 0.04, "idle_s": 0.01}
    beside = with_cpus(uniform_trial(), "host", *cpus)
    assert trial_evidence(beside)["other_work_cpus"] == pytest.approx(0.6)
    assert trial_evidence(with_observation(beside, {"a1 vhost0": 0.02}))["other_work_cpus"] == pytest.approx(
        0.2
    )
    assert trial_evidence(with_observation(beside, {"a1 vhost0": 0.03}))["other_work_cpus"] == pytest.approx(
        0
    )


def test_a_process_in_a_guest_does_not_count_on_the_host() -> None:
    cpu = {"user_s": 0.01, "system_s": 0.02, "idle_s": 0.02}
    guests = with_cpus(with_cpus(with_cpus(uniform_trial(), "a1", cpu), "b1", cpu), "host", {"user_s": 0.05})
    evidence = trial_evidence(with_observation(guests, {"a1 vcpu0": 0.02, "b1 vcpu0": 0.02}))
    assert evidence["other_work_cpus"] == pytest.approx(0.2)


def test_pressure_is_a_share_of_the_time() -> None:
    assert trial_evidence(with_counters(uniform_trial(), "host", pressure_cpu_some_s=0.005))[
        "pressure_cpu_percent"
    ] == pytest.approx(10)


def test_observed_threads_are_reported_by_kind_and_the_worst_counts() -> None:
    threads = {"a1 vcpu0": 0.01, "b1 vcpu1": 0.04, "a1 emulator": 0.02, "b1 vhost0": 0.03}
    waited = {"a1 vcpu0": 0.015, "b1 vcpu1": 0.005, "a1 emulator": 0.01, "b1 vhost0": 0.0}
    evidence = trial_evidence(with_observation(uniform_trial(), threads, waited))
    assert evidence["vcpu_busy_percent"] == pytest.approx(80)
    assert evidence["vcpu_waiting_percent"] == pytest.approx(30)
    assert evidence["emulator_busy_percent"] == pytest.approx(60)
    assert evidence["emulator_waiting_percent"] == pytest.approx(20)
    evidence_without_waits = trial_evidence(with_observation(uniform_trial(), threads))
    assert (
        "vcpu_waiting_percent" not in evidence_without_waits and "vcpu_busy_percent" in evidence_without_waits
    )


def test_streams_per_thread_uses_counted_threads_or_else_the_setting() -> None:
    def four(trial: TrialRecord) -> TrialRecord:
        return change_endpoint(
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

    assert (
        trial_evidence(four(with_counters(uniform_trial(), "a1", load_threads=2)))["streams_per_thread"] == 2
    )
    assert trial_evidence(four(uniform_trial(threads=1)))["streams_per_thread"] == 4
    assert "streams_per_thread" not in trial_evidence(uniform_trial())


def test_threads_per_cpu_is_that_of_the_most_crowded_cpu_set() -> None:
    assert trial_evidence(uniform_trial(threads=1, thread_cpus="0-3"))["threads_per_cpu"] == 0.5
    assert trial_evidence(uniform_trial(threads=1, thread_cpus="1"))["threads_per_cpu"] == 2
    apart = uniform_trial(threads={"a1": 2, "b1": 1}, thread_cpus={"a1": ["0", "1"], "b1": "2-3"})
    assert trial_evidence(apart)["threads_per_cpu"] == 1


@pytest.mark.parametrize("pinned", [["1"], {"a1": ["0", "1"], "b1": ["1"]}])
def test_vcpus_of_guests_that_share_a_cpu_count_together(pinned: object) -> None:
    guests = with_cpus(with_cpus(uniform_trial(vcpu_pin=pinned, thread_cpus="0"), "a1", IDLE), "b1", IDLE)
    assert trial_evidence(guests)["threads_per_cpu"] == 2
