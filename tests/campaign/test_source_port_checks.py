"""The read-back of source ports: what counts as each level, and what the results contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from vnetbench.campaign.source_port_checks import (
    TRANSLATED_PORTS_KEY,
    EndpointSockets,
    check_and_return_source_ports,
    source_port_notes,
)
from vnetbench.lab.endpoint import PairSideOrEmpty
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level
from vnetbench.study.workloads import MIXED, TCP_CRR, TCP_STREAM, UDP_STREAM

pytestmark = pytest.mark.pure


def endpoint(side: PairSideOrEmpty, local: Sequence[int | None], seen: Iterable[int] = ()) -> EndpointSockets:
    """Return an endpoint with these local ports, and what the other endpoint of its pair sees."""
    sockets = [{"id": i, "local_port": port, "remote_port": 7} for i, port in enumerate(local)]
    return EndpointSockets(
        f"{side}1", side, sockets, [{"id": i, "remote_port": port} for i, port in enumerate(seen)]
    )


def levels(workload: str = TCP_STREAM, **own: Level) -> Mapping[str, Level]:
    return complete_levels(own, workload)


@pytest.mark.parametrize(
    ("level", "ports"),
    [
        ("any", [40000, 40000, 33333]),
        ("consecutive", [33001, 33002, 33003]),
        ("50000-50015", [50000, 50001, 50002]),
        ("spread", [32770, 45001, 60000]),
    ],
)
def test_ports_of_a_level_are_returned(level: str, ports: list[int]) -> None:
    endpoints = [endpoint("a", ports, ports), endpoint("b", [5201] * 3)]
    effective = check_and_return_source_ports(TCP_STREAM, levels(streams=3, source_ports=level), endpoints)
    assert effective == {"source_ports": {"a1": ports}, "destination_ports": {"a1": [7, 7, 7]}}


@pytest.mark.parametrize(
    ("level", "ports"),
    [
        ("consecutive", [33001, 33002, 33004]),
        ("50000-50015", [50000, 50002, 50001]),
        ("50000-50015", [50000, 50001, None]),
        ("spread", [32770, 45002, 60000]),
        ("spread", [32771, 45000, 60001]),
        ("spread", [45000, 32771, 60000]),
    ],
)
def test_other_ports_than_requested_are_refused(level: str, ports: list[int | None]) -> None:
    factors = levels(streams=3, source_ports=level)
    with pytest.raises(TreatmentRefused, match=f"source_ports = {level} had no effect") as refused:
        check_and_return_source_ports(TCP_STREAM, factors, [endpoint("a", ports)])
    assert (refused.value.where, refused.value.factor) == ("a1", "source_ports")


def test_reverse_streams_of_tcp_leave_the_ports_of_endpoint_a() -> None:
    factors = levels(streams=2, direction="both", source_ports="50000-50003")
    pair = [endpoint("a", [50000, 50001, 50002, 50003]), endpoint("b", [5201] * 4)]
    effective = check_and_return_source_ports(TCP_STREAM, factors, pair)
    assert effective["source_ports"] == {"a1": [50000, 50001, 50002, 50003]}


def test_datagrams_leave_the_ports_of_their_source_in_each_direction() -> None:
    factors = levels(UDP_STREAM, streams=2, direction="both", source_ports="50000-50001")
    pair = [endpoint("a", [50000, 50001, 9, 9]), endpoint("b", [9, 9, 50000, 50001])]
    effective = check_and_return_source_ports(UDP_STREAM, factors, pair)
    assert effective == {
        "source_ports": {"a1": [50000, 50001], "b1": [50000, 50001]},
        "destination_ports": {"a1": [7, 7], "b1": [7, 7]},
    }


def test_mixed_has_the_ports_of_requests_first() -> None:
    factors = levels(MIXED, connections=1, streams=2, source_ports="50000-50003")
    effective = check_and_return_source_ports(MIXED, factors, [endpoint("a", [50000, 50001, 50002])])
    assert effective["source_ports"] == {"a1": [50000, 50001, 50002]}


def test_loads_without_such_ports_have_no_entry() -> None:
    assert check_and_return_source_ports(TCP_CRR, levels(TCP_CRR), [endpoint("a", [1])]) == {}
    assert check_and_return_source_ports(TCP_STREAM, {"transport": "vsock"}, [endpoint("a", [None])]) == {}


def test_ports_that_a_nat_changes_are_noted() -> None:
    factors = levels(streams=2, source_ports="consecutive")
    nat = endpoint("a", [40000, 40001], [1024, 1025])
    effective = check_and_return_source_ports(TCP_STREAM, factors, [nat])
    assert effective[TRANSLATED_PORTS_KEY] == {"a1": [1024, 1025]}
    (note,) = source_port_notes(effective)
    assert "changes source ports (a NAT)" in note
    assert source_port_notes({"source_ports": {"a1": [40000]}}) == []
