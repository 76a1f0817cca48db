"""Differences between two treatments, and the laws that explain them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.explain.campaigns import SENDER_SATURATED, SimulatedTreatment, campaign
from vnetbench.explain.differences import difference_findings
from vnetbench.explain.limits import find_treatment_limits
from vnetbench.explain.model import Finding

pytestmark = pytest.mark.pure

MTUS = 'title = "t"\n[factors]\nmtu = [1500, 9000]\n'
DELAYS = 'title = "t"\n[factors]\nsocket_buffer = ["64 KiB", "256 KiB"]\n'
MESSAGES = 'title = "t"\n[factors]\nmessage_size = ["64 B", "256 B"]\n'
STREAMS = 'title = "t"\n[factors]\nstreams = [1, 4]\n'
WINDOW = {
    "rwnd_limited_percent": 95.0,
    "in_flight_over_peer_window": 0.95,
    "receive_buffer_bytes": 131072.0,
    "overlimits_per_s": 0.0,
    "receiver_thread_busy_percent": 5.0,
}


def find_differences(study: str, *made: SimulatedTreatment) -> list[Finding]:
    summary = campaign(study, *made)
    return list(difference_findings(summary, find_treatment_limits(summary)))


def test_larger_packets_at_a_constant_rate_identify_the_packet_rate_as_limit() -> None:
    (finding,) = find_differences(
        MTUS,
        SimulatedTreatment(
            {"packets_per_s": 200e3, "segment_bytes_received": 1514.0, "cycles_per_byte": 2.0}, 2.3e9
        ),
        SimulatedTreatment(
            {"packets_per_s": 198e3, "segment_bytes_received": 9014.0, "cycles_per_byte": 0.4}, 13.8e9
        ),
    )
    assert finding.kind == "difference" and finding.treatment_indices == (0, 1)
    assert finding.text.startswith("With MTU 9000 instead of MTU 1500, goodput is 13.8 Gbit/s instead of 2.3")
    assert 'The metric "received packets" stays constant (200 k/s and 198 k/s). ' in finding.text
    assert "The packet rate is the limit" in finding.text
    # 3028 cycles for 1514 bytes, and 3606 cycles for 9014 bytes.
    assert finding.details["cycles_per_packet"] == pytest.approx(2911, rel=0.01)
    assert finding.details["cycles_per_further_byte"] == pytest.approx(0.077, rel=0.01)
    assert finding.details["law"] == "packets_per_s" and finding.details["ratio"] == pytest.approx(6.0)


def test_a_changed_packet_rate_does_not_match_the_packet_law() -> None:
    (finding,) = find_differences(
        MTUS,
        SimulatedTreatment({"packets_per_s": 200e3, "segment_bytes_received": 1514.0}, 2.3e9),
        SimulatedTreatment({"packets_per_s": 400e3, "segment_bytes_received": 4500.0}, 13.8e9),
    )
    assert finding.details["law"] is None


def test_more_data_in_flight_at_a_constant_round_trip_time_identifies_a_window() -> None:
    made = (
        SimulatedTreatment({**WINDOW, "rtt_us": 1000.0, "in_flight_bytes": size}, 8e9 * size / 1e6)
        for size in (64e3, 256e3)
    )
    (finding,) = find_differences(DELAYS, *made)
    assert "A window is the limit, and a larger window carries more data." in finding.text


def test_the_window_law_needs_a_window_as_candidate_cause() -> None:
    made = (
        SimulatedTreatment({**SENDER_SATURATED, "rtt_us": 1000.0, "in_flight_bytes": size}, 8e9 * size / 1e6)
        for size in (64e3, 256e3)
    )
    (finding,) = find_differences(DELAYS, *made)
    assert finding.details["law"] is None


def test_larger_calls_at_a_constant_rate_identify_the_call_rate_as_limit() -> None:
    (finding,) = find_differences(
        MESSAGES,
        SimulatedTreatment({"calls_per_s": 1e6, "bytes_per_call": 64.0}, 0.5e9),
        SimulatedTreatment({"calls_per_s": 1.02e6, "bytes_per_call": 256.0}, 2e9),
    )
    assert finding.details["law"] == "calls_per_s"


def test_constant_goodput_per_stream_identifies_a_limit_per_stream() -> None:
    (finding,) = find_differences(
        STREAMS,
        SimulatedTreatment({"stream_goodput_bps": 1e9}, 1e9),
        SimulatedTreatment({"stream_goodput_bps": 0.98e9}, 3.9e9),
    )
    assert "Each stream has its own limit" in finding.text


def test_without_a_law_the_finding_names_the_largest_change_and_both_limits() -> None:
    quiet = {
        **SENDER_SATURATED,
        "sender_thread_busy_percent": 10.0,
        "sender_thread_runnable_percent": 12.0,
        "time_sender_running_percent": 96.0,
    }
    (finding,) = find_differences(
        STREAMS, SimulatedTreatment(SENDER_SATURATED, 1e9), SimulatedTreatment({**quiet, "rtt_us": 5.0}, 2e9)
    )
    assert (
        'The limit changes from "the sending thread saturates its CPU" to an unexplained '
        "limit." in finding.text
    )
    assert (
        "The largest changes are in sending thread's CPU (from 98.0 % of one CPU to 10.0 % of one CPU)"
        in finding.text
    )
    assert finding.details["limits"] == ["sender_cpu", "not explained"]


def test_overlapping_trials_and_small_differences_give_no_finding() -> None:
    assert find_differences(STREAMS, SimulatedTreatment(value=1e9), SimulatedTreatment(value=1.1e9)) == []
    assert find_differences(STREAMS, SimulatedTreatment(value=1e9), SimulatedTreatment(value=1e9)) == []


def test_overlapping_trials_give_no_finding_even_with_distant_medians() -> None:
    summary = campaign(STREAMS, SimulatedTreatment(value=1e9), SimulatedTreatment(value=2e9))
    one, other = summary.treatments
    points = (replace(one.points[0], values={"goodput_bps": 5e9}), *one.points[1:])
    overlapping = replace(summary, treatments=(replace(one, points=points), other))
    assert len(list(difference_findings(summary, find_treatment_limits(summary)))) == 1
    assert list(difference_findings(overlapping, find_treatment_limits(overlapping))) == []


def test_the_larger_value_of_a_lower_is_better_metric_is_the_slower_one() -> None:
    study = (
        'title = "t"\nworkload = "tcp_rr"\n[factors]\nconnections = [1, 4]\n'
        '[precision]\nmetric = "latency_p50_us"\n'
    )
    (finding,) = find_differences(study, SimulatedTreatment(value=20.0), SimulatedTreatment(value=80.0))
    assert finding.treatment_indices == (1, 0)
    assert finding.text.startswith("With 1 connection instead of 4 connections, latency, 50 % is 20.")


def test_the_finding_prefers_the_pair_that_matches_a_law() -> None:
    study = 'title = "t"\n[factors]\nmtu = [1500, 9000]\nstreams = [1, 4]\n'
    by_law = (
        {"packets_per_s": 200e3, "segment_bytes_received": 1514.0},
        {"packets_per_s": 200e3, "segment_bytes_received": 9014.0},
    )
    findings = find_differences(
        study,
        SimulatedTreatment(by_law[0], 2e9),
        SimulatedTreatment({}, 2e9),
        SimulatedTreatment(by_law[1], 11e9),
        SimulatedTreatment({}, 20e9),
    )
    of_mtu = next(finding for finding in findings if finding.details["factor"] == "mtu")
    assert of_mtu.details["law"] == "packets_per_s" and "(1 stream)" in of_mtu.text
