"""The flows of a trial over a team of guests, from the ports of its streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from vnetbench.agents.client import AgentClient
from vnetbench.lab import netlink
from vnetbench.lab.endpoint import SIDES, Endpoint
from vnetbench.lab.guest.topology import GuestTopology
from vnetbench.lab.netns.topology import Vm
from vnetbench.lab.testbed import StreamSettings, query_mac_address
from vnetbench.teaming.flows import TCP, UDP, Flow, parse_mac


def list_stream_flows(
    topology: GuestTopology, agents: Mapping[str, AgentClient], streams: StreamSettings, ip_version: str
) -> tuple[Flow, ...]:
    """Return the flows of the connected streams, from side a to side b; raises BenchError."""
    firsts, seconds = ([each for each in topology.endpoints if each.side == side] for side in SIDES)
    return tuple(
        flow
        for a, b in zip(firsts, seconds, strict=True)
        for flow in _pair_flows(a, b, agents, streams, ip_version)
    )


def _pair_flows(
    a: Endpoint, b: Endpoint, agents: Mapping[str, AgentClient], streams: StreamSettings, ip_version: str
) -> Iterator[Flow]:
    source_mac, destination_mac = (parse_mac(_read_mac(end, agents)) for end in (a, b))
    for stream in streams[a.name]:
        if stream.get("local_port") is not None and stream.get("remote_port") is not None:
            yield Flow(
                ip_address(a.address_for(ip_version)),
                ip_address(b.address_for(ip_version)),
                source_mac,
                destination_mac,
                stream["local_port"],
                stream["remote_port"],
                # Only streams of TCP have a transport, `tcp` or `mptcp`.
                TCP if stream.get("transport") else UDP,
            )


def _read_mac(endpoint: Endpoint, agents: Mapping[str, AgentClient]) -> str:
    if isinstance(endpoint, Vm):
        return netlink.interface_mac(*endpoint.device.location)
    return query_mac_address(agents[endpoint.name], endpoint.interface)
