"""What is held against a trial of datagrams: counts that do not add up, an instrument that was the limit."""

from __future__ import annotations

from typing import Any

import pytest

from vnetbench.agents.client import AgentError
from vnetbench.campaign.judging import clock_remarks, judge_streams, judge_totals, refusal_of, remarks
from vnetbench.lab.refusal import TrialFailed


def totals(sent: int, arrived: int, lost: int, **more: int) -> list[dict[str, Any]]:
    source = {"id": 0, "role": "source", "datagrams": sent}
    sink = {"id": 0, "role": "sink", "datagrams": arrived, "lost": lost, "duplicates": 0, "foreign": 0,
            "socket_drops": 0, **more}  # fmt: skip
    return [{"drained": True, "streams": [source]}, {"drained": True, "streams": [sink]}]


def test_every_datagram_has_to_have_arrived_or_been_lost() -> None:
    judge_totals(totals(100, 90, 10))
    judge_totals(totals(100, 95, 10, duplicates=5))
    for wrong in (totals(100, 90, 9), totals(100, 101, -1)):
        with pytest.raises(TrialFailed, match="miscounted"):
            judge_totals(wrong)


def test_what_has_not_drained_is_not_held_against_it() -> None:
    source, sink = totals(100, 90, 0)
    judge_totals([source, {**sink, "drained": False}])


def said(side: dict[str, Any]) -> list[str]:
    return remarks(1.0, 0.1, {"b1": side, "host": {}})


def test_a_receiver_that_was_the_limit_is_named() -> None:
    _, sink = totals(1000, 800, 200, socket_drops=200, foreign=3)
    assert said(sink) == [
        "b1: its own sockets dropped 20 % of the datagrams that came: the receiver was the limit",
        "b1: 3 foreign datagrams came",
    ]
    assert said(totals(1000, 800, 200)[1]) == []


def test_a_source_that_could_not_keep_its_rate_is_named() -> None:
    pacing = {"due": 1000, "sent": 700, "late_p99_us": 9e5}
    assert said({"instrument": {"pacing": pacing}}) == ["b1: only 70 % of what was due could be sent"]
    kept = {"due": 1000, "sent": 1000, "late_p99_us": 2000.0}
    assert said({"instrument": {"pacing": kept}}) == [
        "b1: 1 % of what was due was sent 2000 µs late or later"
    ]


def test_two_ends_without_a_common_clock_have_no_delay_and_it_is_said() -> None:
    effective = judge_streams({}, [{"id": 0}, {"id": 0, "shared_clock": False, "udp_gro": True}])
    assert effective == {"udp_gro": True, "shared_clock": False}
    assert "no one-way delay" in clock_remarks(effective)[0]
    assert clock_remarks({"shared_clock": True}) == clock_remarks({}) == []


def test_a_datagram_that_does_not_get_through_refuses_the_treatment() -> None:
    error = AgentError(
        "a1",
        "the system refused to send a datagram of 9000 bytes: Message too long",
        -32001,
        {"operation": "send a datagram of 9000 bytes"},
    )
    refusal = refusal_of(error, "a1")
    assert refusal is not None
    assert "9000 bytes" in refusal.what and "datagram_size" in str(refusal.fix)
