"""Of the lab `hosts`: an iperf3 server and this machine. Names resolved, routes looked up, nothing set."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.study.file.host_value_types import split
from vnetbench.study.model import HostAsked, TestbedAsked
from vnetbench.study.rules.lab_checks import HERE


@dataclass(frozen=True)
class Here:
    """This machine as an endpoint."""

    name: str
    interface: str
    address: str
    """Where the load comes from."""


@dataclass(frozen=True)
class Server:
    """An endpoint that only has an iperf3 server."""

    name: str
    listens: str
    """As the study says it, `host:port`."""
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.name} ({self.listens})"


@dataclass(frozen=True)
class Hosts:
    """A testbed of two machines that exist."""

    here: Here
    server: Server

    def __str__(self) -> str:
        return f"{self.here.name} to {self.server.name}"

    def as_facts(self) -> dict[str, object]:
        """The description for the results file."""
        return {
            "name": str(self),
            "lab": "hosts",
            "endpoints": [
                {"name": self.here.name, "side": "a", "address": self.here.address,
                 "interface": self.here.interface},
                {"name": self.server.name, "side": "b", "address": self.server.address,
                 "port": self.server.port, "speaks": "iperf3"},
            ],
            "path": f"{self.here.interface} to {self.server.listens}",
        }  # fmt: skip


def find(asked: TestbedAsked) -> Hosts:
    """The testbed of a study that has passed its checks; raises BenchError for what cannot be reached."""
    server = next(_located(host) for host in asked.hosts if host.iperf3)
    local = next((host for host in asked.hosts if host.local), HostAsked(HERE, local=True))
    return Hosts(_own(local, server), server)


def _located(host: HostAsked) -> Server:
    name, port = split(str(host.iperf3))
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BenchError(
            f"{name} has no address: {error.strerror or error}",
            where=f"testbed.host {host.name}",
            fix="write a name that this machine can resolve (getent hosts NAME), or its address",
        ) from error
    return Server(host.name, str(host.iperf3), str(found[0][4][0]), port)


def _own(asked: HostAsked, server: Server) -> Here:
    source = asked.address or _address_of(asked.interface, server)
    interface, address = netlink.route_to(server.address, source)
    if asked.interface not in (None, interface):
        raise BenchError(
            f"packets to {server.listens} leave by {interface}, not by {asked.interface}",
            where=f"testbed.host {asked.name}",
            fix=f"name {interface}, or add a route (ip route get {server.address} from {source} shows it)",
        )
    return Here(asked.name, interface, address)


def _address_of(interface: str | None, server: Server) -> str | None:
    """The interface's own address of the server's family; None: as the system chooses it."""
    if interface is None:
        return None
    family = socket.AF_INET6 if ":" in server.address else socket.AF_INET
    if found := netlink.addresses_of(interface, family):
        return found[0]
    raise BenchError(
        f"{interface} has no address from which {server.listens} could be reached",
        where="testbed.host",
        fix="name another interface (ip address lists them), or write address =",
    )
