"""Competing load on the same link, from additional VMs or from the VMs of the measured load."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_agents_in_namespaces, start_observer
from vnetbench.campaign.trial import TrialAbandoned, TrialLoad, measure_trial
from vnetbench.lab import netlink
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.testbed import NetnsTestbed
from vnetbench.lab.netns.topology import NetnsTopology, Vm, make_topology
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM

COMPETING_BYTES = "rivals_bytes"
"""Name of a measurement: the bytes that the competing load received, by its own counters."""
_LEAD_TIME_S = 0.3
"""Time for which the competing load runs before the trial starts."""
_MAX_DURATION_S = 60.0
_SAMPLE_INTERVAL_S = 0.2


def competing_load(
    levels: Mapping[str, Level], workload: str = TCP_STREAM, *, in_same_vms: bool = False
) -> Disturbance:
    """Run a load with these levels from an additional pair of VMs, or from the VMs of pair 1."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        testbed = target.testbed.topology
        assert isinstance(testbed, NetnsTopology)
        ends = testbed.endpoints[:2] if in_same_vms else _describe_additional_vms(testbed)
        competing_testbed = NetnsTestbed(replace(testbed, endpoints=ends))
        observer = None
        try:
            if not in_same_vms:
                _connect_vms(testbed, ends)
            start_agents_in_namespaces(
                {end.name: end.namespace for end in ends}, testbed.testbed_name, competing_testbed.agents
            )
            observer = start_observer(testbed.testbed_name)
            load = TrialLoad(complete_levels(levels, workload), _MAX_DURATION_S, _SAMPLE_INTERVAL_S, workload)
            with _run_load(target, competing_testbed, observer, load):
                yield
        finally:
            for agent in (*competing_testbed.agents.values(), *([observer] if observer else ())):
                agent.close()
            if not in_same_vms:
                _disconnect_vms(testbed, ends)

    return disturb


@contextmanager
def _run_load(
    target: DisturbanceTarget, competing_testbed: NetnsTestbed, observer: AgentClient, load: TrialLoad
) -> Iterator[None]:
    is_over = threading.Event()

    def run() -> int:
        try:
            endpoints = measure_trial(competing_testbed, observer, load, is_over.is_set).endpoints
        except TrialAbandoned as abandoned:
            endpoints = abandoned.endpoints
        return sum(sample.bytes_received for endpoint in endpoints for sample in endpoint.samples)

    with ThreadPoolExecutor(1, "competing load") as executor:
        running_load = executor.submit(run)
        try:
            wait([running_load], _LEAD_TIME_S)
            yield
        finally:
            is_over.set()
    target.measurements[COMPETING_BYTES] += running_load.result()


def _describe_additional_vms(testbed: NetnsTopology) -> tuple[Vm, ...]:
    """Return the topology's next pair of VMs, which the testbed does not contain."""
    shape = replace(testbed.shape, pairs=testbed.shape.pairs + 1)
    return make_topology(testbed.testbed_name, shape).endpoints[-2:]


def _connect_vms(testbed: NetnsTopology, ends: tuple[Vm, ...]) -> None:
    for end in ends:
        builder.add_namespace(end.namespace)
    with netlink.open_in_namespace(testbed.switch_namespace) as switch:
        for end, vswitch in zip(ends, (testbed.vswitches[0], testbed.vswitches[-1]), strict=True):
            builder.add_vm_port(switch, end, netlink.interface_index(switch, vswitch))
    for end in ends:
        builder.configure_vm_network(end)


def _disconnect_vms(testbed: NetnsTopology, ends: tuple[Vm, ...]) -> None:
    """Remove the VMs, also partly connected ones.

    This removes the ports first, since the kernel removes them only some time after their VM's namespace.
    """
    with netlink.open_in_namespace(testbed.switch_namespace) as switch:
        for end in ends:
            for index in switch.link_lookup(ifname=end.name):
                switch.link("del", index=index)
    for end in ends:
        netlink.remove_namespace(end.namespace)
