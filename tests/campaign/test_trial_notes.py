"""Notes on trials: an instrument that was the limit, and missing data."""

from __future__ import annotations

from typing import Any

import pytest

from vnetbench.campaign.load_checks import check_and_return_socket_settings
from vnetbench.campaign.trial_notes import clock_notes, instrument_notes, shared_device_cpus_notes, team_notes

pytestmark = pytest.mark.pure


def notes_for(totals: dict[str, Any]) -> list[str]:
    return instrument_notes(1.0, 0.1, {"b1": totals, "host": {}})


def test_a_receiver_that_is_the_limit_is_noted() -> None:
    sink = {
        "id": 0,
        "role": "sink",
        "datagrams": 800,
        "lost": 200,
        "foreign_datagrams": 3,
        "socket_drops": 200,
    }
    assert notes_for({"streams": [sink]}) == [
        "b1: its sockets dropped 20 % of the arriving datagrams, so the receiver was the limit",
        "b1: 3 datagrams from other programs arrived",
    ]
    assert notes_for({"streams": [{**sink, "foreign_datagrams": 0, "socket_drops": 0}]}) == []


def test_an_instrument_that_uses_over_2_percent_of_a_machine_is_noted() -> None:
    def notes(bench_s: float, host_s: float, endpoint_s: float, guest_s: float) -> list[str]:
        cpu = [{"cpu": 0}, {"cpu": 1}]
        host = {"bench_cpu_s": bench_s, "instrument": {"sampler_cpu_s": host_s}, "cpu": cpu}
        endpoint = {"instrument": {"sampler_cpu_s": endpoint_s}, "cpu": []}
        guest = {"instrument": {"sampler_cpu_s": guest_s}, "cpu": cpu[:1]}
        return instrument_notes(10.0, 0.1, {"a1": endpoint, "b1": guest, "host": host})

    assert notes(0.1, 0.1, 0.19, 0.19) == []
    assert notes(0.2, 0.2, 0.2, 0.19) == [
        "host: the bench and the agents' samplers used 3.0 % of the machine's CPU time"
    ]
    assert notes(0.1, 0.1, 0.1, 0.5) == ["b1: the agent's sampler used 5.0 % of the machine's CPU time"]


def test_a_source_below_its_rate_is_noted() -> None:
    pacing = {"due": 1000, "sent": 700, "lateness_p99_us": 9e5}
    assert notes_for({"instrument": {"pacing": pacing}}) == [
        "b1: the source sent only 70 % of the requested load"
    ]
    late_pacing = {"due": 1000, "sent": 1000, "lateness_p99_us": 2000.0}
    assert notes_for({"instrument": {"pacing": late_pacing}}) == [
        "b1: the source sent 1 % of its messages at least 2000 µs late"
    ]


def test_endpoints_without_a_shared_clock_have_a_note_about_one_way_delay() -> None:
    effective = check_and_return_socket_settings(
        {}, [{"id": 0}, {"id": 0, "shared_clock": False, "udp_gro": True}]
    )
    assert effective == {"udp_gro": True, "shared_clock": False}
    assert "one-way delays are not measured" in clock_notes(effective)[0]
    assert clock_notes({"shared_clock": True}) == clock_notes({}) == []


def test_threads_and_interfaces_that_disappear_are_noted() -> None:
    threads = [{"name": "a1 vcpu0", "cpu_s": 0.5}, {"name": "b1 vhost0", "cpu_s": 0.1, "is_gone": True}]
    ports = [{"name": "b1", "rx_packets": 3, "is_gone": True}]
    assert notes_for({"threads": threads, "interfaces": ports}) == [
        "b1: b1 vhost0 disappeared during the trial, so its counters end before the trial does",
        "b1: b1 disappeared during the trial, so its counters end before the trial does",
    ]


def test_zero_copy_sends_that_are_mostly_copied_are_noted() -> None:
    def zero_copy_totals(**counts: int) -> dict[str, Any]:
        return {"streams": [{"id": 0, "zero_copy": counts}]}

    notes = notes_for(zero_copy_totals(in_place=1, copied=9, uncompleted=0))
    assert notes == ["b1: the kernel copied most of the data of zero-copy sends"]
    assert notes_for(zero_copy_totals(in_place=9, copied=1, uncompleted=0)) == []


def test_a_device_that_shares_the_testers_cpus_is_noted_with_the_reason() -> None:
    assert shared_device_cpus_notes({"device_cpus": "2-3"}) == []
    (note,) = shared_device_cpus_notes({"device_cpus": "any", "device_cpus_unavailable": "not permitted"})
    assert "shares CPUs with the generator" in note
    assert note.endswith("(not permitted)")


@pytest.mark.parametrize(
    ("policy", "load_s", "is_noted"),
    [("balance-tcp", 10.0, True), ("balance-tcp", 9.9, False), ("active-backup", 60.0, False)],
)
def test_a_team_that_may_have_moved_flows_is_noted(policy: str, load_s: float, is_noted: bool) -> None:
    team = {"name": "uplinks", "policy": policy, "rebalance_interval_s": 10.0, "predicted": {}}
    notes = team_notes({"teams": [team]}, load_s)
    assert bool(notes) == is_noted
    assert all(note.startswith("uplinks: the switch moves flows between links every 10 s") for note in notes)


def test_a_team_without_predictions_has_no_note() -> None:
    assert team_notes({"teams": [{"policy": "balance-tcp", "rebalance_interval_s": 10.0}]}, 60.0) == []
    assert team_notes({}, 60.0) == []
