"""Evidence of TCP windows, latency, send calls and requests from known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from tests.estimate.evidence.fixtures import (
    change_endpoint,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_stream_details,
    with_totals,
)
from vnetbench.results.records import TrialRecord


def sending(**info: object) -> TrialRecord:
    """Return the uniform trial with segments of 1000 bytes and these details of its sender."""
    return with_stream_details(
        uniform_trial(mss=1000, congestion_control="cubic"), "a1", **{"busy_s": 0.05, **info}
    )


def test_limits_of_a_stream_are_shares_of_its_time() -> None:
    evidence = trial_evidence(sending(busy_s=0.04, rwnd_limited_s=0.01, sndbuf_limited_s=0.005))
    assert evidence["busy_percent"] == pytest.approx(80)
    assert evidence["rwnd_limited_percent"] == pytest.approx(20)
    assert evidence["sndbuf_limited_percent"] == pytest.approx(10)
    assert evidence["cwnd_limited_percent"] == pytest.approx(50)


def test_a_single_sample_does_not_change_the_medians() -> None:
    odd = [40.0] * 19 + [9000.0]
    evidence = trial_evidence(
        sending(rtt_us=odd, min_rtt_us=20, cwnd=[10] * 19 + [4000], snd_wnd_bytes=64000)
    )
    assert evidence["rtt_us"] == 40
    assert evidence["min_rtt_us"] == 20
    assert evidence["rtt_over_min"] == 2
    assert evidence["queueing_us"] == 20
    assert evidence["window_bytes"] == 10_000
    assert evidence["peer_window_bytes"] == 64000


def test_data_in_flight_is_compared_with_each_window_and_buffer() -> None:
    evidence = trial_evidence(
        sending(
            unacked=8, cwnd=10, snd_wnd_bytes=16000, sndbuf_bytes=32000, wmem_queued_bytes=24000,
            notsent_bytes=5000,
        )
    )  # fmt: skip
    assert evidence["in_flight_bytes"] == 8000
    assert evidence["in_flight_over_window"] == pytest.approx(0.8)
    assert evidence["in_flight_over_peer_window"] == pytest.approx(0.5)
    assert evidence["in_flight_over_send_buffer"] == pytest.approx(0.25)
    assert evidence["send_buffer_full_percent"] == pytest.approx(75)
    assert evidence["send_buffer_bytes"] == 32000
    assert evidence["unsent_bytes"] == 5000


def test_a_window_limited_stream_follows_littles_law() -> None:
    # 1 GB/s with a round-trip time of 1 ms: 1 MB is in flight.
    trial = sending(rtt_us=1000.0, unacked=1000, bytes_acked=50_000_000)
    assert trial_evidence(trial)["goodput_over_window_law"] == pytest.approx(1)
    assert trial_evidence(trial)["stream_goodput_bps"] == pytest.approx(8e9)


def test_the_receive_buffer_and_its_fill_level_come_from_the_receiver() -> None:
    evidence = trial_evidence(
        with_stream_details(uniform_trial(), "b1", busy_s=0.0, rcvbuf_bytes=8000, rmem_bytes=6000)
    )
    assert evidence["receive_buffer_bytes"] == 8000
    assert evidence["receive_queue_percent"] == pytest.approx(75)
    assert "busy_percent" not in evidence


def test_losses_are_shares_of_the_segments_and_of_the_samples() -> None:
    states = [0, 3, 4, 0] * 5
    evidence = trial_evidence(
        sending(segments_out=1000, retransmits=20, ca_state=states, app_limited=[1, 0] * 10)
    )
    assert evidence["retransmitted_percent"] == pytest.approx(2)
    assert evidence["recovering_percent"] == pytest.approx(50)
    assert evidence["app_limited_percent"] == pytest.approx(50)
    assert trial_evidence(with_counters(uniform_trial(), "a1", tcp_timeouts=0.1))[
        "timeouts_per_s"
    ] == pytest.approx(2)


def test_without_stream_samples_retransmits_are_those_of_the_namespace() -> None:
    # The kernel counts retransmits separately: 200 segments were sent in total.
    crowd = with_counters(uniform_trial(), "a1", tcp_segments_out=150, tcp_segments_retransmitted=50)
    each = [replace(x, histograms={"connect_time": ((1000, 5),)}) for x in crowd.endpoints[0].samples]
    trial = change_endpoint(crowd, "a1", lambda side: replace(side, samples=tuple(each)))
    assert trial_evidence(trial)["retransmitted_percent"] == pytest.approx(25)
    assert "rtt_us" not in trial_evidence(trial)


def test_pacing_is_active_with_a_set_rate_or_a_pacing_congestion_control() -> None:
    free = trial_evidence(sending(bytes_acked=50_000_000, pacing_rate_bps=16e9))
    assert free["goodput_over_pacing_rate"] == pytest.approx(0.5)
    assert free["pacing_capped"] == free["pacing_by_congestion_control"] == 0
    assert trial_evidence(sending(pacing_max_bps=1e9))["pacing_capped"] == 1
    read_back = sending()
    set_to = replace(read_back, effective={**read_back.effective, "pacing_rate_bps": 10**9})
    assert trial_evidence(set_to)["pacing_capped"] == 1
    bbr = with_stream_details(uniform_trial(congestion_control="bbr"), "a1", busy_s=0.05)
    assert trial_evidence(bbr)["pacing_by_congestion_control"] == 1


def test_several_streams_are_reported_by_median_and_total_time() -> None:
    def three(trial: TrialRecord) -> TrialRecord:
        def change(side):  # type: ignore[no-untyped-def]
            streams = [
                tuple(
                    replace(
                        x.streams[0],
                        stream_id=n,
                        rtt_us=trip,
                        details={"busy_s": busy, "rwnd_limited_s": 0.0},
                    )
                    for n, (trip, busy) in enumerate([(10.0, 0.05), (30.0, 0.05), (500.0, 0.005)])
                )
                for x in side.samples
            ]
            samples = zip(side.samples, streams, strict=True)
            return replace(side, samples=tuple(replace(x, streams=s) for x, s in samples))

        return change_endpoint(trial, "a1", change)

    evidence = trial_evidence(three(uniform_trial()))
    assert evidence["rtt_us"] == 30
    assert evidence["busy_percent"] == pytest.approx(70)


def test_requests_of_a_mixed_load_are_not_part_of_the_load() -> None:
    trial = with_stream_details(fixtures.make_mixed_trial(), "a1", busy_s=0.05)
    evidence = trial_evidence(trial)
    assert evidence["rtt_us"] == 40
    assert evidence["stream_goodput_bps"] == pytest.approx(1e9)


def test_send_calls_are_reported_by_size_and_rate() -> None:
    evidence = trial_evidence(
        with_totals(uniform_trial(), "a1", bytes_sent=64_000, calls_sent=1000, duration_s=0.5)
    )
    assert evidence["bytes_per_call"] == 64
    assert evidence["calls_per_s"] == 2000


def test_connections_that_always_wait_have_a_latency_share_of_1() -> None:
    # One connection receives 500 answers per second, each after 2 ms.
    def answered(side):  # type: ignore[no-untyped-def]
        each = [replace(x, histograms={"latency": ((2_000_000, 25),)}) for x in side.samples]
        return replace(side, samples=tuple(each))

    evidence = trial_evidence(change_endpoint(uniform_trial(), "a1", answered))
    assert evidence["transactions_per_connection_s"] == pytest.approx(500)
    assert evidence["latency_share"] == pytest.approx(1)


def test_goodput_variation_excludes_the_warm_up() -> None:
    trial = fixtures.make_trial(rates=[1e9] * 5 + [8e9, 10e9, 12e9] * 5)
    assert trial_evidence(trial, warmup_samples=5)["goodput_variation"] == pytest.approx((20 / 7) ** 0.5 / 10)


def test_the_window_is_compared_with_the_buffer_of_the_receiver() -> None:
    trial = with_stream_details(sending(snd_wnd_bytes=16_000), "b1", busy_s=0.0, rcvbuf_bytes=64_000)
    assert trial_evidence(trial)["window_share_of_receive_buffer_percent"] == pytest.approx(25)
