"""Evidence of packet processing that costs more CPU time than usual."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import trial_evidence, uniform_trial, with_counters, with_cpus
from vnetbench.results.records import HOST, TrialRecord

SAMPLE_S = 0.05
METRIC = "costly_interrupt_work_percent"


def trial_with_interrupts(
    microseconds_per_packet: float, packet_bytes: float = 100, packets: int = 100, work_s: float = 0.0
) -> TrialRecord:
    """Return a trial whose CPU processes so many packets in each sample of 50 ms, at this cost."""
    trial = with_counters(uniform_trial(), "a1", rx_packets=0, rx_bytes=0)
    trial = with_counters(trial, "b1", rx_packets=packets, rx_bytes=packets * packet_bytes)
    trial = with_counters(trial, HOST, softnet_processed=packets)
    softirq_s = packets * microseconds_per_packet * 1e-6
    return with_cpus(
        trial, HOST, {"softirq_s": softirq_s, "user_s": work_s, "idle_s": SAMPLE_S - softirq_s - work_s}
    )


def test_usual_packets_are_not_costly() -> None:
    assert trial_evidence(trial_with_interrupts(5))[METRIC] == 0


def test_the_time_above_the_usual_cost_is_a_share_of_the_work() -> None:
    # 100 bytes are usual at 0.1 us, as the CPU also works outside of interrupts.
    evidence = trial_evidence(trial_with_interrupts(100, work_s=0.01))
    assert evidence[METRIC] == pytest.approx(100 * 100 * (100 - 10.1) * 1e-6 / 0.02)


def test_to_pass_a_byte_on_costs_no_more_than_its_copy() -> None:
    large, small_copy = (
        trial_evidence(trial_with_interrupts(100, packet_bytes=60_000, work_s=work_s))[METRIC]
        for work_s in (0.02, 0.001)
    )
    assert large == pytest.approx(100 * (0.01 - 0.001 - 0.006) / 0.03)
    assert small_copy == pytest.approx(100 * (0.01 - 0.001 - 0.001) / 0.011)


def test_without_received_packets_the_cost_is_unknown() -> None:
    trial = with_counters(trial_with_interrupts(100), "b1", rx_packets=0, rx_bytes=0)
    assert METRIC not in trial_evidence(trial)
