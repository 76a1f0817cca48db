"""A running testbed of guests: applies treatments, proves paths and watches the guests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from vnetbench import cleanup
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import TESTBED_CHANGED
from vnetbench.lab import knobs, netlink, path_probe, registry
from vnetbench.lab.disruption import guest_catalog
from vnetbench.lab.disruption.event import NetworkEvent
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest import cpu_pinning
from vnetbench.lab.guest.hardware import KVM
from vnetbench.lab.guest.launcher import RunningGuest, close_guests
from vnetbench.lab.guest.migration import GuestMigration
from vnetbench.lab.guest.migration_ports import MigrationPorts
from vnetbench.lab.guest.open_vswitch_end import OpenVswitchEnd
from vnetbench.lab.guest.qemu_process import QemuProcess
from vnetbench.lab.guest.team_events import make_guest_team_event
from vnetbench.lab.guest.team_flows import list_stream_flows
from vnetbench.lab.guest.team_topology import GuestTeamTopology
from vnetbench.lab.guest.testbed_team import GuestTestbedTeam
from vnetbench.lab.guest.topology import TAPS, Guest, GuestTopology
from vnetbench.lab.guest.watchdog import HungGuestKiller
from vnetbench.lab.knobs import KnobSetting
from vnetbench.lab.links.impaired_link import ImpairedLink
from vnetbench.lab.netns import builder, network_settings
from vnetbench.lab.netns.team_load import predict_load
from vnetbench.lab.netns.testbed_team import TeamStates
from vnetbench.lab.netns.topology import NetDevice, observed_devices
from vnetbench.lab.testbed import StreamSettings, endpoint_pairs, query_mac_address
from vnetbench.study.factors.guest_factors import EMULATOR_PIN, VCPU_PIN
from vnetbench.study.factors.team_factors import teams_of_treatment
from vnetbench.study.factors.testbed_factors import IP_VERSION, MTU
from vnetbench.study.model import Level, TestbedSpec

MAX_PATH_PROOF_ROUNDS = 8
"""Maximum number of proof rounds of one second each.

An e1000 loses its link when its MTU or rings are set, and its driver checks the link every two seconds.
"""
StartMigrationTarget = Callable[[RunningGuest, Guest], QemuProcess]
"""Starts a QEMU that waits for a running guest, which gets the ports of the second argument."""
FACTORS_FOR_HOST_ENDPOINTS = (MTU.name,)
"""Factors that also apply to the host's own endpoints; all others apply to the guests' adapters only."""


class GuestTestbed:
    """A running testbed of the lab `qemu`. `QemuLab` makes it."""

    def __init__(
        self,
        topology: GuestTopology,
        facts: Mapping[str, object],
        before_use: Callable[[GuestTestbed], None],
        start_migration_target: StartMigrationTarget,
    ) -> None:
        """Wrap a topology whose guests do not run yet.

        Args:
            topology: What the testbed consists of.
            facts: Facts about the guests for the results file.
            before_use: Called before each treatment is applied.
            start_migration_target: Starts a QEMU that waits for a guest.
        """
        self.topology = topology
        self.agents: dict[str, AgentClient] = {}
        self.online_cpus = frozenset(os.sched_getaffinity(0))
        self.running: list[RunningGuest] = []
        self.link = ImpairedLink(topology.testbed_name, topology)
        self.team: GuestTestbedTeam | None = None
        """The team as the last treatment configured it; None without a team."""
        self._open_vswitch_end: OpenVswitchEnd | None = None
        self.is_closed = False
        self._facts = facts
        self._before_use = before_use
        self._start_migration_target = start_migration_target
        self._watchdog: HungGuestKiller | None = None
        self._is_paused = False
        self._ip_version = "4"

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """See Testbed."""
        return self.topology.endpoints

    def adopt_guests(self, running: Sequence[RunningGuest]) -> None:
        """Take over the running guests."""
        self.running = list(running)
        self.agents |= {each.guest.name: each.agent for each in running}
        self._watchdog = HungGuestKiller()
        for each in running:
            self._watchdog.add(each.process, each.transport)

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """See Testbed."""
        self._before_use(self)
        threads = self._find_threads()
        self.link.set_delay_for_path_proof(factors)
        if isinstance(self.topology, GuestTeamTopology):
            (team,) = teams_of_treatment(spec, factors)
            # The bonds come first: knobs of an interface of this treatment may be theirs.
            assert self.topology.team is not None
            self._open_vswitch_end = self._open_vswitch_end or OpenVswitchEnd(self.topology)
            self.team = GuestTestbedTeam(
                team, self.topology.team, self.topology, self.agents, self._open_vswitch_end
            )
            self.team.bundle_links()
        pinned_cpus = cpu_pinning.pin_threads(*cpu_pinning.pinning_levels(factors), threads, self.online_cpus)
        endpoints = self._knob_endpoints()
        agents = {end.name: self.agents[end.name.partition(" ")[0]] for end in endpoints}
        settings = self._knob_settings(factors, endpoints)
        effective = network_settings.set_treatment_knobs(
            settings, endpoints, factors, spec, self.topology, agents
        )
        if self.team is not None:
            self.team.shape_links(spec.shaper)
            # Knobs may have taken a member's link for a moment.
            self.team.wait_until_ready()
            effective["teams"] = [self.team.effective_values(self._read_proved_states(self.team))]
        ip_version = self._ip_version = str(IP_VERSION.read_level(factors))
        if ip_version == "6":
            builder.restore_ipv6_addresses_and_routes(self.topology.vms)
        prove = partial(self.prove_paths, knobs.smallest_mtu(effective), ip_version)
        load_cpus = self._host_cpus_by_guest(factors, threads)
        proved = self.link.prove_and_impair(factors, prove, load_cpus, self.online_cpus)
        path_probe.check_frame_size(factors, proved["path_mtu_proved"], self.endpoints[0].name)
        pinned_values = {
            knob: knobs.merge_if_equal(where) for knob, where in pinned_cpus.items() if knob in factors
        }
        return {**effective, **pinned_values, **proved, "accelerator": self._facts["accelerator"]}

    def prove_paths(self, mtu: int, ip_version: str = "4", delay_s: float = 0.0) -> dict[str, Any]:
        """Prove the path of every pair and return the proof as a trial stores it.

        Args:
            mtu: Packet size in bytes.
            ip_version: A level of the factor `ip_version`.
            delay_s: Delay that the link adds in each direction.

        Raises:
            TreatmentRefused: with the hop that stops the packets, and the fix.
        """
        proved = path_probe.prove_paths(
            endpoint_pairs(self), self.agents, mtu, ip_version, self._hops, MAX_PATH_PROOF_ROUNDS, delay_s
        )
        return path_probe.stored_path_proof_values(mtu, proved)

    def _host_cpus_by_guest(
        self, factors: Mapping[str, Level], threads: Sequence[cpu_pinning.GuestThreads]
    ) -> dict[str, frozenset[int]]:
        """Return the host's CPUs that each guest's threads may use."""
        pin, emulator_pin = cpu_pinning.pinning_levels(factors)
        if pin == cpu_pinning.ANY:
            return dict.fromkeys((each.guest_name for each in threads), self.online_cpus)
        vcpus = cpu_pinning.assign_vcpu_cpus(pin, threads, self.online_cpus)
        emulators = cpu_pinning.assign_emulator_cpus(emulator_pin, vcpus, self.online_cpus)
        return {
            guest: frozenset[int]().union(*own, emulators[guest] if emulator_pin != cpu_pinning.ANY else ())
            for guest, own in vcpus.items()
        }

    def machines_to_audit(self) -> dict[str, AgentClient]:
        """See Testbed. All guests in the same place are alike, so the first one stands for them."""
        first = {each.side: each.name for each in reversed(self.topology.guests)}
        names = sorted(first.values())
        return {f"{name} ({self.topology.shape.adapter})": self.agents[name] for name in names}

    def observer_targets(self) -> dict[str, object]:
        """See Testbed. Includes QEMU's permanent threads, the switches' ports, and the guests' KVM."""
        threads = [
            {"name": name, "tid": thread}
            for guest in self._find_threads()
            for name, thread in guest.permanent_thread_ids_by_name().items()
        ]
        return {
            "threads": [*threads, *self.link.observer_threads()],
            "interfaces": [*observed_devices(self.topology), *self.topology.vswitches],
            "namespace": str(netlink.NETNS_DIR / self.topology.switch_namespace),
            "kvm_pids": [each.process.pid for each in self.running]
            if self._facts["accelerator"] == KVM
            else [],
        }

    def interfaces_by_forwarding_agent(self) -> dict[str, tuple[str, ...]]:
        """See Testbed. These are the guests that route or bridge."""
        guests = (guest for guest in self.topology.guests if not guest.side)
        return {guest.name: tuple(nic.guest_interface for nic in guest.nics) for guest in guests}

    def watched_interfaces(self, endpoint: Endpoint) -> tuple[str, ...]:
        """See Testbed. This lab has none."""
        return ()

    def reset_delay_line_counters_and_seeds(self) -> None:
        """See Testbed."""
        self.link.reset_counters_and_seeds()

    def read_delay_line_counters(self) -> list[dict[str, Any]]:
        """See Testbed."""
        return self.link.read_counters()

    def read_mac_moves(self) -> list[dict[str, int | None]]:
        """See Testbed."""
        return [] if self.team is None else [self.team.read_mac_moves()]

    def read_teams(self, *, has_lasting_flows: bool, streams: StreamSettings) -> list[dict[str, Any]]:
        """See Testbed."""
        if self.team is None:
            return []
        try:
            states = self._read_proved_states(self.team)
        except BenchError as error:
            raise TrialFailed(f"the team changed before the load: {error}", kind=TESTBED_CHANGED) from error
        described = self.team.effective_values(states)
        if not has_lasting_flows:
            return [described]
        flows = list_stream_flows(self.topology, self.agents, streams, self._ip_version)
        return [{**described, "predicted": predict_load(self.team, states, flows)}]

    def _read_proved_states(self, team: GuestTestbedTeam) -> TeamStates:
        states = team.read_states()
        team.prove(states)
        return states

    def make_network_event(self, factors: Mapping[str, Level]) -> NetworkEvent:
        """See DisruptableTestbed. The endpoints are on the host."""
        if self.team is not None:
            return make_guest_team_event(factors, self.team, self.running)
        return guest_catalog.make_guest_event(self.topology, factors, self.make_migration)

    def make_migration(self, factors: Mapping[str, Level]) -> GuestMigration:
        """Return the migration of the first guest in a treatment, which is not prepared."""
        source = self.running[0]

        def start_target(running: RunningGuest, ports: MigrationPorts) -> QemuProcess:
            process = self._start_migration_target(running, ports.guest)
            self._pin_threads_after_migration(factors, running, process)
            return process

        ports = MigrationPorts(self.topology, source.guest)
        return GuestMigration(source, ports, start_target, self._adopt_process)

    def _pin_threads_after_migration(
        self, factors: Mapping[str, Level], moving: RunningGuest, process: QemuProcess
    ) -> None:
        """Pin the threads of a guest's new QEMU to the CPUs of its old one; raises TreatmentRefused."""
        threads = self._find_threads([process if each is moving else each.process for each in self.running])
        cpu_pinning.pin_threads(*cpu_pinning.pinning_levels(factors), threads, self.online_cpus)

    def _adopt_process(self, moved: RunningGuest, process: QemuProcess) -> None:
        """Continue with the QEMU to which a guest has migrated."""
        self.running = [replace(each, process=process) if each is moved else each for each in self.running]
        if self._watchdog is not None:
            self._watchdog.replace(moved.process, process)

    def next_hop_mac(self, endpoint: Endpoint, ip_version: str) -> str:
        """See Testbed. A guest reports the addresses of its own adapters."""
        target = self.topology.next_hop(endpoint)
        if isinstance(target, NetDevice):
            return netlink.interface_mac(*target.location)
        return query_mac_address(self.agents[target.guest_name], target.interface)

    @property
    def rejected_frame_outcome(self) -> Literal["lost", "unsent"]:
        """See Testbed. The queue behind a tap belongs to the guest."""
        return "lost" if self.topology.shape.host_endpoint_device_type == TAPS else "unsent"

    def load_cpus_in_endpoint_numbering(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """See Testbed. A guest has its vCPUs, an endpoint on the host all CPUs.

        An endpoint that sends frames leaves out the CPUs to which vCPUs are pinned, and those of QEMU's
        threads if others remain, because a generator never sleeps.
        """
        own, host_cpus = frozenset(range(self.topology.shape.vcpus)), self.online_cpus
        pin = str(VCPU_PIN.read_level(factors))
        if self.topology.shape.host_endpoint_device_type == TAPS and pin != cpu_pinning.ANY:
            vcpus = cpu_pinning.assign_vcpu_cpus(pin, self._find_threads(), self.online_cpus)
            pinned = frozenset[int]().union(*(cpus for each in vcpus.values() for cpus in each))
            host_cpus = self.online_cpus - pinned or self.online_cpus
            emulators = cpu_pinning.assign_emulator_cpus(
                str(EMULATOR_PIN.read_level(factors)), vcpus, self.online_cpus
            )
            host_cpus = host_cpus.difference(*emulators.values()) or host_cpus
        return {e.name: own if self.topology.find_guest(e.name) else host_cpus for e in self.endpoints}

    def set_paused(self, is_paused: bool) -> None:
        """Pause the guests while another testbed is used, so that they take no CPU time, or continue them."""
        if is_paused == self._is_paused or self._watchdog is None:
            return
        if is_paused:
            self._watchdog.set_paused(True)
        for each in self.running:
            each.process.query("stop" if is_paused else "cont")
        if not is_paused:
            self._watchdog.set_paused(False)
        self._is_paused = is_paused

    def describe(self) -> Mapping[str, object]:
        """See Testbed."""
        starts = {
            each.guest.name: {each.start_method: round(each.start_duration_s, 3)} for each in self.running
        }
        return {**self.topology.describe(), **self._facts, "guest_start_s": starts}

    def close(self) -> None:
        """See Testbed."""
        self.is_closed = True
        cleanup.run_all_despite_errors(
            (
                self._stop_watchdog,
                lambda: close_guests(self.running),
                *(agent.close for agent in self.agents.values()),
                self.link.close,
                lambda: registry.remove_testbed_and_list_remaining_groups(self.topology.testbed_name),
            )
        )

    def _stop_watchdog(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    def _find_threads(self, processes: Sequence[QemuProcess] | None = None) -> list[cpu_pinning.GuestThreads]:
        """Return the threads of the guests, in these processes or else their own."""
        processes = processes or [each.process for each in self.running]
        return [
            cpu_pinning.find_guest_threads(
                each.guest.name, each.guest.side, process.pid, process.vcpu_threads()
            )
            for each, process in zip(self.running, processes, strict=True)
        ]

    def _knob_endpoints(self) -> list[Endpoint]:
        """Return everything that has knobs: each adapter of each guest, and the host's own endpoints."""
        if self.team is not None:
            return [*self.topology.vms, *self.team.knob_endpoints()]
        return [
            *self.topology.vms,
            *(end for guest in self.topology.guests for end in guest.knob_endpoints()),
        ]

    def _knob_settings(
        self, factors: Mapping[str, Level], endpoints: Sequence[Endpoint]
    ) -> list[KnobSetting]:
        own = self.load_cpus_in_endpoint_numbering(factors)
        vcpus = frozenset(range(self.topology.shape.vcpus))
        vms = set(self.topology.vms)
        host_factors = {name: level for name, level in factors.items() if name in FACTORS_FOR_HOST_ENDPOINTS}
        cpus = {end.name: own.get(end.name, vcpus) for end in endpoints}
        return [
            *knobs.requested_knob_settings(
                host_factors, [end for end in endpoints if end in vms], cpus, self.online_cpus
            ),
            *knobs.requested_knob_settings(
                factors, [end for end in endpoints if end not in vms], cpus, vcpus
            ),
        ]

    def _hops(self, pair: int) -> list[path_probe.Hop]:
        hops: list[path_probe.Hop] = []
        for element in self.topology.path_elements(pair):
            if isinstance(element, NetDevice):
                hops.append(path_probe.namespace_hop(element))
            else:
                hops += self._guest_hops(element)
        return hops

    def _guest_hops(self, guest: Guest) -> list[path_probe.Hop]:
        adapter = self.topology.shape.adapter
        return [
            path_probe.Hop(
                f"{guest.name} {nic.guest_interface} ({adapter})",
                partial(self._read_guest_mtu, guest.name, nic.guest_interface),
            )
            for nic in guest.nics
        ]

    def _read_guest_mtu(self, guest: str, interface: str) -> int:
        try:
            answer = self.agents[guest].call("knob.get", interface=interface, knobs=list(MTU.knobs))
        except AgentError as error:
            raise BenchError(error.message, where=f"{guest} {interface}") from error
        return int(answer["values"][MTU.knobs[0]])
