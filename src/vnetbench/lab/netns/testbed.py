"""Testbeds of the lab `netns`, made of network namespaces."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from vnetbench import cleanup
from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_agents_in_namespaces
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import TESTBED_CHANGED
from vnetbench.lab import control_groups, knobs, netlink, path_probe, registry
from vnetbench.lab.cpus import TesterAndDeviceCpus, assign_vm_cpus
from vnetbench.lab.disruption import catalog
from vnetbench.lab.disruption.event import NetworkEvent
from vnetbench.lab.disruption.team_link_up import TeamLinkUp, check_rest_of_team
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.links.impaired_link import ImpairedLink, needs_delay_line
from vnetbench.lab.netns import builder, device_under_test, network_settings, open_vswitch, router
from vnetbench.lab.netns.bpf_team import BpfTestbedTeam
from vnetbench.lab.netns.open_vswitch_team import find_open_vswitch_team
from vnetbench.lab.netns.team_load import list_load_flows, predict_load
from vnetbench.lab.netns.testbed_team import TestbedTeam
from vnetbench.lab.netns.topology import (
    OPEN_VSWITCH,
    ROUTER,
    NetnsShape,
    NetnsTopology,
    Vm,
    make_topology,
    observed_devices,
)
from vnetbench.lab.testbed import StreamSettings
from vnetbench.study.factors.stream_counts import count_load_threads_per_vm
from vnetbench.study.factors.team_factors import teams_of_treatment
from vnetbench.study.factors.testbed_factors import (
    AUTO,
    CPU_QUOTA,
    DEVICE_CPUS,
    IP_VERSION,
    VM_CPUS,
    VM_PAIRS,
    VSWITCH,
)
from vnetbench.study.model import Level, TestbedSpec

SWITCH_AGENT = "sw"
"""Name of the agent in the switch namespace."""


class NetnsTestbed:
    """A running testbed of the lab `netns`. `create_testbed` makes it."""

    def __init__(self, topology: NetnsTopology) -> None:
        self.topology = topology
        self.agents: dict[str, AgentClient] = {}
        self.online_cpus = frozenset(os.sched_getaffinity(0))
        self.link = ImpairedLink(topology.testbed_name, topology)
        self.team: TestbedTeam | None = None
        self._network_event: NetworkEvent | None = None
        """The team as the last treatment configured it; None without a team."""
        self._sends_frames = False
        self._device_cpus_problem = ""
        """Why this machine cannot give the device its own CPUs; empty until that is found out."""

    @property
    def endpoints(self) -> tuple[Vm, ...]:
        """See Testbed."""
        return self.topology.endpoints

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """See Testbed."""
        self._sends_frames = DEVICE_CPUS.is_present_in(factors)
        try:
            return self._set_knobs_and_prove_once(factors, spec)
        except device_under_test.DeviceCpusUnavailable as refused:
            if factors[DEVICE_CPUS.name] != AUTO or self._device_cpus_problem:
                raise
            self._device_cpus_problem = ": ".join(filter(None, (refused.where, refused.what)))
            return self._set_knobs_and_prove_once(factors, spec)

    def _set_knobs_and_prove_once(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        partition = self._partition_cpus(factors)
        self.link.set_delay_for_path_proof(factors)
        # Agents may use all CPUs of the VM, so that they answer while a generator occupies the tester's.
        cpus = assign_vm_cpus(str(VM_CPUS.read_level(factors)), self.endpoints, self.online_cpus)
        settings = knobs.requested_knob_settings(factors, self.endpoints, cpus, self.online_cpus)
        settings += device_under_test.required_vm_knob_settings(self.topology, factors)
        # Open vSwitch removes the shaper of an interface that becomes a port: the bonds come first.
        self._create_team(factors, spec)
        effective = network_settings.set_treatment_knobs(
            settings, self.endpoints, factors, spec, self.topology, self.agents
        )
        if self.team is not None:
            self.team.shape_links(spec.shaper)
            states = self.team.read_states()
            self.team.prove(states)
            effective["teams"] = [self.team.effective_values(states)]
        if CPU_QUOTA.is_present_in(factors):
            pids = control_groups.agent_pids(self.endpoints, self.agents)
            quotas = control_groups.assign_vm_quotas(factors[CPU_QUOTA.name], self.endpoints)
            effective[CPU_QUOTA.name] = control_groups.set_quota_of_each_vm(
                self.topology.testbed_name, pids, quotas, count_load_threads_per_vm(factors)
            )
        if self._sends_frames:
            effective |= device_under_test.configure_for_frames(
                self.topology, {**self.agents, **self._switch_agent_by_port()}, factors, partition
            )
            if factors[DEVICE_CPUS.name] == AUTO and self._device_cpus_problem:
                effective["device_cpus_unavailable"] = self._device_cpus_problem
        ip_version = str(IP_VERSION.read_level(factors))
        if ip_version == "6":
            builder.restore_ipv6_addresses_and_routes(self.endpoints)
            if self.topology.shape.vswitch == ROUTER:
                router.assign_ipv6(self.topology)
        prove = partial(self.prove_paths, knobs.smallest_mtu(effective), ip_version)
        load = {**partition.tester_cpus_by_endpoint, "device": partition.device_cpus}
        effective |= self.link.prove_and_impair(factors, prove, load, self.online_cpus)
        path_probe.check_frame_size(
            factors, effective["path_mtu_proved"], self.endpoints[0].device.display_name
        )
        return effective

    def _create_team(self, factors: Mapping[str, Level], spec: TestbedSpec) -> None:
        """Bundle the links of the testbed's team, if it has one, as the treatment requests."""
        if self.topology.team is not None:
            (team,) = teams_of_treatment(spec, factors)
            if self.topology.shape.vswitch == OPEN_VSWITCH:
                self.team = find_open_vswitch_team(self.topology.testbed_name, self.topology.team, team)
            else:
                self.team = BpfTestbedTeam(
                    team, self.topology.team, self._start_switch_agent(), self.topology.switch_namespace
                )
            self.team.bundle_links()

    def prove_paths(self, mtu: int, ip_version: str = "4", delay_s: float = 0.0) -> dict[str, Any]:
        """Prove the path of every pair and return the proof as a trial stores it.

        Args:
            mtu: Packet size in bytes.
            ip_version: A level of the factor `ip_version`.
            delay_s: Delay that the link adds in each direction.

        Raises:
            TreatmentRefused: with the hop that stops the packets, and the fix.
        """
        pairs = list(
            zip(self.topology.endpoints_on_side("a"), self.topology.endpoints_on_side("b"), strict=True)
        )

        def hops(pair: int) -> list[path_probe.Hop]:
            return [path_probe.namespace_hop(each) for each in self.topology.hops(pair)]

        proof = path_probe.prove_paths(pairs, self.agents, mtu, ip_version, hops, link_delay_s=delay_s)
        return path_probe.stored_path_proof_values(mtu, proof)

    def machines_to_audit(self) -> dict[str, AgentClient]:
        """See Testbed. No adapter of this machine carries the load, and treatments set the namespaces."""
        return {}

    def observer_targets(self) -> Mapping[str, object] | None:
        """See Testbed. Includes the threads of Open vSwitch, of delay lines, and for frames those of NAPI."""
        interfaces, threads_besides_switch = observed_devices(self.topology), self.link.observer_threads()
        if self._sends_frames:
            threads_besides_switch += device_under_test.napi_threads_of_ports_and_vms(self.topology)
        if not interfaces:
            return {"threads": threads_besides_switch} if threads_besides_switch else None
        threads = open_vswitch.switch_threads(self.topology)
        return {
            "interfaces": list(interfaces),
            "namespace": str(netlink.NETNS_DIR / self.topology.switch_namespace),
            "threads": [
                *({"name": name, "tid": thread} for thread, name in threads.items()),
                *threads_besides_switch,
            ],
        }

    def interfaces_by_forwarding_agent(self) -> dict[str, tuple[str, ...]]:
        """See Testbed. This lab has none."""
        return {}

    def watched_interfaces(self, endpoint: Endpoint) -> tuple[str, ...]:
        """See Testbed. This lab has none."""
        return ()

    def reset_delay_line_counters_and_seeds(self) -> None:
        """See Testbed."""
        self.link.reset_counters_and_seeds()

    def read_delay_line_counters(self) -> list[dict[str, Any]]:
        """See Testbed."""
        return self.link.read_counters()

    def make_network_event(self, factors: Mapping[str, Level]) -> NetworkEvent:
        """See DisruptableTestbed."""
        self._network_event = catalog.make_network_event(self.topology, factors, self.team)
        return self._network_event

    def read_mac_moves(self) -> list[dict[str, int | None]]:
        """See Testbed."""
        return [] if self.team is None else [self.team.read_mac_moves()]

    def read_teams(self, *, has_lasting_flows: bool, streams: StreamSettings) -> list[dict[str, Any]]:
        """See Testbed."""
        if self.team is None:
            return []
        try:
            states = self.team.read_states()
            is_link_down = isinstance(self._network_event, TeamLinkUp)
            self.team.prove(check_rest_of_team(states) if is_link_down else states)
        except BenchError as error:
            raise TrialFailed(f"the team changed before the load: {error}", kind=TESTBED_CHANGED) from error
        described = self.team.effective_values(states)
        if not has_lasting_flows:
            return [described]
        predicted = predict_load(self.team, states, list_load_flows(self.topology))
        return [{**described, "predicted": predicted}]

    def next_hop_mac(self, endpoint: Endpoint, ip_version: str) -> str:
        """See Testbed."""
        return netlink.interface_mac(*self.topology.next_hop(endpoint).location)

    @property
    def rejected_frame_outcome(self) -> Literal["lost", "unsent"]:
        """See Testbed. A frame is lost if the queue behind the VM's interface is a port of the device."""
        return "lost" if device_under_test.device_ports(self.topology) else "unsent"

    def load_cpus_in_endpoint_numbering(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """See Testbed."""
        return self._partition_cpus(factors).tester_cpus_by_endpoint

    def _partition_cpus(self, factors: Mapping[str, Level]) -> TesterAndDeviceCpus:
        return device_under_test.divide_tester_and_device_cpus(
            self.topology, factors, self.online_cpus, bool(self._device_cpus_problem)
        )

    def _switch_agent_by_port(self) -> dict[str, AgentClient]:
        """Return the agent of the switch namespace for each of the device's ports, and start it if needed."""
        ports = device_under_test.device_ports(self.topology)
        return {port.name: self._start_switch_agent() for port in ports}

    def _start_switch_agent(self) -> AgentClient:
        """Return the agent of the switch namespace, and start it if needed."""
        if SWITCH_AGENT not in self.agents:
            start_agents_in_namespaces(
                {SWITCH_AGENT: self.topology.switch_namespace}, self.topology.testbed_name, self.agents
            )
        return self.agents[SWITCH_AGENT]

    def describe(self) -> Mapping[str, object]:
        """See Testbed."""
        if self.topology.shape.vswitch != OPEN_VSWITCH:
            return self.topology.describe()
        return {**self.topology.describe(), "open_vswitch": open_vswitch.installed_version()}

    def detach(self) -> None:
        """End the agents and keep the testbed until `lab down`."""
        cleanup.run_all_despite_errors(
            (
                *(agent.close for agent in self.agents.values()),
                lambda: registry.keep_after_exit(self.topology.testbed_name),
            )
        )

    def close(self) -> None:
        """See Testbed."""
        cleanup.run_all_despite_errors(
            (
                *(agent.close for agent in self.agents.values()),
                self.link.close,
                lambda: registry.remove_testbed_and_list_remaining_groups(self.topology.testbed_name),
            )
        )


class NetnsLab:
    """Creates testbeds of namespaces for one study."""

    max_testbeds = 4
    """Maximum number of testbeds kept, which limits their memory."""

    def __init__(self, spec: TestbedSpec, purpose: str) -> None:
        """Create testbeds for a study's testbed section; `vnetbench lab ls` shows `purpose`."""
        self._spec = spec
        self._purpose = purpose

    def testbed_shape(self, factors: Mapping[str, Level]) -> NetnsShape:
        """See Lab."""
        shape = NetnsShape(str(factors[VSWITCH.name]), int(factors[VM_PAIRS.name]), self._spec.uplink)
        for team in teams_of_treatment(self._spec, factors):
            shape = replace(shape, team_link_count=team.links)
        return replace(shape, delay_line=needs_delay_line(factors, make_topology("check", shape)))

    def create_testbed(self, name: str, shape: Hashable) -> NetnsTestbed:
        """See Lab."""
        assert isinstance(shape, NetnsShape)
        return create_testbed(name, shape, self._purpose)

    def remove_unfinished_testbeds(self, name_prefix: str) -> None:
        """See Lab."""
        for left in registry.list_registered_and_leftover_testbeds():
            if left.name.startswith(name_prefix):
                registry.remove_testbed_and_list_remaining_groups(left.name)


def create_testbed(name: str, shape: NetnsShape, purpose: str) -> NetnsTestbed:
    """Create a testbed and start an agent on every endpoint; raises as `Lab.create_testbed` does."""
    topology = make_topology(name, shape)
    registry.register_testbed(name, purpose, topology.describe())
    testbed = NetnsTestbed(topology)
    try:
        builder.build_network(topology, testbed.link.start_delay_lines)
        start_agents_in_namespaces({vm.name: vm.namespace for vm in topology.endpoints}, name, testbed.agents)
    except BaseException:
        testbed.close()
        raise
    return testbed
