"""The testbed for all tools: two VMs on a bridge, their CPUs, and counters independent of the tools."""

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
from vnetbench.agents.launch import start_observer
from vnetbench.errors import BenchError
from vnetbench.lab import netlink
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape, Vm
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec

TESTBED_NAME = f"bench-peers-{os.getpid()}"
"""Name of the testbed. It contains the process ID, since removal ends all processes of that name."""
CONGESTION_CONTROL = "cubic"
MAX_RUN_S = 120.0
TCP_HEADERS = 14 + 20 + 20 + 12
"""Header bytes of a packet as an interface counts them: Ethernet, IPv4, TCP with timestamps."""
_MAIN_TABLE = 254
_FIRST_PORT = 20000
_PORTS_PER_RUN = 16

T = TypeVar("T")


@dataclass(frozen=True)
class KernelCounters:
    """Kernel counters during a run, the same for every tool."""

    cycles: float
    """CPU cycles of the whole host."""
    tcp_payload_bytes: int
    """Payload bytes that arrived at the sink's interface."""
    datagrams_sent: int
    """Datagrams that the source passed to its kernel."""
    datagrams_received: int
    """Datagrams that the sink's program received from its kernel."""


class PeerTestbed:
    """Two VMs on a bridge with an agent in each, and an observer of the host (`create_peer_testbed`)."""

    def __init__(self, testbed: NetnsTestbed, observer: AgentClient) -> None:
        self.testbed = testbed
        self.observer = observer
        self.source, self.sink = testbed.topology.endpoints
        self._cpus: dict[str, str] = {}
        self.levels: dict[str, Level] = {}
        """Levels of `assign_cpus`, which each of our own trials needs too: they place its threads."""
        self._ports = itertools.cycle(range(_FIRST_PORT, 32000, _PORTS_PER_RUN))

    def assign_cpus(self, cpus: str, **levels: Level) -> None:
        """Assign CPUs to the two VMs ("0/1", as for the factor `cpus`) and set further knobs."""
        self.levels = {"cpus": cpus, **levels}
        self.testbed.set_knobs_and_prove_paths(complete_levels(self.levels), TestbedSpec())
        first, _, second = cpus.partition("/")
        self._cpus = {self.source.name: first, self.sink.name: second or first}
        for endpoint in (self.source, self.sink):
            _set_congestion_control(endpoint)

    def cpu_list(self, endpoint: Vm) -> str:
        """Return the CPU list of a VM."""
        return self._cpus[endpoint.name]

    def free_port(self) -> int:
        """Return the first of 16 ports that no recent run used."""
        return next(self._ports)

    def observe_run(self, work: Callable[[], T]) -> tuple[T, KernelCounters]:
        """Run `work` and return its result with the kernel's counters during the run."""
        observation_id = secrets.token_hex(4)
        self.observer.discard_events()
        before = self._read_counters()
        self.observer.call(
            "trial.prepare", trial=observation_id, workload="observe", streams=[], interval_s=MAX_RUN_S
        )
        self.observer.call("trial.start", trial=observation_id, duration_s=MAX_RUN_S)
        try:
            result = work()
        finally:
            self.observer.call("trial.stop", trial=observation_id)
        after = self._read_counters()
        difference = {name: after[name] - before[name] for name in before}
        return result, KernelCounters(
            self._wait_for_cycles(observation_id),
            difference["rx_bytes"] - TCP_HEADERS * difference["rx_packets"],
            difference["OutDatagrams"],
            difference["InDatagrams"],
        )

    def _wait_for_cycles(self, observation_id: str) -> float:
        while True:
            method, params = self.observer.events.get(timeout=MAX_RUN_S)
            if method == "trial.end" and params["trial"] == observation_id:
                return float(params["counters"]["cycles"])

    def _read_counters(self) -> dict[str, int]:
        source_counters = netlink.run_in_namespace(self.source.namespace, _udp_counters)
        sink_counters = netlink.run_in_namespace(self.sink.namespace, _udp_counters)
        rx_bytes, rx_packets = netlink.run_in_namespace(
            self.sink.namespace, lambda: interface_counters(self.sink.interface)
        )
        return {
            "rx_bytes": rx_bytes,
            "rx_packets": rx_packets,
            "OutDatagrams": source_counters["OutDatagrams"],
            "InDatagrams": sink_counters["InDatagrams"],
        }


@contextmanager
def create_peer_testbed() -> Iterator[PeerTestbed]:
    """Create the testbed and remove it at the end."""
    observer = start_observer(TESTBED_NAME)
    try:
        testbed = create_testbed(TESTBED_NAME, NetnsShape(), "make bench")
        try:
            yield PeerTestbed(testbed, observer)
        finally:
            testbed.close()
    finally:
        observer.close()


def split_cpus(cpus_per_vm: int) -> str:
    """Return CPUs for the two VMs in the form of the factor `cpus`, at most `cpus_per_vm` for each VM."""
    online = sorted(os.sched_getaffinity(0))
    count = max(1, min(cpus_per_vm, len(online) // 2))
    first, second = online[:count], online[count : 2 * count] or online
    return f"{format_cpu_list(first)}/{format_cpu_list(second)}"


def _set_congestion_control(endpoint: Vm) -> None:
    """Set the congestion control of the route.

    Some tools have no option for it, and the sysctl accepts only algorithms that the host's root allows.
    """
    with netlink.open_in_namespace(endpoint.namespace) as ipr:
        index = netlink.interface_index(ipr, endpoint.interface)
        (route,) = ipr.get_routes(family=socket.AF_INET, oif=index, table=_MAIN_TABLE)
        network = f"{route.get_attr('RTA_DST')}/{route['dst_len']}"
        ipr.route(
            "replace", dst=network, oif=index, prefsrc=endpoint.address, scope="link", proto="kernel",
            metrics={"cc_algo": CONGESTION_CONTROL},
        )  # fmt: skip
        (route,) = ipr.get_routes(family=socket.AF_INET, oif=index, table=_MAIN_TABLE)
        actual = netlink.nested_attribute(route, "RTA_METRICS", "RTAX_CC_ALGO")
    if actual != CONGESTION_CONTROL:
        raise BenchError(
            f"the route's congestion control is {actual}, not {CONGESTION_CONTROL}",
            where=endpoint.name,
            fix=f"run modprobe tcp_{CONGESTION_CONTROL}",
        )


def _udp_counters() -> Mapping[str, int]:
    """Return the line `Udp` of /proc/net/snmp (RFC 4113) in this thread's namespace."""
    lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("Udp:"))
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def interface_counters(interface: str) -> tuple[int, int]:
    """Return received bytes and packets of an interface in this thread's namespace (proc_net(5), dev)."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            fields = numbers.split()
            return int(fields[0]), int(fields[1])
    raise LookupError(interface)
