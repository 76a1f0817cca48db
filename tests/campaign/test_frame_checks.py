"""Strange ports, devices and links: each told apart by what both ports counted, and said with its fix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from vnetbench.campaign.frame_checks import check_frame_counts, frame_notes, locate_loss, offered_load_notes
from vnetbench.campaign.frame_counts import ForeignFrames, FrameTotals, sum_endpoint_counts, sum_step_counts
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.records import SEARCH_STEP, EndpointRecord, Observation, StepRecord


def counts(sent: int = 100_000, received: int = 100_000, **more: object) -> FrameTotals:
    return FrameTotals({"forward": sent}, {"forward": received}, 1, **more)  # type: ignore[arg-type]


def test_frames_are_counted_by_direction_and_pair_from_the_ids_of_their_streams() -> None:
    def side(name: str, *streams: tuple[int, str, int]) -> EndpointRecord:
        told = [
            {"id": i, "role": role, "frames_sent" if role == "source" else "frames_received": n}
            for i, role, n in streams
        ]
        return EndpointRecord(name, "both", {"streams": told}, ())

    sides = [
        side("a1", (0, "source", 10), (1, "sink", 19)),
        side("b1", (0, "sink", 9), (1, "source", 20)),
        side("a2", (0, "source", 100), (1, "sink", 200)),
        side("b2", (0, "sink", 100), (1, "source", 200)),
        EndpointRecord("host", "observe", {}, ()),
    ]
    found = sum_endpoint_counts(sides, {"direction": "both", "generators": 1})
    assert (found.sent, found.received) == (
        {"forward": 110, "reverse": 220},
        {"forward": 109, "reverse": 219},
    )
    assert found.direction_count == 4


def test_what_a_sinks_own_ring_had_no_room_for_is_no_loss_of_the_device_and_is_remarked() -> None:
    def side(name: str, dropped: int, *streams: dict[str, object]) -> EndpointRecord:
        return EndpointRecord(name, "both", {"streams": list(streams), "sink_dropped": dropped}, ())

    def found(dropped: int) -> FrameTotals:
        source = side("a1", 0, {"id": 0, "role": "source", "frames_sent": 100})
        sink = side("b1", dropped, {"id": 0, "role": "sink", "frames_received": 90})
        return sum_endpoint_counts([source, sink], {"direction": "forward", "generators": 1})

    assert found(4).received == {"forward": 94}
    assert found(50).received == {"forward": 100}
    assert found(4).sink_dropped == {"b1": 4}
    (remark,) = frame_notes(found(4))
    assert "b1: the bench's full receive ring dropped 4 frames" in remark


def test_a_port_that_takes_nothing_is_told_from_a_generator_that_could_not_run() -> None:
    with pytest.raises(TreatmentRefused, match="the ports refused all 900") as refused:
        check_frame_counts(counts(0, 0, refused=900))
    assert "carrier" in str(refused.value.fix)
    with pytest.raises(TrialFailed, match="got no CPU time"):
        check_frame_counts(counts(0, 0))


def test_own_frames_that_come_back_are_a_loop_and_a_few_are_a_remark() -> None:
    with pytest.raises(
        TreatmentRefused, match="the network has a loop: 6000 frames that a1 sent came back"
    ) as refused:
        check_frame_counts(counts(foreign={"a1": ForeignFrames(own=6000)}))
    assert refused.value.where == "a1"
    few = counts(foreign={"a1": ForeignFrames(own=3)})
    check_frame_counts(few)
    assert list(frame_notes(few)) == ["a1: 3 of its own frames came back to it"]


def test_more_frames_than_were_sent_are_the_instruments_fault() -> None:
    with pytest.raises(TrialFailed, match="10 frames were sent in the forward direction, but 11 arrived"):
        check_frame_counts(counts(10, 11))


@pytest.mark.parametrize(
    ("beside", "what"),
    [
        ({"duplicates": 1000}, "the device duplicated 1000 frames (1.00 % of the frames received)"),
        ({"foreign": {"b2": ForeignFrames(other_trial=2000)}}, "b2: 2000 frames of another pair"),
        (
            {"foreign": {"b1": ForeignFrames(others=2000, example="UDP from 192.0.2.1")}},
            "b1: 2000 foreign frames arrived (for example UDP from 192.0.2.1). Another sender uses the link",
        ),
    ],
)
def test_what_comes_beside_the_frames_is_remarked(beside: dict[str, object], what: str) -> None:
    found = replace(counts(), **beside)  # type: ignore[arg-type]
    check_frame_counts(found)
    (remark,) = frame_notes(found)
    assert remark.startswith(what)


def test_a_few_foreign_frames_are_what_any_link_has() -> None:
    assert list(frame_notes(counts(foreign={"b1": ForeignFrames(others=90, other_trial=50)}))) == []


def test_a_generator_that_sent_less_than_it_was_asked_is_told() -> None:
    (remark,) = offered_load_notes(counts(90_000), {"frame_load": 100_000.0}, 1.0)
    assert "sent only 90.0 % of the requested load" in remark
    assert not list(offered_load_notes(counts(99_000), {"frame_load": 100_000.0}, 1.0))
    assert not list(offered_load_notes(counts(1), {"frame_load": "max"}, 1.0))


def test_what_all_steps_of_a_trial_saw_is_added_up() -> None:
    details = {
        "direction_count": 1,
        "sent": {"forward": 5},
        "received": {"forward": 4},
        "refused": 0,
        "duplicates": 2,
        "out_of_order": 1,
        "sink_dropped": {"b1": 7},
    }
    foreign = {"foreign": {"b1": {"others": 3, "own": 0, "other_trial": 0, "example": "ARP"}}}
    step = StepRecord(0, SEARCH_STEP, 5.0, None, 1.0, 0.0, 1.0, 5, 4, {**details, **foreign})
    found = sum_step_counts([step, step])
    assert (found.total_sent, found.total_received, found.duplicates, found.out_of_order) == (10, 8, 4, 2)
    assert found.foreign == {"b1": ForeignFrames(others=6, example="ARP")}
    assert found.sink_dropped == {"b1": 14}


@pytest.mark.parametrize(
    ("interfaces", "where"),
    [
        ({"p1": (1000, 0), "p2": (0, 1000)}, "; they left the device at p2"),
        ({"p1": (1000, 0), "p2": (0, 0)}, "; they entered the device at p1 and did not leave it"),
        ({"p1": (0, 0), "p2": (0, 0)}, "; they did not reach p1, p2"),
        ({}, ""),
    ],
)
def test_watched_interfaces_tell_where_frames_stop(
    interfaces: dict[str, tuple[int, int]], where: str
) -> None:
    *ends, host = fixtures.frame_endpoint_records(0.1, 0.05, 1000, 0)
    seen = Observation(
        {}, {name: {"rx_packets": rx, "tx_packets": tx} for name, (rx, tx) in interfaces.items()}, None
    )
    first, *later = host.samples
    watched = replace(host, samples=(replace(first, observation=seen), *later))
    assert locate_loss([*ends, watched]) == where
