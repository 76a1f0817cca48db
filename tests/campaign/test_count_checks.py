"""Consistency checks of the endpoints' counts: bytes, datagrams, and data that stops arriving."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.campaign.count_checks import find_count_error
from vnetbench.results.records import EndpointRecord, Sample


def make_endpoint(name: str, role: str, samples: Sequence[Sample], **totals: object) -> EndpointRecord:
    return EndpointRecord(name, role, totals, tuple(samples))


def test_missing_bytes_are_an_error_if_the_connections_have_drained() -> None:
    sent = make_endpoint("a1", "source", (), drained=True, bytes_sent=10, bytes_received=0)
    assert not find_count_error(
        "tcp_stream", 1.0, [sent, make_endpoint("b1", "sink", (), drained=True, bytes_received=10)]
    )
    error = find_count_error(
        "tcp_stream", 1.0, [sent, make_endpoint("b1", "sink", (), drained=True, bytes_received=9)]
    )
    assert error == "the agents' counts contradict each other: 10 bytes were sent, but 9 bytes arrived"
    assert not find_count_error(
        "tcp_stream", 1.0, [sent, make_endpoint("b1", "sink", [receive_sample(0.9, 5)], bytes_received=5)]
    )


def test_data_that_stops_arriving_is_distinguished_from_slow_data() -> None:
    samples = [
        receive_sample(0.1, 5),
        receive_sample(0.4, 5),
        receive_sample(0.5, 0),
        receive_sample(1.0, 0),
        receive_sample(3.0, 0),
    ]
    sent = make_endpoint("a1", "source", ())
    assert find_count_error("tcp_stream", 1.0, [sent, make_endpoint("b1", "sink", samples)]) == (
        "no data arrived at b1 after 0.40 s, so the path no longer carries data"
    )
    assert not find_count_error(
        "tcp_stream", 1.0, [sent, make_endpoint("b1", "sink", [*samples, receive_sample(4.0, 1)])]
    )
    # Requests may have ended earlier, and the last one may have no response yet.
    assert not find_count_error("tcp_rr", 1.0, [sent, make_endpoint("b1", "sink", samples)])


def receive_sample(t_s: float, size: int) -> Sample:
    return Sample(0, t_s, 0.1, 0, size, {})


def datagram_endpoints(
    sent: int, received: int, lost: int, duplicates: int = 0, *, drained: bool = True
) -> list[EndpointRecord]:
    source = {"id": 0, "role": "source", "datagrams": sent}
    sink = {"id": 0, "role": "sink", "datagrams": received, "lost": lost, "duplicates": duplicates}
    return [
        make_endpoint("a1", "source", (), drained=True, streams=[source]),
        make_endpoint("b1", "sink", (), drained=drained, streams=[sink]),
    ]


def test_received_and_lost_datagrams_must_add_up_to_sent_datagrams() -> None:
    assert not find_count_error("udp_stream", 1.0, datagram_endpoints(100, 90, 10))
    assert not find_count_error("udp_stream", 1.0, datagram_endpoints(100, 95, 10, duplicates=5))
    for endpoints in (datagram_endpoints(100, 90, 9), datagram_endpoints(100, 101, -1)):
        assert "the agents' counts contradict each other: 100 datagrams were sent" in find_count_error(
            "udp_stream", 1.0, endpoints
        )


def test_datagrams_in_flight_are_not_an_error() -> None:
    assert not find_count_error("udp_stream", 1.0, datagram_endpoints(100, 90, 0, drained=False))
