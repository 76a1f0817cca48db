"""The lab `hosts`: testbeds of machines that exist, each with an agent that leaves nothing there."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import greet
from vnetbench.agents.transport import PipeTransport
from vnetbench.errors import BenchError
from vnetbench.lab import knobs, path_probe
from vnetbench.lab.cpus import cpus_in, local_cpus
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.hosts import addresses, deployment, leftovers, path_mtu, ssh
from vnetbench.lab.hosts.leftovers import Left
from vnetbench.lab.hosts.ssh_errors import Unreachable
from vnetbench.lab.testbed import mac_in, pairs
from vnetbench.study.factors.testbed_factors import LEAST_MTU6
from vnetbench.study.model import HostAsked, Level, TestbedAsked

PATIENCE_S = 30.0
"""How long a host that could be reached before is tried again: a link that was cut, a host that boots."""
PAUSE_S = 1.0
CLOSING_TIMEOUT_S = 20.0
"""Of an agent: it puts its knobs back first, and an adapter may take seconds for each."""


@dataclass(frozen=True)
class HostEndpoint(Endpoint):
    """A host that takes part in trials."""

    user: str
    is_root: bool
    has_ipv6: bool
    """Whether its interface has an address of it, be it one of the link alone."""
    ports: str
    """That it takes load on, `first-last`; empty for any."""


class FurtherPort(HostEndpoint):
    """Another interface of a machine that is an endpoint already, whose kernel that one tells of."""

    has_own_kernel = False


@dataclass
class Entered:
    """A host with an agent at work."""

    asked: HostAsked
    machine: ssh.Machine
    found: deployment.Survey
    left: Left
    agent: AgentClient


class HostsBed:
    """A testbed of hosts. Made by `HostsLab.raise_bed`."""

    def __init__(self, entered: Sequence[Entered], endpoints: tuple[HostEndpoint, ...]) -> None:
        self._entered = entered
        self.endpoints = endpoints
        self._asked = {each.asked.name: each.asked for each in entered}
        self.agents = {each.asked.name: each.agent for each in entered}
        self.online = frozenset(os.sched_getaffinity(0))
        own = [
            (e.name, self.agents[e.name].send("knob.get", interface=None, knobs=["cpus"])) for e in endpoints
        ]
        for endpoint in endpoints:
            self.agents[endpoint.name].call("knob.set", interface=None, knob="ports", value=endpoint.ports)
        self._cpus = {
            name: cpus_in(self.agents[name].wait(future, "knob.get")["values"]["cpus"])
            for name, future in own
        }

    def apply(self, factors: Mapping[str, Level], asked: TestbedAsked) -> dict[str, Any]:
        """See Bed."""
        wanted = knobs.settings(factors, self.endpoints, self.cpus(factors), frozenset())
        before = knobs.read_back(self.endpoints, self.agents, wanted)
        for setting in wanted:
            if not setting.holds(before[setting.endpoint.name].get(setting.knob)):
                self._refuse_harm(setting)
        found = knobs.set_all(wanted, self.endpoints, self.agents)
        knobs.judge(wanted, found)
        ip_version = self._ip_version(factors)
        mtus = {name: int(values["mtu"]) for name, values in found.items()}
        # What one machine sends from one of its addresses to another never leaves it: only frames do.
        apart = [pair for pair in pairs(self) if not self._is_one_machine(*pair)]
        proved: dict[str, Any] = {}
        if apart:
            proved = path_mtu.prove(
                apart, self.agents, {e.name: mtus[e.name] for pair in apart for e in pair},
                int(factors["mtu"]) if "mtu" in factors else None, ip_version, is_settling=before != found,
            )  # fmt: skip
        for endpoint in self.endpoints:
            mtu = min(mtus[endpoint.name], int(proved.get("path_mtu_proved", mtus[endpoint.name])))
            path_probe.check_frames(factors, mtu, f"{endpoint.name} {endpoint.interface}")
        return {**knobs.alike(found), **proved}

    def watch(self) -> Mapping[str, object] | None:
        """See Bed: nothing."""
        return None

    def between(self) -> dict[str, tuple[str, ...]]:
        """See Bed: none."""
        return {}

    def begin_line_counts(self) -> None:
        """See Bed: none."""

    def line_counts(self) -> list[dict[str, Any]]:
        """See Bed: none."""
        return []

    def next_hop(self, endpoint: Endpoint, ip_version: str) -> str:
        """See Bed: as the study names it, else the other interface's own, as on one link."""
        if asked := self._asked[endpoint.name].next_hop:
            return asked
        (other,) = (e for e in self.endpoints if e.pair == endpoint.pair and e.side != endpoint.side)
        return mac_in(self.agents[other.name], other.interface)

    @property
    def refused_frames(self) -> str:
        """See Bed: an adapter has a queue of its own, which is full where its link carries no more."""
        return "unsent"

    def cpus(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """See Bed."""
        first, _, second = str(factors.get("cpus", "any")).partition("/")
        given = {}
        for endpoint in self.endpoints:
            own = second if second and endpoint.side == "b" else first
            try:
                given[endpoint.name] = local_cpus(own, self._cpus[endpoint.name])
            except BenchError as error:
                raise BenchError(error.what, where=endpoint.name, fix=error.fix) from error
        return given

    def as_facts(self) -> Mapping[str, object]:
        """See Bed."""
        return {
            "lab": "hosts",
            "endpoints": [asdict(e) for e in self.endpoints],
            "hosts": {each.asked.name: each.left.destination or "local" for each in self._entered},
        }

    def close(self) -> None:
        """See Bed. What a lost connection keeps from being removed stays registered."""
        with ThreadPoolExecutor(len(self._entered) or 1) as pool:
            list(pool.map(leave, self._entered))

    def _is_one_machine(self, a: Endpoint, b: Endpoint) -> bool:
        return self._asked[a.name].machine == self._asked[b.name].machine

    def _refuse_harm(self, setting: knobs.Setting) -> None:
        """Raise TreatmentRefused for a setting that cannot be made, or could not be undone."""
        (endpoint,) = (e for e in self.endpoints if e.name == setting.endpoint.name)
        factor = setting.asked.split()[0]
        if setting.interface and not endpoint.is_root:
            raise TreatmentRefused(
                f"{setting.asked} needs root, and ssh logs in as {endpoint.user}",
                where=setting.where,
                fix=f'write ssh = "root@…" for {endpoint.name}, or leave {factor} out',
            )
        if factor == "mtu" and int(setting.value) < LEAST_MTU6 and endpoint.has_ipv6:
            raise TreatmentRefused(
                f"{setting.asked} would take the interface its IPv6 addresses, for good",
                where=setting.where,
                fix=f"choose an MTU of {LEAST_MTU6} at least",
            )

    def _ip_version(self, factors: Mapping[str, Level]) -> str:
        version = str(factors.get("ip_version", "6" if ":" in self.endpoints[0].address else "4"))
        for endpoint in self.endpoints:
            address = endpoint.address_of(version)
            if not address or (":" in address) != (version == "6"):
                raise TreatmentRefused(
                    f"ip_version = {version}: {endpoint.interface} has no such address",
                    where=endpoint.name,
                    fix="give it one, or take the other version",
                )
        return version


class HostsLab:
    """Hosts that a study names."""

    most_kept = 1

    def __init__(self, asked: TestbedAsked, purpose: str) -> None:
        """`purpose` says in `vnetbench lab ls` what is put on the hosts for."""
        self._hosts = asked.hosts
        self._ports = asked.ports or ""
        self._purpose = purpose
        self._was_reached = False
        self._patience_s = 0.0

    def shape(self, factors: Mapping[str, Level]) -> str:
        """See Lab."""
        names = [host.name for host in self._hosts]
        return ", ".join(f"{a} to {b}" for a, b in zip(names[::2], names[1::2], strict=True))

    def raise_bed(self, name: str, shape: Hashable) -> HostsBed:
        """See Lab. Hosts that were reached before are waited for, once: they may be there again soon."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                bed = self._enter_all(name)
            except Unreachable as error:
                if not self._was_reached:
                    raise
                if time.monotonic() >= until:
                    self._patience_s = 0.0
                    raise AgentError(str(error.where), error.what) from error
                time.sleep(PAUSE_S)
            else:
                self._was_reached, self._patience_s = True, PATIENCE_S
                return bed

    def remove_left(self, prefix: str) -> None:
        """See Lab; what cannot be reached now is for `vnetbench lab clean`."""
        for left in leftovers.entries():
            if left.is_ours and left.testbed.startswith(prefix):
                with suppress(BenchError):
                    leftovers.clean(left)

    def _enter_all(self, testbed: str) -> HostsBed:
        entering: list[Future[Entered]] = []
        try:
            with ThreadPoolExecutor(len(self._hosts)) as pool:
                entering += (pool.submit(enter, host, testbed, self._purpose) for host in self._hosts)
            entered = [each.result() for each in entering]
            return HostsBed(entered, self._endpoints(entered))
        except BaseException:
            for each in entering:
                # Asking waits for one that is still at it: it would enter behind the back of who left.
                if each.exception() is None:
                    leave(each.result())
            raise

    def _endpoints(self, entered: Sequence[Entered]) -> tuple[HostEndpoint, ...]:
        endpoints: list[HostEndpoint] = []
        told_of: set[str] = set()
        for number, two in enumerate(zip(entered[::2], entered[1::2], strict=True), start=1):
            a, b = (
                addresses.Side(
                    each.asked,
                    each.found.addresses,
                    "" if each.asked.local else each.found.reached_at,
                    partial(deployment.route, each.machine),
                )
                for each in two
            )
            is_one = a.asked.machine == b.asked.machine
            places = addresses.place_on_one(a, b) if is_one else addresses.place(a, b)
            for side, each, placed in zip("ab", two, places, strict=True):
                kind = FurtherPort if each.asked.machine in told_of else HostEndpoint
                told_of.add(each.asked.machine)
                endpoints.append(
                    kind(
                        each.asked.name, side, number, placed.interface, placed.address, placed.address6,
                        each.found.user, each.found.is_root, placed.has_ipv6, self._ports,
                    )
                )  # fmt: skip
        return tuple(endpoints)


def enter(asked: HostAsked, testbed: str, purpose: str) -> Entered:
    """Connect to a host and start an agent there, or raise BenchError or AgentError and leave nothing."""
    destination = asked.ssh or ""
    machine = (
        ssh.connect(asked.name, destination, testbed)
        if destination
        else ssh.this_machine(asked.name, testbed)
    )
    left = agent = None
    try:
        found = deployment.survey(machine)
        left = leftovers.register(
            deployment.folder_name(found.user), asked.name, destination, testbed, purpose
        )
        # After ours is written down: of two benches that start at once one at least sees the other.
        _remove_earlier(machine, left)
        folder = deployment.put(machine, left.folder)
        agent = _start(machine, folder)
        return Entered(asked, machine, found, left, agent)
    except BaseException:
        _withdraw(machine, left, agent)
        raise


def _start(machine: ssh.Machine, folder: str) -> AgentClient:
    process: subprocess.Popen[bytes] = machine.start(
        f"{folder}/{deployment.AGENT}", "stdio", "--journal", folder
    )
    agent = AgentClient(machine.name, PipeTransport(process, CLOSING_TIMEOUT_S, machine.ending))
    try:
        greet(agent)
    except BaseException:
        agent.close()
        raise
    return agent


def _remove_earlier(machine: ssh.Machine, own: Left) -> None:
    """Remove what an earlier connection left there: knobs must be as found before they are noted anew.

    Raises BenchError where another bench is at work on the host.
    """
    for left in leftovers.entries():
        if left.destination != own.destination or left.folder == own.folder:
            continue
        if left.is_ours and left.testbed == own.testbed and left.host != own.host:
            continue  # that of another of its interfaces
        if left.in_use and not left.is_ours:
            raise BenchError(
                f"another campaign is at work on it (process {left.owner.split(':')[0]}: {left.purpose})",
                where=machine.name,
                fix="wait for its end, or stop it with Ctrl-C where it runs",
            )
        deployment.remove(machine, left.folder)
        leftovers.forget(left)


def leave(entered: Entered) -> bool:
    """End the agent, and see to it that nothing is left; whether that is so."""
    return _withdraw(entered.machine, entered.left, entered.agent)


def _withdraw(machine: ssh.Machine, left: Left | None, agent: AgentClient | None) -> bool:
    """End the agent, see that nothing of it is left on the host, and end the connection."""
    is_clean = left is None
    try:
        if agent is not None:
            agent.close()
        if left is not None:
            # A host that cannot be reached now keeps its entry, for the next connection or `lab clean`.
            with suppress(BenchError):
                deployment.remove(machine, left.folder)
                leftovers.forget(left)
                is_clean = True
    finally:
        machine.close()
    return is_clean
