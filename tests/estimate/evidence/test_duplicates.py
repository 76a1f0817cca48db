"""Evidence of packets that arrive twice, from known counters."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_counters,
    with_stream_details,
)


def test_duplicates_in_excess_of_retransmissions_come_from_the_path() -> None:
    trial = with_stream_details(
        uniform_trial(), "a1", busy_s=0.05, dsack_dups=30, retransmits=10, segments_out=1000
    )
    assert trial_evidence(trial)["duplicated_percent"] == pytest.approx(2)


def test_a_retransmission_that_was_not_needed_is_no_duplicate() -> None:
    trial = with_stream_details(
        uniform_trial(), "a1", busy_s=0.05, dsack_dups=10, retransmits=10, segments_out=1000
    )
    assert trial_evidence(trial)["duplicated_percent"] == 0


def test_without_streams_the_packets_that_the_receiver_got_twice_count() -> None:
    trial = with_counters(uniform_trial(), "b1", tcp_duplicates_received=50, tcp_in_segments=1000)
    assert trial_evidence(trial)["duplicated_percent"] == pytest.approx(5)
    again = with_counters(trial, "a1", tcp_segments_retransmitted=20)
    assert trial_evidence(again)["duplicated_percent"] == pytest.approx(3)


def test_without_counters_nothing_is_known_of_duplicates() -> None:
    assert "duplicated_percent" not in trial_evidence(uniform_trial())
