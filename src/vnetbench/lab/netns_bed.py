"""The lab `netns`: testbeds of namespaces."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import Any

from vnetbench.agents.binary import agent_binary
from vnetbench.agents.client import AgentClient
from vnetbench.agents.starting import greet, started
from vnetbench.lab import knobs, netlink, netns, netns_knobs, path, registry
from vnetbench.lab.cpus import vm_cpus
from vnetbench.lab.description import Shape, Testbed, Vm, describe
from vnetbench.lab.endpoint import Endpoint
from vnetbench.study.model import Level, TestbedAsked


class NetnsBed:
    """A running testbed of the lab `netns`. Made by `raise_bed`."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.agents: dict[str, AgentClient] = {}
        self.online = frozenset(os.sched_getaffinity(0))

    @property
    def endpoints(self) -> tuple[Vm, ...]:
        """See Bed."""
        return self.testbed.endpoints

    def apply(self, factors: Mapping[str, Level], asked: TestbedAsked) -> dict[str, Any]:
        """See Bed."""
        cpus = self.cpus(str(factors.get("cpus", "any")))
        wanted = knobs.settings(factors, self.endpoints, cpus, self.online)
        effective = netns_knobs.apply(wanted, self.endpoints, factors, asked, self.testbed, self.agents)
        ip_version = str(factors.get("ip_version", "4"))
        if ip_version == "6":
            netns.restore_ipv6(self.endpoints)
        return {**effective, **self.prove(knobs.least_mtu(effective), ip_version)}

    def prove(self, mtu: int, ip_version: str = "4") -> dict[str, Any]:
        """Prove the path of every pair, as a trial keeps it; raises TreatmentRefused with hop and fix."""
        joined = list(zip(self.testbed.side("a"), self.testbed.side("b"), strict=True))

        def hops(pair: int) -> list[path.Hop]:
            return [path.hop_here(device) for device in self.testbed.hops(pair)]

        return path.as_found(mtu, path.prove(joined, self.agents, mtu, ip_version, hops))

    def watch(self) -> Mapping[str, object] | None:
        """See Bed: nothing."""
        return None

    def between(self) -> dict[str, tuple[str, ...]]:
        """See Bed: none."""
        return {}

    def next_hop(self, endpoint: Endpoint, ip_version: str) -> str:
        """See Bed."""
        return netlink.mac_of(*self.testbed.next_hop(endpoint).place)

    def cpus(self, level: str) -> Mapping[str, frozenset[int]]:
        """See Bed."""
        return vm_cpus(level, self.endpoints, self.online)

    def as_facts(self) -> Mapping[str, object]:
        """See Bed."""
        return self.testbed.as_facts()

    def leave(self) -> None:
        """End the agents, and let the testbed stand until `lab down`."""
        for agent in self.agents.values():
            agent.close()
        registry.keep(self.testbed.name)

    def close(self) -> None:
        """See Bed."""
        for agent in self.agents.values():
            agent.close()
        registry.remove(self.testbed.name)


class NetnsLab:
    """Testbeds of namespaces, for one study."""

    most_kept = 4
    """More testbeds than this stand side by side only at the cost of memory that trials might want."""

    def __init__(self, asked: TestbedAsked, purpose: str) -> None:
        """`purpose` says in `vnetbench lab ls` what the testbeds are for."""
        self._asked = asked
        self._purpose = purpose

    def shape(self, factors: Mapping[str, Level]) -> Shape:
        """See Lab."""
        return Shape(str(factors["vswitch"]), int(factors["pairs"]), self._asked.uplink)

    def raise_bed(self, name: str, shape: Hashable) -> NetnsBed:
        """See Lab."""
        assert isinstance(shape, Shape)
        return raise_bed(name, shape, self._purpose)

    def remove_left(self, prefix: str) -> None:
        """See Lab."""
        for left in registry.entries():
            if left.name.startswith(prefix):
                registry.remove(left.name)


def raise_bed(name: str, shape: Shape, purpose: str) -> NetnsBed:
    """Build a testbed and start an agent on every endpoint; raises as `Lab.raise_bed` does."""
    testbed = describe(name, shape)
    registry.register(name, purpose, testbed.as_facts())
    bed = NetnsBed(testbed)
    try:
        netns.build(testbed)
        for endpoint in testbed.endpoints:
            command = ["ip", "netns", "exec", endpoint.namespace, str(agent_binary()), "stdio"]
            bed.agents[endpoint.name] = AgentClient(endpoint.name, started(command, name))
        for agent in bed.agents.values():
            greet(agent)
    except BaseException:
        bed.close()
        raise
    return bed
