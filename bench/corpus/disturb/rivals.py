"""Other load on the same link: agents of our own in VMs of their own, or beside the load in the same VMs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

from bench.corpus.scene import Disturb, Scene
from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_agents_in_namespaces, start_observer
from vnetbench.campaign.trial import TrialAbandoned, TrialLoad, measure_trial
from vnetbench.lab import netlink
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetnsTopology, Vm, make_topology
from vnetbench.lab.netns.testbed import NetnsTestbed
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM

CARRIED = "rivals_bytes"
"""What it tells: the bytes that the rivals got through, by their own count."""
_LEAD_S, _LONGER_S, _SAMPLED_S = 0.3, 60.0, 0.2


def rivals(levels: Mapping[str, Level], workload: str = TCP_STREAM, *, inside: bool = False) -> Disturb:
    """A load of these levels, from more VMs on the same virtual switches; `inside`: from those of pair 1."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        testbed = scene.bed.topology
        assert isinstance(testbed, NetnsTopology)
        ends = testbed.endpoints[:2] if inside else _more_vms(testbed)
        rival = NetnsTestbed(replace(testbed, endpoints=ends))
        observer = None
        try:
            if not inside:
                _plug_in(testbed, ends)
            start_agents_in_namespaces({end.name: end.namespace for end in ends}, testbed.name, rival.agents)
            observer = start_observer(testbed.name)
            load = TrialLoad(complete_levels(levels, workload), _LONGER_S, _SAMPLED_S, workload)
            with _at_work(scene, rival, observer, load):
                yield
        finally:
            for agent in (*rival.agents.values(), *([observer] if observer else ())):
                agent.close()
            if not inside:
                _unplug(testbed, ends)

    return disturb


@contextmanager
def _at_work(scene: Scene, rival: NetnsTestbed, observer: AgentClient, load: TrialLoad) -> Iterator[None]:
    is_over = threading.Event()

    def run() -> int:
        try:
            sides = measure_trial(rival, observer, load, is_over.is_set).endpoints
        except TrialAbandoned as left:
            sides = left.endpoints
        return sum(sample.bytes_received for side in sides for sample in side.samples)

    with ThreadPoolExecutor(1, "rivals") as executor:
        at_work = executor.submit(run)
        try:
            wait([at_work], _LEAD_S)
            yield
        finally:
            is_over.set()
    scene.told[CARRIED] += at_work.result()


def _more_vms(testbed: NetnsTopology) -> tuple[Vm, ...]:
    """A pair that the testbed does not have."""
    shape = replace(testbed.shape, pairs=testbed.shape.pairs + 1)
    return make_topology(testbed.name, shape).endpoints[-2:]


def _plug_in(testbed: NetnsTopology, ends: tuple[Vm, ...]) -> None:
    for end in ends:
        builder.add_namespace(end.namespace)
    with netlink.open_in_namespace(testbed.switch_namespace) as switch:
        for end, vswitch in zip(ends, (testbed.vswitches[0], testbed.vswitches[-1]), strict=True):
            builder.add_vm_port(switch, end, netlink.interface_index(switch, vswitch))
    for end in ends:
        builder.assign_addresses(end)


def _unplug(testbed: NetnsTopology, ends: tuple[Vm, ...]) -> None:
    """Also after half of it. A port that is left to its VM's namespace would go only some time after that."""
    with netlink.open_in_namespace(testbed.switch_namespace) as switch:
        for end in ends:
            for index in switch.link_lookup(ifname=end.name):
                switch.link("del", index=index)
    for end in ends:
        netlink.remove_namespace(end.namespace)
