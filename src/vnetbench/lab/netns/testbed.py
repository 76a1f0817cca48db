"""The lab `netns`: testbeds of namespaces."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_inside
from vnetbench.lab import cpu_quota, knobs, netlink, path_probe, registry
from vnetbench.lab.cpus import Shares, vm_cpus
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.links.impaired_link import Link, needs_line
from vnetbench.lab.netns import builder, device_under_test, network_settings, open_vswitch, router
from vnetbench.lab.netns.topology import OPEN_VSWITCH, ROUTER, Shape, Testbed, Vm, describe, watched
from vnetbench.study.factors.testbed_factors import AUTO
from vnetbench.study.model import Level, TestbedAsked

SWITCH = "sw"
"""The agent in the switch namespace."""


class NetnsBed:
    """A running testbed of the lab `netns`. Made by `raise_bed`."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.agents: dict[str, AgentClient] = {}
        self.online = frozenset(os.sched_getaffinity(0))
        self.link = Link(testbed.name, testbed)
        self._is_for_frames = False
        self._why_not_apart = ""
        """What kept this machine from giving the device CPUs of its own, once that was found out."""

    @property
    def endpoints(self) -> tuple[Vm, ...]:
        """See Bed."""
        return self.testbed.endpoints

    def apply(self, factors: Mapping[str, Level], asked: TestbedAsked) -> dict[str, Any]:
        """See Bed."""
        self._is_for_frames = device_under_test.FACTOR in factors
        try:
            return self._apply(factors, asked)
        except device_under_test.NotApart as refused:
            if factors[device_under_test.FACTOR] != AUTO or self._why_not_apart:
                raise
            self._why_not_apart = ": ".join(filter(None, (refused.where, refused.what)))
            return self._apply(factors, asked)

    def _apply(self, factors: Mapping[str, Level], asked: TestbedAsked) -> dict[str, Any]:
        given = self._shares(factors)
        self.link.set_delay(factors)
        # Of the agents: what generates has the tester's CPUs for itself, and they must be heard all the same.
        cpus = vm_cpus(str(factors.get("cpus", "any")), self.endpoints, self.online)
        wanted = knobs.settings(factors, self.endpoints, cpus, self.online)
        wanted += device_under_test.settings_of_vms(self.testbed, factors)
        effective = network_settings.apply(wanted, self.endpoints, factors, asked, self.testbed, self.agents)
        if cpu_quota.FACTOR in factors:
            pids = cpu_quota.pids_of(self.endpoints, self.agents)
            asked_quota = factors[cpu_quota.FACTOR]
            effective[cpu_quota.FACTOR] = cpu_quota.apply(self.testbed.name, pids, asked_quota)
        if self._is_for_frames:
            effective |= device_under_test.place(
                self.testbed, {**self.agents, **self._at_ports()}, factors, given
            )
            if factors[device_under_test.FACTOR] == AUTO and self._why_not_apart:
                effective["device_not_apart"] = self._why_not_apart
        ip_version = str(factors.get("ip_version", "4"))
        if ip_version == "6":
            builder.restore_ipv6(self.endpoints)
            if self.testbed.shape.vswitch == ROUTER:
                router.give_ipv6(self.testbed)
        prove = partial(self.prove, knobs.least_mtu(effective), ip_version)
        load = {**given.tester, "device": given.device}
        effective |= self.link.impair(factors, prove, load, self.online)
        path_probe.check_frames(factors, effective["path_mtu_proved"], self.endpoints[0].device.label)
        return effective

    def prove(self, mtu: int, ip_version: str = "4", delay_s: float = 0.0) -> dict[str, Any]:
        """Prove the path of every pair, as a trial keeps it; raises TreatmentRefused with hop and fix.

        `delay_s` is that of the link.
        """
        joined = list(zip(self.testbed.side("a"), self.testbed.side("b"), strict=True))

        def hops(pair: int) -> list[path_probe.Hop]:
            return [path_probe.hop_here(each) for each in self.testbed.hops(pair)]

        found = path_probe.prove(joined, self.agents, mtu, ip_version, hops, delay_s=delay_s)
        return path_probe.as_found(mtu, found)

    def watch(self) -> Mapping[str, object] | None:
        """See Bed: what virtual switches have on the paths, threads of Open vSwitch, of delay lines, and of
        frames those that take them in."""
        interfaces, others = watched(self.testbed), self.link.threads()
        if self._is_for_frames:
            others += device_under_test.threads_of_ports(self.testbed)
        if not interfaces:
            return {"threads": others} if others else None
        threads = open_vswitch.threads(self.testbed.name)
        return {
            "interfaces": list(interfaces),
            "namespace": str(netlink.NETNS_DIR / self.testbed.switch_namespace),
            "threads": [*({"name": name, "tid": thread} for thread, name in threads.items()), *others],
        }

    def between(self) -> dict[str, tuple[str, ...]]:
        """See Bed: none."""
        return {}

    def begin_line_counts(self) -> None:
        """See Bed."""
        self.link.begin_counts()

    def line_counts(self) -> list[dict[str, Any]]:
        """See Bed."""
        return self.link.counts()

    def next_hop(self, endpoint: Endpoint, ip_version: str) -> str:
        """See Bed."""
        return netlink.mac_of(*self.testbed.next_hop(endpoint).place)

    @property
    def refused_frames(self) -> str:
        """See Bed: behind a VM's interface is a port of what stands between, if that has any."""
        return "lost" if device_under_test.ports(self.testbed) else "unsent"

    def cpus(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """See Bed."""
        return self._shares(factors).tester

    def _shares(self, factors: Mapping[str, Level]) -> Shares:
        return device_under_test.shares_of(self.testbed, factors, self.online, self._why_not_apart)

    def _at_ports(self) -> dict[str, AgentClient]:
        """The agent that sets what is in the switch namespace, by the labels of the device's ports."""
        ports = device_under_test.ports(self.testbed)
        if ports and SWITCH not in self.agents:
            start_inside({SWITCH: self.testbed.switch_namespace}, self.testbed.name, self.agents)
        return {port.name: self.agents[SWITCH] for port in ports}

    def as_facts(self) -> Mapping[str, object]:
        """See Bed."""
        if self.testbed.shape.vswitch != OPEN_VSWITCH:
            return self.testbed.as_facts()
        return {**self.testbed.as_facts(), "open_vswitch": open_vswitch.installed()}

    def leave(self) -> None:
        """End the agents, and let the testbed stand until `lab down`."""
        for agent in self.agents.values():
            agent.close()
        registry.keep(self.testbed.name)

    def close(self) -> None:
        """See Bed."""
        for agent in self.agents.values():
            agent.close()
        self.link.close()
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
        shape = Shape(str(factors["vswitch"]), int(factors["pairs"]), self._asked.uplink)
        return replace(shape, line=needs_line(factors, describe("check", shape)))

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
        builder.build(testbed, bed.link.start_lines)
        start_inside({endpoint.name: endpoint.namespace for endpoint in testbed.endpoints}, name, bed.agents)
    except BaseException:
        bed.close()
        raise
    return bed
