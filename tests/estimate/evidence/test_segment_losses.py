"""Evidence of lost segments from recorded counters of both ends of a stream."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_counters,
    with_stream_details,
)
from vnetbench.results.records import TrialRecord


def trial_with_segments(from_sink: int, to_source: int) -> TrialRecord:
    """Return a trial of 20 samples in which the sink sent and the source got so many segments in each."""
    trial = with_stream_details(uniform_trial(), "a1", busy_s=0.05, segments_in=to_source)
    return with_stream_details(trial, "b1", busy_s=0.0, segments_out=from_sink)


def test_segments_that_do_not_arrive_at_the_source_are_lost() -> None:
    """Recorded behind a policer of 3000 packets/s in the direction of the acknowledgements."""
    assert trial_evidence(trial_with_segments(1490, 151))["ack_loss_percent"] == pytest.approx(89.9, abs=0.1)


def test_more_arrived_than_sent_is_no_loss() -> None:
    """The samples of both ends do not end at the same time."""
    assert trial_evidence(trial_with_segments(1490, 1500))["ack_loss_percent"] == 0


def test_one_end_alone_shows_no_loss() -> None:
    trial = with_stream_details(uniform_trial(), "a1", busy_s=0.05, segments_in=100)
    assert "ack_loss_percent" not in trial_evidence(trial)


def test_segments_that_the_receivers_tcp_drops_are_counted_per_second() -> None:
    """Recorded in a container with 64 KiB for the buffers of TCP: 22 drops in 1.3 s."""
    trial = with_counters(uniform_trial(), "b1", tcp_rcv_pruned=[1, 0, 0, 2] * 5, tcp_backlog_drop=0)
    assert trial_evidence(trial)["tcp_receive_drops_per_s"] == pytest.approx(15)
    sender = with_counters(uniform_trial(), "a1", tcp_rcv_pruned=1)
    assert "tcp_receive_drops_per_s" not in trial_evidence(sender)
