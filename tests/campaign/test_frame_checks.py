"""Checks of frame counts: refusals, failures and notes for faulty ports, devices and links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from vnetbench.campaign.frame_checks import (
    abnormal_frame_notes,
    check_frame_counts,
    locate_loss_of_all_frames,
    offered_load_notes,
)
from vnetbench.campaign.frame_counts import ForeignFrames, FrameTotals, sum_endpoint_counts, sum_step_counts
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.records import SEARCH_STEP, EndpointRecord, Observation, StepRecord


def frame_totals(sent: int = 100_000, received: int = 100_000, **other_counts: object) -> FrameTotals:
    return FrameTotals({"forward": sent}, {"forward": received}, 1, **other_counts)  # type: ignore[arg-type]


def test_frames_are_counted_by_direction() -> None:
    def make_endpoint(name: str, *streams: tuple[int, str, int]) -> EndpointRecord:
        stream_totals = [
            {"id": i, "role": role, "frames_sent" if role == "source" else "frames_received": n}
            for i, role, n in streams
        ]
        return EndpointRecord(name, "both", {"streams": stream_totals}, ())

    endpoints = [
        make_endpoint("a1", (0, "source", 10), (1, "sink", 19)),
        make_endpoint("b1", (0, "sink", 9), (1, "source", 20)),
        make_endpoint("a2", (0, "source", 100), (1, "sink", 200)),
        make_endpoint("b2", (0, "sink", 100), (1, "source", 200)),
        EndpointRecord("host", "observe", {}, ()),
    ]
    totals = sum_endpoint_counts(endpoints, {"direction": "both", "generators": 1})
    assert (totals.sent_by_direction, totals.received_by_direction) == (
        {"forward": 110, "reverse": 220},
        {"forward": 109, "reverse": 219},
    )
    assert totals.pair_direction_count == 4


def test_frames_that_the_sinks_ring_drops_count_as_received_with_a_note() -> None:
    def make_endpoint(name: str, dropped: int, *streams: dict[str, object]) -> EndpointRecord:
        return EndpointRecord(name, "both", {"streams": list(streams), "sink_dropped": dropped}, ())

    def totals(dropped: int) -> FrameTotals:
        source = make_endpoint("a1", 0, {"id": 0, "role": "source", "frames_sent": 100})
        sink = make_endpoint("b1", dropped, {"id": 0, "role": "sink", "frames_received": 90})
        return sum_endpoint_counts([source, sink], {"direction": "forward", "generators": 1})

    assert totals(4).received_by_direction == {"forward": 94}
    assert totals(50).received_by_direction == {"forward": 100}
    assert totals(4).sink_drops_by_endpoint == {"b1": 4}
    (note,) = abnormal_frame_notes(totals(4))
    assert "the bench's receive ring at b1 was full and dropped 4 frames" in note


def test_a_refusing_port_is_distinguished_from_a_generator_without_cpu_time() -> None:
    with pytest.raises(TreatmentRefused, match="the ports refused all 900") as refused:
        check_frame_counts(frame_totals(0, 0, rejected_by_source_ports=900))
    assert "carrier" in str(refused.value.fix)
    with pytest.raises(TrialFailed, match="got no CPU time"):
        check_frame_counts(frame_totals(0, 0))


def test_many_returned_frames_are_a_loop_and_a_few_are_a_note() -> None:
    with pytest.raises(
        TreatmentRefused, match="the network has a loop: 6000 frames that a1 sent came back"
    ) as refused:
        check_frame_counts(frame_totals(foreign_frames_by_endpoint={"a1": ForeignFrames(own_returned=6000)}))
    assert refused.value.where == "a1"
    few = frame_totals(foreign_frames_by_endpoint={"a1": ForeignFrames(own_returned=3)})
    check_frame_counts(few)
    assert list(abnormal_frame_notes(few)) == ["3 frames that a1 sent came back to a1"]


def test_more_received_than_sent_frames_fail_the_trial() -> None:
    with pytest.raises(
        TrialFailed, match="10 frames were sent in the direction forward, but 11 frames arrived"
    ):
        check_frame_counts(frame_totals(10, 11))


@pytest.mark.parametrize(
    ("other_counts", "message"),
    [
        ({"duplicates": 1000}, "the device duplicated 1000 frames (1.00 % of the frames received)"),
        (
            {"foreign_frames_by_endpoint": {"b2": ForeignFrames(from_other_trials=2000)}},
            "2000 frames of another pair",
        ),
        (
            {
                "foreign_frames_by_endpoint": {
                    "b1": ForeignFrames(from_other_senders=2000, example="UDP from 192.0.2.1")
                }
            },
            "2000 frames of other senders arrived at b1 (for example UDP from 192.0.2.1). They add load to "
            "the device",
        ),
    ],
)
def test_duplicates_and_foreign_frames_are_noted(other_counts: dict[str, object], message: str) -> None:
    totals = replace(frame_totals(), **other_counts)  # type: ignore[arg-type]
    check_frame_counts(totals)
    (note,) = abnormal_frame_notes(totals)
    assert note.startswith(message)


def test_a_few_foreign_frames_are_not_noted() -> None:
    assert (
        list(
            abnormal_frame_notes(
                frame_totals(
                    foreign_frames_by_endpoint={
                        "b1": ForeignFrames(from_other_senders=90, from_other_trials=50)
                    }
                )
            )
        )
        == []
    )


def test_a_generator_below_the_requested_load_is_noted() -> None:
    (note,) = offered_load_notes(frame_totals(90_000), {"frame_load": 100_000.0}, 1.0)
    assert "sent only 90.0 % of the requested load" in note
    assert not list(offered_load_notes(frame_totals(99_000), {"frame_load": 100_000.0}, 1.0))
    assert not list(offered_load_notes(frame_totals(1), {"frame_load": "max"}, 1.0))


def test_the_counts_of_all_steps_are_added_up() -> None:
    details = {
        "direction_count": 1,
        "sent": {"forward": 5},
        "received": {"forward": 4},
        "rejected": 0,
        "duplicates": 2,
        "out_of_order": 1,
        "sink_dropped": {"b1": 7},
    }
    foreign = {
        "foreign_frames": {"b1": {"other_senders": 3, "own_returned": 0, "other_trial": 0, "example": "ARP"}}
    }
    step = StepRecord(0, SEARCH_STEP, 5.0, None, 1.0, 0.0, 1.0, 5, 4, {**details, **foreign})
    totals = sum_step_counts([step, step])
    assert (totals.total_sent, totals.total_received, totals.duplicates, totals.out_of_order) == (10, 8, 4, 2)
    assert totals.foreign_frames_by_endpoint == {"b1": ForeignFrames(from_other_senders=6, example="ARP")}
    assert totals.sink_drops_by_endpoint == {"b1": 14}


@pytest.mark.parametrize(
    ("interfaces", "location"),
    [
        ({"p1": (1000, 0), "p2": (0, 1000)}, "The frames left the device at p2"),
        ({"p1": (1000, 0), "p2": (0, 0)}, "The frames entered the device at p1 and did not leave it"),
        ({"p1": (0, 0), "p2": (0, 0)}, "The frames did not reach p1, p2"),
        ({}, ""),
    ],
)
def test_the_counters_of_observed_interfaces_locate_the_loss(
    interfaces: dict[str, tuple[int, int]], location: str
) -> None:
    *endpoints, host = fixtures.frame_endpoint_records(0.1, 0.05, 1000, 0)
    observation = Observation(
        {}, {name: {"rx_packets": rx, "tx_packets": tx} for name, (rx, tx) in interfaces.items()}, None
    )
    first, *later = host.samples
    observed_host = replace(host, samples=(replace(first, observation=observation), *later))
    assert locate_loss_of_all_frames([*endpoints, observed_host]) == location
