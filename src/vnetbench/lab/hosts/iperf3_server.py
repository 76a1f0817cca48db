"""The testbed of an iperf3 server and this machine: resolves names and looks up routes, but sets nothing."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.study.file.host_value_types import split_canonical_server
from vnetbench.study.model import ExistingEndpointSpec, TestbedSpec
from vnetbench.study.rules.lab_checks import DEFAULT_LOCAL_HOST_NAME


@dataclass(frozen=True)
class LocalEndpoint:
    """This machine as an endpoint."""

    name: str
    interface: str
    source_address: str
    """Source address of the load."""


@dataclass(frozen=True)
class Iperf3Server:
    """An endpoint that only has an iperf3 server."""

    name: str
    host_and_port: str
    """The server as the study writes it, `host:port`."""
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.name} ({self.host_and_port})"


@dataclass(frozen=True)
class Iperf3Testbed:
    """A testbed of this machine and an iperf3 server."""

    local: LocalEndpoint
    server: Iperf3Server

    def __str__(self) -> str:
        return f"{self.local.name} to {self.server.name}"

    def describe(self) -> dict[str, object]:
        """Return the description for the results file."""
        return {
            "name": str(self),
            "lab": "hosts",
            "endpoints": [
                {
                    "name": self.local.name,
                    "side": "a",
                    "address": self.local.source_address,
                    "interface": self.local.interface,
                },
                {
                    "name": self.server.name,
                    "side": "b",
                    "address": self.server.address,
                    "port": self.server.port,
                    "protocol": "iperf3",
                },
            ],
            "path": f"{self.local.interface} to {self.server.host_and_port}",
        }


def find_testbed(spec: TestbedSpec) -> Iperf3Testbed:
    """Return the testbed of a checked study; raises BenchError if the server has no address or route."""
    server = next(_resolve_server(host) for host in spec.existing_endpoints if host.iperf3_server)
    local = next(
        (host for host in spec.existing_endpoints if host.is_bench_machine),
        ExistingEndpointSpec(DEFAULT_LOCAL_HOST_NAME, is_bench_machine=True),
    )
    return Iperf3Testbed(_make_local_endpoint(local, server), server)


def _resolve_server(host: ExistingEndpointSpec) -> Iperf3Server:
    name, port = split_canonical_server(str(host.iperf3_server))
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BenchError(
            f"cannot resolve {name}: {error.strerror or error}",
            where=f"testbed.host {host.name}",
            fix="write a name that this machine can resolve (getent hosts NAME), or its address",
        ) from error
    return Iperf3Server(host.name, str(host.iperf3_server), str(found[0][4][0]), port)


def _make_local_endpoint(spec: ExistingEndpointSpec, server: Iperf3Server) -> LocalEndpoint:
    source = spec.address or _source_address(spec.interface, server)
    interface, address = netlink.find_route(server.address, source)
    if spec.interface not in (None, interface):
        raise BenchError(
            f"packets to {server.host_and_port} leave by {interface}, not by {spec.interface}",
            where=f"testbed.host {spec.name}",
            fix=f"name {interface}, or add a route (ip route get {server.address} from {source} shows it)",
        )
    return LocalEndpoint(spec.name, interface, address)


def _source_address(interface: str | None, server: Iperf3Server) -> str | None:
    """Return the interface's address in the server's family; None lets the system choose."""
    if interface is None:
        return None
    family = socket.AF_INET6 if ":" in server.address else socket.AF_INET
    if found := netlink.interface_addresses_except_link_local(interface, family):
        return found[0]
    raise BenchError(
        f"{interface} has no address of the family of {server.host_and_port}",
        where="testbed.host",
        fix="name another interface (ip address lists them), or write address = ...",
    )
