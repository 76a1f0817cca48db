"""Checks that the streams of a trial have the source ports that its treatment requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from vnetbench.campaign.agent_parameters import list_streams
from vnetbench.lab.endpoint import Endpoint, PairSideOrEmpty
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.load_factors import SOURCE_PORTS, TRANSPORT, VSOCK
from vnetbench.study.factors.port_ranges import CONSECUTIVE_PORTS, SPREAD_PORTS, parse_port_range
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS

DESTINATION_PORTS_KEY = "destination_ports"
"""Key in `effective`: the ports at the other end, which a policy may hash too."""
TRANSLATED_PORTS_KEY = "translated_source_ports"
"""Key in `effective` of a trial whose path changes source ports: the ports that the other endpoint sees."""

_SocketSettings = Mapping[str, Any]


@dataclass(frozen=True)
class EndpointSockets:
    """The sockets of one endpoint, and those of the other endpoint of its pair.

    Attributes:
        name: Name of the endpoint.
        side: a for the endpoint that opens the connections, else b.
        sockets: Settings of its sockets, as its agent reads them back.
        peer_sockets: The same of the other endpoint; empty if no agent runs there.
    """

    name: str
    side: PairSideOrEmpty
    sockets: Sequence[_SocketSettings]
    peer_sockets: Sequence[_SocketSettings] = ()


def pair_sockets(
    pairs: Iterable[tuple[Endpoint, Endpoint]], answers: Mapping[str, Any]
) -> Iterator[EndpointSockets]:
    """Yield the sockets of each endpoint, from the answers of all agents to trial.prepare."""
    for a, b in pairs:
        for at, peer in ((a, b), (b, a)):
            sockets, peer_sockets = (answers[each.name]["streams"] for each in (at, peer))
            yield EndpointSockets(at.name, at.side, sockets, peer_sockets)


def check_and_return_source_ports(
    workload_name: str, factors: Mapping[str, Level], endpoints: Iterable[EndpointSockets]
) -> dict[str, object]:
    """Return the effective ports of both ends by the source's endpoint, in the order of its streams.

    The source port of a datagram stream is that of the endpoint that sends. The source port of a TCP stream
    is that of endpoint a, which opens the connection, in both directions. Frames, VSOCK and connections for
    single requests have none.

    Raises:
        TreatmentRefused: The ports are not those of the factor's level.
    """
    if not SOURCE_PORTS.has_workload(workload_name) or TRANSPORT.is_at(factors, VSOCK):
        return {}
    level = str(SOURCE_PORTS.read_level(factors))
    ports_by_endpoint: dict[str, list[int]] = {}
    destinations: dict[str, list[int]] = {}
    translated: dict[str, list[int]] = {}
    for endpoint in endpoints:
        ids = _list_opening_streams(workload_name, factors, endpoint.side)
        if not ids:
            continue
        ports = _collect_ports(endpoint.sockets, "local_port", ids)
        if len(ports) < len(ids) or not _has_ports_of_level(level, ports):
            raise TreatmentRefused(
                f"{SOURCE_PORTS.name} = {level} had no effect: the streams use the source ports "
                f"{', '.join(map(str, ports)) or 'none'}",
                where=endpoint.name,
                fix=f'write {SOURCE_PORTS.name} = "any", which takes the ports that the kernel chooses',
                factor=SOURCE_PORTS.name,
            )
        ports_by_endpoint[endpoint.name] = ports
        destinations[endpoint.name] = _collect_ports(endpoint.sockets, "remote_port", ids)
        at_peer = _collect_ports(endpoint.peer_sockets, "remote_port", ids)
        if at_peer and at_peer != ports:
            translated[endpoint.name] = at_peer
    return {
        SOURCE_PORTS.name: ports_by_endpoint,
        **({DESTINATION_PORTS_KEY: destinations} if any(destinations.values()) else {}),
        **({TRANSLATED_PORTS_KEY: translated} if translated else {}),
    }


def _list_opening_streams(
    workload_name: str, factors: Mapping[str, Level], side: PairSideOrEmpty
) -> list[object]:
    """Return the ids of the streams whose source port an endpoint chooses."""
    streams = list_streams(workload_name, factors, side)
    if WORKLOADS[workload_name].has_datagrams:
        return [stream["id"] for stream in streams if stream["role"] == "source"]
    return [] if side == "b" else [stream["id"] for stream in streams]


def _collect_ports(sockets: Iterable[_SocketSettings], key: str, ids: Iterable[object]) -> list[int]:
    """Return the known ports of these streams, in the order of the ids."""
    ports = {socket["id"]: socket[key] for socket in sockets if socket.get(key) is not None}
    return [int(ports[stream_id]) for stream_id in ids if stream_id in ports]


def _has_ports_of_level(level: str, ports: Sequence[int]) -> bool:
    """Return whether an endpoint's source ports are those of a level (docs/protocol.md, "Source ports")."""
    if (expected := parse_port_range(level)) is not None:
        return list(ports) == list(expected[: len(ports)])
    if level == CONSECUTIVE_PORTS:
        return list(ports) == list(range(ports[0], ports[0] + len(ports)))
    if level == SPREAD_PORTS:
        is_ascending = all(one < next_port for one, next_port in pairwise(ports))
        return is_ascending and all(port % 2 == index % 2 for index, port in enumerate(ports))
    return True


def source_port_notes(effective: Mapping[str, Any]) -> list[str]:
    """Return a note if the path of a trial changes the source ports, as a NAT does."""
    if TRANSLATED_PORTS_KEY not in effective:
        return []
    return [
        "the path changes source ports (a NAT), so that devices behind it see other ports than "
        f"{SOURCE_PORTS.name} names"
    ]
