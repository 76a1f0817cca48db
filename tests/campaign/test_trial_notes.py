"""What a reader is told of a trial: an instrument that was the limit, and what lacks."""

from __future__ import annotations

from typing import Any

from vnetbench.campaign.load_checks import check_streams
from vnetbench.campaign.trial_notes import clock_notes, device_notes, instrument_notes


def said(side: dict[str, Any]) -> list[str]:
    return instrument_notes(1.0, 0.1, {"b1": side, "host": {}})


def test_a_receiver_that_was_the_limit_is_named() -> None:
    sink = {"id": 0, "role": "sink", "datagrams": 800, "lost": 200, "foreign": 3, "socket_drops": 200}
    assert said({"streams": [sink]}) == [
        "b1: its sockets dropped 20 % of the arriving datagrams, so the receiver was the limit",
        "b1: 3 foreign datagrams arrived",
    ]
    assert said({"streams": [{**sink, "foreign": 0, "socket_drops": 0}]}) == []


def test_a_source_that_could_not_keep_its_rate_is_named() -> None:
    pacing = {"due": 1000, "sent": 700, "late_p99_us": 9e5}
    assert said({"instrument": {"pacing": pacing}}) == ["b1: the source sent only 70 % of the requested load"]
    kept = {"due": 1000, "sent": 1000, "late_p99_us": 2000.0}
    assert said({"instrument": {"pacing": kept}}) == ["b1: 1 % of the sends were at least 2000 µs late"]


def test_two_ends_without_a_common_clock_have_no_delay_and_it_is_said() -> None:
    effective = check_streams({}, [{"id": 0}, {"id": 0, "shared_clock": False, "udp_gro": True}])
    assert effective == {"udp_gro": True, "shared_clock": False}
    assert "no one-way delay" in clock_notes(effective)[0]
    assert clock_notes({"shared_clock": True}) == clock_notes({}) == []


def test_what_ended_while_it_was_watched_is_named() -> None:
    threads = [{"name": "a1 vcpu0", "cpu_s": 0.5}, {"name": "b1 vhost0", "cpu_s": 0.1, "gone": True}]
    ports = [{"name": "b1", "rx_packets": 3, "gone": True}]
    assert said({"threads": threads, "interfaces": ports}) == [
        "b1: b1 vhost0 disappeared during the trial; its counters end there",
        "b1: b1 disappeared during the trial; its counters end there",
    ]


def test_memory_that_was_mostly_copied_after_all_is_said() -> None:
    def lent(**account: int) -> dict[str, Any]:
        return {"streams": [{"id": 0, "lent": account}]}

    copied = said(lent(in_place=1, copied=9, unsettled=0))
    assert copied == ["b1: the kernel copied most of the data of zero-copy sends"]
    assert said(lent(in_place=9, copied=1, unsettled=0)) == []


def test_a_device_that_had_to_share_the_testers_cpus_is_told_with_the_reason() -> None:
    assert device_notes({"device_cpus": "2-3"}) == []
    (said,) = device_notes({"device_cpus": "any", "device_not_apart": "not permitted"})
    assert "shares CPUs with the generator" in said
    assert said.endswith("not permitted")
