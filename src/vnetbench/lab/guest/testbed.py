"""A testbed of guests that exists now: set as a treatment asks, its paths proved, watched, and closed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.errors import BenchError
from vnetbench.lab import knobs, netlink, path_probe, registry
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.guest import cpu_pinning
from vnetbench.lab.guest.hardware import KVM
from vnetbench.lab.guest.launcher import Running, close_all
from vnetbench.lab.guest.topology import TAPS, Guest, GuestTestbed
from vnetbench.lab.guest.watchdog import Watch
from vnetbench.lab.knobs import Setting
from vnetbench.lab.links.impaired_link import Link
from vnetbench.lab.netns import builder, network_settings
from vnetbench.lab.netns.topology import Device, watched
from vnetbench.lab.testbed import mac_in, pairs
from vnetbench.study.model import Level, TestbedAsked

PROOF_ROUNDS = 8
"""Of a second each: an e1000 loses its link when its MTU or rings are set, and its driver looks for it again
every two seconds."""
HOST_KNOBS = ("mtu",)
"""The factors that hold for the host's own ends too; all others are of the guests' adapters."""


class GuestBed:
    """A running testbed of the lab `qemu`. Made by `QemuLab`."""

    def __init__(
        self, testbed: GuestTestbed, facts: Mapping[str, object], comes_to_use: Callable[[GuestBed], None]
    ) -> None:
        """`facts` are what is known of its guests beside their description; `comes_to_use` is told of it."""
        self.testbed = testbed
        self.agents: dict[str, AgentClient] = {}
        self.online = frozenset(os.sched_getaffinity(0))
        self.running: list[Running] = []
        self.link = Link(testbed.name, testbed)
        self.is_closed = False
        self._facts = facts
        self._comes_to_use = comes_to_use
        self._watch: Watch | None = None
        self._is_paused = False

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """See Bed."""
        return self.testbed.endpoints

    def take(self, running: Sequence[Running]) -> None:
        """Take over the guests of the testbed."""
        self.running = list(running)
        self.agents |= {each.guest.name: each.agent for each in running}
        self._watch = Watch()
        for each in running:
            self._watch.add(each.machine, each.transport)

    def apply(self, factors: Mapping[str, Level], asked: TestbedAsked) -> dict[str, Any]:
        """See Bed."""
        self._comes_to_use(self)
        threads = self._threads()
        self.link.set_delay(factors)
        placed = cpu_pinning.place(*cpu_pinning.levels_of(factors), threads, self.online)
        ends = self._knob_endpoints()
        agents = {end.name: self.agents[end.name.partition(" ")[0]] for end in ends}
        wanted = self._settings(factors, ends)
        effective = network_settings.apply(wanted, ends, factors, asked, self.testbed, agents)
        ip_version = str(factors.get("ip_version", "4"))
        if ip_version == "6":
            builder.restore_ipv6(self.testbed.vms)
        prove = partial(self.prove, knobs.least_mtu(effective), ip_version)
        proved = self.link.impair(factors, prove, self._cpus_of_load(factors, threads), self.online)
        path_probe.check_frames(factors, proved["path_mtu_proved"], self.endpoints[0].name)
        found = {knob: knobs.where_alike(where) for knob, where in placed.items() if knob in factors}
        return {**effective, **found, **proved, "accelerator": self._facts["accelerator"]}

    def prove(self, mtu: int, ip_version: str = "4", delay_s: float = 0.0) -> dict[str, Any]:
        """Prove the path of every pair, as a trial keeps it; raises TreatmentRefused with hop and fix.

        `delay_s` is that of the link.
        """
        proved = path_probe.prove(
            pairs(self), self.agents, mtu, ip_version, self._hops, PROOF_ROUNDS, delay_s
        )
        return path_probe.as_found(mtu, proved)

    def _cpus_of_load(
        self, factors: Mapping[str, Level], threads: Sequence[cpu_pinning.Threads]
    ) -> dict[str, frozenset[int]]:
        """The host's CPUs that threads of guests are placed on; those that may run everywhere have none."""
        pin, emulator_pin = cpu_pinning.levels_of(factors)
        if pin == cpu_pinning.ANY:
            return dict.fromkeys((each.guest for each in threads), self.online)
        vcpus = cpu_pinning.vcpu_places(pin, threads, self.online)
        emulators = cpu_pinning.emulator_places(emulator_pin, vcpus, self.online)
        return {
            guest: frozenset[int]().union(*own, emulators[guest] if emulator_pin != cpu_pinning.ANY else ())
            for guest, own in vcpus.items()
        }

    def watch(self) -> dict[str, object]:
        """See Bed: all of QEMU's threads that last, the ports of the switches, and the guests' KVM."""
        threads = [
            {"name": name, "tid": thread}
            for guest in self._threads()
            for name, thread in guest.by_name().items()
        ]
        return {
            "threads": [*threads, *self.link.threads()],
            "interfaces": [*watched(self.testbed), *self.testbed.vswitches],
            "namespace": str(netlink.NETNS_DIR / self.testbed.switch_namespace),
            "kvm_pids": [each.machine.pid for each in self.running]
            if self._facts["accelerator"] == KVM
            else [],
        }

    def between(self) -> dict[str, tuple[str, ...]]:
        """See Bed: guests that route or bridge."""
        guests = (guest for guest in self.testbed.guests if not guest.side)
        return {guest.name: tuple(nic.interface for nic in guest.nics) for guest in guests}

    def begin_line_counts(self) -> None:
        """See Bed."""
        self.link.begin_counts()

    def line_counts(self) -> list[dict[str, Any]]:
        """See Bed."""
        return self.link.counts()

    def next_hop(self, endpoint: Endpoint, ip_version: str) -> str:
        """See Bed; of its own adapters a guest itself says the address."""
        place = self.testbed.next_hop(endpoint)
        if isinstance(place, Device):
            return netlink.mac_of(*place.place)
        name, interface = place
        return mac_in(self.agents[name], interface)

    @property
    def refused_frames(self) -> str:
        """See Bed: behind a tap is the guest."""
        return "lost" if self.testbed.shape.ends == TAPS else "unsent"

    def cpus(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """See Bed: a guest has its vCPUs, an end of the host all CPUs.

        An end that sends frames leaves those to the guest that its vCPUs are pinned to, and QEMU's threads
        where there are others: a generator never sleeps.
        """
        own, ends = frozenset(range(self.testbed.shape.vcpus)), self.online
        pin = str(factors.get("vcpu_pin", cpu_pinning.ANY))
        if self.testbed.shape.ends == TAPS and pin != cpu_pinning.ANY:
            vcpus = cpu_pinning.vcpu_places(pin, self._threads(), self.online)
            ends = self.online.difference(*(cpus for each in vcpus.values() for cpus in each)) or self.online
            emulators = cpu_pinning.emulator_places(
                str(factors.get("emulator_pin", cpu_pinning.ANY)), vcpus, self.online
            )
            ends = ends.difference(*emulators.values()) or ends
        return {e.name: own if self.testbed.guest(e.name) else ends for e in self.endpoints}

    def pause(self, is_paused: bool) -> None:
        """Stop the guests while nobody needs them, so that they take no CPU time; or let them go on."""
        if is_paused == self._is_paused or self._watch is None:
            return
        if is_paused:
            self._watch.pause(True)
        for each in self.running:
            each.machine.ask("stop" if is_paused else "cont")
        if not is_paused:
            self._watch.pause(False)
        self._is_paused = is_paused

    def as_facts(self) -> Mapping[str, object]:
        """See Bed."""
        starts = {each.guest.name: {each.started_by: round(each.started_s, 3)} for each in self.running}
        return {**self.testbed.as_facts(), **self._facts, "starts_s": starts}

    def close(self) -> None:
        """See Bed."""
        self._end_watch()
        close_all(self.running)
        for agent in self.agents.values():
            agent.close()
        self.link.close()
        self.is_closed = True
        registry.remove(self.testbed.name)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _threads(self) -> list[cpu_pinning.Threads]:
        return [
            cpu_pinning.threads_of(
                each.guest.name, each.guest.side, each.machine.pid, each.machine.vcpu_threads()
            )
            for each in self.running
        ]

    def _knob_endpoints(self) -> list[Endpoint]:
        """What has knobs: each adapter of each guest, and the host's own ends."""
        return [*self.testbed.vms, *(end for guest in self.testbed.guests for end in guest.knob_endpoints())]

    def _settings(self, factors: Mapping[str, Level], ends: Sequence[Endpoint]) -> list[Setting]:
        own = self.cpus(factors)
        vcpus = frozenset(range(self.testbed.shape.vcpus))
        vms = set(self.testbed.vms)
        of_host = {name: level for name, level in factors.items() if name in HOST_KNOBS}
        cpus = {end.name: own.get(end.name, vcpus) for end in ends}
        return [
            *knobs.settings(of_host, [end for end in ends if end in vms], cpus, self.online),
            *knobs.settings(factors, [end for end in ends if end not in vms], cpus, vcpus),
        ]

    def _hops(self, pair: int) -> list[path_probe.Hop]:
        found: list[path_probe.Hop] = []
        for place in self.testbed.way(pair):
            if isinstance(place, Device):
                found.append(path_probe.hop_here(place))
            else:
                found += self._hops_in(place)
        return found

    def _hops_in(self, guest: Guest) -> list[path_probe.Hop]:
        adapter = self.testbed.shape.adapter
        return [
            path_probe.Hop(
                f"{guest.name} {nic.interface} ({adapter})", partial(self._mtu_in, guest.name, nic.interface)
            )
            for nic in guest.nics
        ]

    def _mtu_in(self, guest: str, interface: str) -> int:
        try:
            answer = self.agents[guest].call("knob.get", interface=interface, knobs=["mtu"])
        except AgentError as error:
            raise BenchError(error.message, where=f"{guest} {interface}") from error
        return int(answer["values"]["mtu"])
