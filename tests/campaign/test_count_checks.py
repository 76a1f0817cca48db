"""What every side counted, held against what must be so: bytes of TCP, datagrams, data that stops coming."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.campaign.count_checks import find_count_error
from vnetbench.results.records import EndpointRecord, Sample


def side(endpoint: str, role: str, samples: Sequence[Sample], **totals: object) -> EndpointRecord:
    return EndpointRecord(endpoint, role, totals, tuple(samples))


def test_bytes_that_got_lost_are_the_instruments_fault_once_all_has_drained() -> None:
    sent = side("a1", "source", (), drained=True, bytes_sent=10, bytes_received=0)
    assert not find_count_error(
        "tcp_stream", 1.0, [sent, side("b1", "sink", (), drained=True, bytes_received=10)]
    )
    wrong = find_count_error(
        "tcp_stream", 1.0, [sent, side("b1", "sink", (), drained=True, bytes_received=9)]
    )
    assert wrong == "the instrument miscounted: 10 bytes were sent, but 9 arrived"
    assert not find_count_error(
        "tcp_stream", 1.0, [sent, side("b1", "sink", [arrived(0.9, 5)], bytes_received=5)]
    )


def test_data_that_stopped_coming_for_good_is_told_from_data_that_was_slow() -> None:
    samples = [arrived(0.1, 5), arrived(0.4, 5), arrived(0.5, 0), arrived(1.0, 0), arrived(3.0, 0)]
    sent = side("a1", "source", ())
    assert find_count_error("tcp_stream", 1.0, [sent, side("b1", "sink", samples)]) == (
        "b1: nothing arrived after 0.40 s, so the path no longer carries data"
    )
    assert not find_count_error("tcp_stream", 1.0, [sent, side("b1", "sink", [*samples, arrived(4.0, 1)])])
    # Requests may have ended long ago, and the last one may still be unanswered.
    assert not find_count_error("tcp_rr", 1.0, [sent, side("b1", "sink", samples)])


def arrived(t_s: float, size: int) -> Sample:
    return Sample(0, t_s, 0.1, 0, size, {})


def flows(
    sent: int, arrived: int, lost: int, duplicates: int = 0, *, drained: bool = True
) -> list[EndpointRecord]:
    source = {"id": 0, "role": "source", "datagrams": sent}
    sink = {"id": 0, "role": "sink", "datagrams": arrived, "lost": lost, "duplicates": duplicates}
    return [
        side("a1", "source", (), drained=True, streams=[source]),
        side("b1", "sink", (), drained=drained, streams=[sink]),
    ]


def test_every_datagram_has_to_have_arrived_or_been_lost() -> None:
    assert not find_count_error("udp_stream", 1.0, flows(100, 90, 10))
    assert not find_count_error("udp_stream", 1.0, flows(100, 95, 10, duplicates=5))
    for wrong in (flows(100, 90, 9), flows(100, 101, -1)):
        assert "the instrument miscounted: 100 datagrams were sent" in find_count_error(
            "udp_stream", 1.0, wrong
        )


def test_datagrams_that_have_not_drained_are_not_held_against_it() -> None:
    assert not find_count_error("udp_stream", 1.0, flows(100, 90, 0, drained=False))
