"""Evidence of windows, latency, calls and requests: each figure from counters whose meaning is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from tests.estimate.evidence.fixtures import at, counting, even, evidence, telling, with_totals
from vnetbench.results.records import TrialRecord


def sending(**info: object) -> TrialRecord:
    """The even stream, of segments of 1000 bytes, with this said of it by its sender."""
    return telling(even(mss=1000, congestion_control="cubic"), "a1", **{"busy_s": 0.05, **info})


def test_what_a_stream_waited_for_is_a_share_of_its_time() -> None:
    found = evidence(sending(busy_s=0.04, rwnd_limited_s=0.01, sndbuf_limited_s=0.005))
    assert found["busy_percent"] == pytest.approx(80)
    assert found["rwnd_limited_percent"] == pytest.approx(20)
    assert found["sndbuf_limited_percent"] == pytest.approx(10)
    assert found["cwnd_limited_percent"] == pytest.approx(50)


def test_levels_are_medians_which_no_single_sample_moves() -> None:
    odd = [40.0] * 19 + [9000.0]
    found = evidence(sending(rtt_us=odd, min_rtt_us=20, cwnd=[10] * 19 + [4000], snd_wnd_bytes=64000))
    assert found["rtt_us"] == 40
    assert found["min_rtt_us"] == 20
    assert found["rtt_over_min"] == 2
    assert found["queueing_us"] == 20
    assert found["window_bytes"] == 10_000
    assert found["peer_window_bytes"] == 64000


def test_what_is_on_its_way_is_held_against_each_window_and_buffer() -> None:
    found = evidence(
        sending(
            unacked=8, cwnd=10, snd_wnd_bytes=16000, sndbuf_bytes=32000, wmem_queued_bytes=24000,
            notsent_bytes=5000,
        )
    )  # fmt: skip
    assert found["in_flight_bytes"] == 8000
    assert found["in_flight_over_window"] == pytest.approx(0.8)
    assert found["in_flight_over_peer_window"] == pytest.approx(0.5)
    assert found["in_flight_over_send_buffer"] == pytest.approx(0.25)
    assert found["send_buffer_full_percent"] == pytest.approx(75)
    assert found["send_buffer_bytes"] == 32000
    assert found["unsent_bytes"] == 5000


def test_a_stream_that_its_window_limits_keeps_to_the_law_of_windows() -> None:
    # 1 GB/s, and 1 ms a round trip: 1 MB is on its way.
    trial = sending(rtt_us=1000.0, unacked=1000, bytes_acked=50_000_000)
    assert evidence(trial)["goodput_over_window_law"] == pytest.approx(1)
    assert evidence(trial)["stream_goodput_bps"] == pytest.approx(8e9)


def test_the_receivers_buffer_is_its_own_and_what_waits_in_it_a_share() -> None:
    found = evidence(telling(even(), "b1", busy_s=0.0, rcvbuf_bytes=8000, rmem_bytes=6000))
    assert found["receive_buffer_bytes"] == 8000
    assert found["receive_queue_percent"] == pytest.approx(75)
    assert "busy_percent" not in found


def test_losses_are_shares_of_the_segments_and_of_the_samples() -> None:
    states = [0, 3, 4, 0] * 5
    found = evidence(sending(segments_out=1000, retransmits=20, ca_state=states, app_limited=[1, 0] * 10))
    assert found["retransmitted_percent"] == pytest.approx(2)
    assert found["recovering_percent"] == pytest.approx(50)
    assert found["app_limited_percent"] == pytest.approx(50)
    assert evidence(counting(even(), "a1", tcp_timeouts=0.1))["timeouts_per_s"] == pytest.approx(2)


def test_without_streams_of_their_own_losses_are_those_of_the_namespace() -> None:
    # The kernel counts what is sent again by itself: 200 were sent in all.
    crowd = counting(even(), "a1", tcp_segments_out=150, tcp_segments_retransmitted=50)
    each = [replace(x, histograms={"connect": ((1000, 5),)}) for x in crowd.endpoints[0].samples]
    trial = at(crowd, "a1", lambda side: replace(side, samples=tuple(each)))
    assert evidence(trial)["retransmitted_percent"] == pytest.approx(25)
    assert "rtt_us" not in evidence(trial)


def test_pacing_is_in_force_where_a_rate_is_set_or_the_congestion_control_paces() -> None:
    free = evidence(sending(bytes_acked=50_000_000, pacing_rate_bps=16e9))
    assert free["goodput_over_pacing_rate"] == pytest.approx(0.5)
    assert free["pacing_capped"] == free["pacing_by_congestion_control"] == 0
    assert evidence(sending(pacing_max_bps=1e9))["pacing_capped"] == 1
    read_back = sending()
    set_to = replace(read_back, effective={**read_back.effective, "pacing_rate_bps": 10**9})
    assert evidence(set_to)["pacing_capped"] == 1
    bbr = telling(even(congestion_control="bbr"), "a1", busy_s=0.05)
    assert evidence(bbr)["pacing_by_congestion_control"] == 1


def test_several_streams_are_told_by_the_one_in_the_middle_and_by_their_common_time() -> None:
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

        return at(trial, "a1", change)

    found = evidence(three(even()))
    assert found["rtt_us"] == 30
    assert found["busy_percent"] == pytest.approx(70)


def test_requests_beside_transfers_are_none_of_the_load() -> None:
    trial = telling(fixtures.make_mixed_trial(), "a1", busy_s=0.05)
    found = evidence(trial)
    assert found["rtt_us"] == 40
    assert found["stream_goodput_bps"] == pytest.approx(1e9)


def test_small_calls_show_in_bytes_and_in_calls() -> None:
    found = evidence(with_totals(even(), "a1", bytes_sent=64_000, calls_sent=1000, duration_s=0.5))
    assert found["bytes_per_call"] == 64
    assert found["calls_per_s"] == 2000


def test_connections_that_always_wait_for_an_answer_spend_all_their_time_so() -> None:
    # 500 answers a second of one connection, 2 ms each.
    def answered(side):  # type: ignore[no-untyped-def]
        each = [replace(x, histograms={"latency": ((2_000_000, 25),)}) for x in side.samples]
        return replace(side, samples=tuple(each))

    found = evidence(at(even(), "a1", answered))
    assert found["transactions_per_connection_s"] == pytest.approx(500)
    assert found["latency_share"] == pytest.approx(1)


def test_the_variation_within_a_trial_is_of_its_steady_part() -> None:
    trial = fixtures.make_trial(rates=[1e9] * 5 + [8e9, 10e9, 12e9] * 5)
    assert evidence(trial, cut=5)["goodput_variation_percent"] == pytest.approx(
        100 * (20 / 7) ** 0.5 / 10 * 1
    )
