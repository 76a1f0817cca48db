"""The ground that every tool runs on: two VMs on a bridge, their CPUs, and counters that no tool keeps."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from vnetbench.agents.client import AgentClient
from vnetbench.agents.starting import start_observer
from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.description import Shape, Vm
from vnetbench.lab.netns_bed import NetnsBed, raise_bed
from vnetbench.study.cpus import spell_cpu_list
from vnetbench.study.factors import complete
from vnetbench.study.model import Level, TestbedAsked

NAME = f"beside-peers-{os.getpid()}"
"""Of the testbed; whoever removes one ends what runs under its name, and there may be two benches."""
CONGESTION_CONTROL = "cubic"
LONGEST_RUN_S = 120.0
TCP_HEADERS = 14 + 20 + 20 + 12
"""Of each packet as an interface counts it: Ethernet, IPv4, TCP with timestamps."""
_MAIN_TABLE = 254
_FIRST_PORT = 20000
_PORTS_A_RUN = 16

T = TypeVar("T")


@dataclass(frozen=True)
class Counted:
    """What the kernel counted while a tool ran; the same counters for every tool."""

    cycles: float
    """Of the whole host."""
    tcp_payload_bytes: int
    """That came to the sink's interface."""
    datagrams_sent: int
    """Handed to the kernel in the source."""
    datagrams_taken: int
    """Taken from the kernel by the sink's program."""


class Ground:
    """Two VMs on a bridge with an agent in each, and one that observes the host. Made by `raised`."""

    def __init__(self, bed: NetnsBed, observer: AgentClient) -> None:
        self.bed = bed
        self.observer = observer
        self.source, self.sink = bed.testbed.endpoints
        self._cpus: dict[str, str] = {}
        self._ports = itertools.cycle(range(_FIRST_PORT, 32000, _PORTS_A_RUN))

    def place(self, cpus: str, **levels: Level) -> None:
        """Give the two VMs their CPUs ("0/1", as the factor has it) and set further knobs, read back."""
        self.bed.apply(complete({"cpus": cpus, **levels}), TestbedAsked())
        first, _, second = cpus.partition("/")
        self._cpus = {self.source.name: first, self.sink.name: second or first}
        for endpoint in (self.source, self.sink):
            _set_congestion_control(endpoint)

    def cpus_of(self, endpoint: Vm) -> str:
        """The CPU list of a VM."""
        return self._cpus[endpoint.name]

    def free_port(self) -> int:
        """The first of 16 ports that no other run has lately used."""
        return next(self._ports)

    def watched(self, work: Callable[[], T]) -> tuple[T, Counted]:
        """Do `work`, and return what came of it with what the kernel counted meanwhile."""
        watch = secrets.token_hex(4)
        self.observer.forget_events()
        before = self._counters()
        self.observer.call(
            "trial.prepare", trial=watch, workload="observe", streams=[], interval_s=LONGEST_RUN_S
        )
        self.observer.call("trial.start", trial=watch, duration_s=LONGEST_RUN_S)
        try:
            done = work()
        finally:
            self.observer.call("trial.stop", trial=watch)
        after = self._counters()
        moved = {name: after[name] - before[name] for name in before}
        return done, Counted(
            self._cycles(watch),
            moved["rx_bytes"] - TCP_HEADERS * moved["rx_packets"],
            moved["OutDatagrams"],
            moved["InDatagrams"],
        )

    def _cycles(self, watch: str) -> float:
        while True:
            method, params = self.observer.events.get(timeout=LONGEST_RUN_S)
            if method == "trial.end" and params["trial"] == watch:
                return float(params["counters"]["cycles"])

    def _counters(self) -> dict[str, int]:
        sent = netlink.do_inside(self.source.namespace, _udp_counters)
        taken = netlink.do_inside(self.sink.namespace, _udp_counters)
        rx_bytes, rx_packets = netlink.do_inside(self.sink.namespace, lambda: received(self.sink.interface))
        return {
            "rx_bytes": rx_bytes,
            "rx_packets": rx_packets,
            "OutDatagrams": sent["OutDatagrams"],
            "InDatagrams": taken["InDatagrams"],
        }


@contextmanager
def raised() -> Iterator[Ground]:
    """The ground, removed again at the end."""
    observer = start_observer(NAME)
    try:
        bed = raise_bed(NAME, Shape(), "make bench")
        try:
            yield Ground(bed, observer)
        finally:
            bed.close()
    finally:
        observer.close()


def placement(each: int) -> str:
    """CPUs for the two VMs as the factor `cpus` has it: `each` CPUs for either side, as far as there are."""
    online = sorted(os.sched_getaffinity(0))
    each = max(1, min(each, len(online) // 2))
    first, second = online[:each], online[each : 2 * each] or online
    return f"{spell_cpu_list(first)}/{spell_cpu_list(second)}"


def _set_congestion_control(endpoint: Vm) -> None:
    """By the route: some tools cannot be told one, and the sysctl takes only what the host's root allows."""
    with netlink.in_namespace(endpoint.namespace) as ipr:
        index = netlink.index_of(ipr, endpoint.interface)
        (route,) = ipr.get_routes(family=socket.AF_INET, oif=index, table=_MAIN_TABLE)
        network = f"{route.get_attr('RTA_DST')}/{route['dst_len']}"
        ipr.route(
            "replace", dst=network, oif=index, prefsrc=endpoint.address, scope="link", proto="kernel",
            metrics={"cc_algo": CONGESTION_CONTROL},
        )  # fmt: skip
        (route,) = ipr.get_routes(family=socket.AF_INET, oif=index, table=_MAIN_TABLE)
        found = netlink.attribute(route, "RTA_METRICS", "RTAX_CC_ALGO")
    if found != CONGESTION_CONTROL:
        raise BenchError(
            f"the route's congestion control is {found}, not {CONGESTION_CONTROL}",
            where=endpoint.name,
            fix=f"modprobe tcp_{CONGESTION_CONTROL}",
        )


def _udp_counters() -> Mapping[str, int]:
    """The line `Udp` of /proc/net/snmp (RFC 4113) of this thread's namespace."""
    lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("Udp:"))
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def received(interface: str) -> tuple[int, int]:
    """Bytes and packets that came to an interface of this thread's namespace (proc_net(5), dev)."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            fields = numbers.split()
            return int(fields[0]), int(fields[1])
    raise LookupError(interface)
