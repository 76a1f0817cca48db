"""Testbeds of the lab `hosts`: existing machines, each with an agent that leaves nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from vnetbench.agents.client import AgentError
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import TESTBED_CHANGED
from vnetbench.lab import knobs, path_probe
from vnetbench.lab.cpus import parse_cpu_set, select_local_cpus
from vnetbench.lab.endpoint import SIDES, Endpoint
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.hosts import addresses, deployment, leftovers, path_mtu, ssh
from vnetbench.lab.hosts.connection import ConnectedHost, connect_host, disconnect_host
from vnetbench.lab.hosts.host_teams import (
    describe_host_team,
    describe_unreadable_team,
    list_sent_flows,
    predict_host_load,
)
from vnetbench.lab.hosts.ssh_errors import HostUnreachable
from vnetbench.lab.hosts.team_reading import HostTeam, read_host_team
from vnetbench.lab.testbed import StreamSettings, endpoint_pairs, query_mac_address
from vnetbench.study.factors.team_factors import TEAM_HASH_POLICY
from vnetbench.study.factors.testbed_factors import IP_VERSION, MIN_IPV6_MTU, MTU, VM_CPUS
from vnetbench.study.model import Level, TestbedSpec

RECONNECT_TIMEOUT_S = 30.0
"""Time limit for reconnecting to a host that was connected before: its link was cut, or it is booting."""
RECONNECT_INTERVAL_S = 1.0


@dataclass(frozen=True)
class HostEndpoint(Endpoint):
    """A host that takes part in trials."""

    user: str
    is_root: bool
    has_ipv6_address_on_interface: bool
    """Whether its interface has an IPv6 address, including link-local ones."""
    ports: str
    """Ports for its load as `first-last`; empty for any."""

    def to_json(self) -> dict[str, object]:
        """Return the endpoint in the form that results files store."""
        fields = asdict(self)
        fields["has_any_ipv6_address"] = fields.pop("has_ipv6_address_on_interface")
        return fields


class ExtraInterfaceEndpoint(HostEndpoint):
    """Another interface of a machine that already is an endpoint, which reports the machine's kernel."""

    has_own_kernel = False


class HostsTestbed:
    """A running testbed of hosts. `HostsLab.create_testbed` makes it."""

    def __init__(self, connected: Sequence[ConnectedHost], endpoints: tuple[HostEndpoint, ...]) -> None:
        self._connected = connected
        self.endpoints = endpoints
        self._specs = {each.spec.name: each.spec for each in connected}
        self.agents = {each.spec.name: each.agent for each in connected}
        self.online_cpus = frozenset(os.sched_getaffinity(0))
        cpu_replies = [
            (e.name, self.agents[e.name].send("knob.get", interface=None, knobs=[knobs.CPUS_KNOB]))
            for e in endpoints
        ]
        self._ip_version = ""
        self._teams: dict[str, HostTeam | str] = {}
        for endpoint in endpoints:
            self.agents[endpoint.name].call("knob.set", interface=None, knob="ports", value=endpoint.ports)
        self._cpus = {
            name: parse_cpu_set(self.agents[name].wait(future, "knob.get")["values"][knobs.CPUS_KNOB])
            for name, future in cpu_replies
        }

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """See Testbed."""
        wanted = knobs.requested_knob_settings(
            factors, self.endpoints, self.load_cpus_in_endpoint_numbering(factors), frozenset()
        )
        before = knobs.read_knobs(self.endpoints, self.agents, wanted)
        wanted = _leave_out_hosts_without_bond(wanted, before)
        for setting in wanted:
            if not setting.matches(before[setting.endpoint.name].get(setting.knob)):
                self._check_can_set_and_undo(setting)
        found = knobs.apply_settings_and_read_knobs(wanted, self.endpoints, self.agents)
        knobs.check_settings(wanted, found)
        self._ip_version = ip_version = self._resolve_ip_version(factors)
        mtus = {name: int(values["mtu"]) for name, values in found.items()}
        # Packets between two addresses of one machine never leave it, so such a pair has no path to prove.
        apart = [pair for pair in endpoint_pairs(self) if not self._are_one_machine(*pair)]
        proved: dict[str, Any] = {}
        if apart:
            proved = path_mtu.prove_path_mtu(
                apart, self.agents, {e.name: mtus[e.name] for pair in apart for e in pair},
                int(factors[MTU.name]) if MTU.is_present_in(factors) else None,
                ip_version, has_changed_knobs=before != found,
            )  # fmt: skip
        for endpoint in self.endpoints:
            mtu = min(mtus[endpoint.name], int(proved.get("path_mtu_proved", mtus[endpoint.name])))
            path_probe.check_frame_size(factors, mtu, f"{endpoint.name} {endpoint.interface}")
        self._teams = self._read_host_teams()
        return {**knobs.merge_knob_values(found), **proved}

    def observer_targets(self) -> Mapping[str, object] | None:
        """See Testbed. This lab has nothing to watch."""
        return None

    def interfaces_by_forwarding_agent(self) -> dict[str, tuple[str, ...]]:
        """See Testbed. This lab has none."""
        return {}

    def reset_delay_line_counters_and_seeds(self) -> None:
        """See Testbed. This lab has none."""

    def read_delay_line_counters(self) -> list[dict[str, Any]]:
        """See Testbed. This lab has none."""
        return []

    def watched_interfaces(self, endpoint: Endpoint) -> tuple[str, ...]:
        """See Testbed. The members of the host's team."""
        team = self._teams.get(endpoint.name)
        return team.counted_members if isinstance(team, HostTeam) else ()

    def read_mac_moves(self) -> list[dict[str, int | None]]:
        """See Testbed. The switches of hosts are unknown."""
        return [{} for _ in self._teams]

    def read_teams(self, *, has_lasting_flows: bool, streams: StreamSettings) -> list[dict[str, Any]]:
        """See Testbed. The teams that the interfaces of the hosts run over."""
        if not self._teams:
            return []
        teams = self._read_host_teams()
        described = []
        for a, b in endpoint_pairs(self):
            for endpoint, peer in ((a, b), (b, a)):
                team, before = teams.get(endpoint.name), self._teams.get(endpoint.name)
                if not isinstance(team, HostTeam):
                    described += [describe_unreadable_team(endpoint, team)] if team else []
                    continue
                if not isinstance(before, HostTeam) or team.members != before.members:
                    raise TrialFailed(
                        f"the members of {team.name} on {endpoint.name} changed before the load",
                        kind=TESTBED_CHANGED,
                    )
                record = describe_host_team(endpoint, team)
                if has_lasting_flows:
                    flows = list_sent_flows(endpoint, peer, team, streams[endpoint.name], self._ip_version)
                    predicted = predict_host_load(team, endpoint.side, flows)
                    record |= {"predicted": predicted} if predicted else {}
                described.append(record)
        return described

    def _read_host_teams(self) -> dict[str, HostTeam | str]:
        """Return the team of each host that has one, or why it cannot be read."""
        machines = {each.spec.name: each.machine for each in self._connected}

        def read(pair: tuple[Endpoint, Endpoint]) -> HostTeam | str | None:
            endpoint, peer = pair
            address = peer.address_for(self._ip_version)
            try:
                return read_host_team(machines[endpoint.name], endpoint.interface, address)
            except HostUnreachable:
                raise
            except BenchError as error:
                return str(error)

        pairs = [pair for a, b in endpoint_pairs(self) for pair in ((a, b), (b, a))]
        with ThreadPoolExecutor(len(pairs)) as pool:
            found = zip(pairs, pool.map(read, pairs), strict=True)
            return {endpoint.name: team for (endpoint, _), team in found if team is not None}

    def next_hop_mac(self, endpoint: Endpoint, ip_version: str) -> str:
        """See Testbed. The default is the MAC address of the peer's interface, as on one link."""
        if next_hop_mac := self._specs[endpoint.name].next_hop_mac:
            return next_hop_mac
        (other,) = (e for e in self.endpoints if e.pair == endpoint.pair and e.side != endpoint.side)
        return query_mac_address(self.agents[other.name], other.interface)

    @property
    def rejected_frame_outcome(self) -> Literal["lost", "unsent"]:
        """See Testbed. A full queue is the adapter's own, because its link carries no more."""
        return "unsent"

    def load_cpus_in_endpoint_numbering(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """See Testbed."""
        first, _, second = str(VM_CPUS.read_level(factors)).partition("/")
        assigned = {}
        for endpoint in self.endpoints:
            level = second if second and endpoint.side == "b" else first
            try:
                assigned[endpoint.name] = select_local_cpus(level, self._cpus[endpoint.name])
            except BenchError as error:
                raise BenchError(error.what, where=endpoint.name, fix=error.fix) from error
        return assigned

    def machines_to_audit(self) -> dict[str, ssh.Machine]:
        """See Testbed. An endpoint at another interface of the same machine adds nothing."""
        audited = {e.name for e in self.endpoints if e.has_own_kernel}
        return {each.spec.name: each.machine for each in self._connected if each.spec.name in audited}

    def describe(self) -> Mapping[str, object]:
        """See Testbed."""
        return {
            "lab": "hosts",
            "endpoints": [e.to_json() for e in self.endpoints],
            "hosts": {
                each.spec.name: each.agent_folder_record.destination or "local" for each in self._connected
            },
        }

    def close(self) -> None:
        """See Testbed. What a lost connection prevents from being removed stays registered."""
        with ThreadPoolExecutor(len(self._connected) or 1) as pool:
            list(pool.map(disconnect_host, self._connected))

    def _are_one_machine(self, a: Endpoint, b: Endpoint) -> bool:
        return self._specs[a.name].machine_key == self._specs[b.name].machine_key

    def _check_can_set_and_undo(self, setting: knobs.KnobSetting) -> None:
        """Raise TreatmentRefused if a setting cannot be made, or could not be undone."""
        (endpoint,) = (e for e in self.endpoints if e.name == setting.endpoint.name)
        factor = setting.requesting_level.split()[0]
        if setting.interface and not endpoint.is_root:
            raise TreatmentRefused(
                f"{setting.requesting_level} needs root, and ssh logs in as {endpoint.user}",
                where=setting.where,
                fix=f'write ssh = "root@…" for {endpoint.name}, or leave {factor} out',
            )
        if (
            setting.knob in MTU.knobs
            and int(setting.value) < MIN_IPV6_MTU
            and endpoint.has_ipv6_address_on_interface
        ):
            raise TreatmentRefused(
                f"{setting.requesting_level} would permanently remove the interface's IPv6 addresses",
                where=setting.where,
                fix=f"choose an MTU of at least {MIN_IPV6_MTU}",
            )

    def _resolve_ip_version(self, factors: Mapping[str, Level]) -> str:
        version = str(factors.get(IP_VERSION.name, "6" if ":" in self.endpoints[0].address else "4"))
        for endpoint in self.endpoints:
            address = endpoint.address_for(version)
            if not address or (":" in address) != (version == "6"):
                raise TreatmentRefused(
                    f"ip_version = {version}: {endpoint.interface} has no IPv{version} address",
                    where=endpoint.name,
                    fix="assign an address of this version to the interface, or choose the other version",
                )
        return version


class HostsLab:
    """Connects to the hosts of one study."""

    max_testbeds = 1

    def __init__(self, spec: TestbedSpec, purpose: str) -> None:
        """Use the hosts of a study's testbed section; `vnetbench lab ls` shows `purpose`."""
        self._hosts = spec.existing_endpoints
        self._ports = spec.load_destination_ports or ""
        self._purpose = purpose
        self._was_reached = False
        self._reconnect_timeout_s = 0.0

    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """See Lab."""
        names = [host.name for host in self._hosts]
        return ", ".join(f"{a} to {b}" for a, b in zip(names[::2], names[1::2], strict=True))

    def check_hosts(self) -> None:
        """Connect to the hosts and disconnect again; raises BenchError or AgentError if that fails."""
        HostsLab.create_testbed(self, "check", "").close()

    def create_testbed(self, name: str, shape: Hashable) -> HostsTestbed:
        """See Lab. Waits once for hosts that were connected before, because they may come back."""
        until = time.monotonic() + self._reconnect_timeout_s
        while True:
            try:
                testbed = self._connect_all(name)
            except HostUnreachable as error:
                if not self._was_reached:
                    raise
                if time.monotonic() >= until:
                    self._reconnect_timeout_s = 0.0
                    raise AgentError(str(error.where), error.what) from error
                time.sleep(RECONNECT_INTERVAL_S)
            else:
                self._was_reached, self._reconnect_timeout_s = True, RECONNECT_TIMEOUT_S
                return testbed

    def remove_unfinished_testbeds(self, name_prefix: str) -> None:
        """See Lab. `vnetbench lab clean` removes what cannot be reached now."""
        for record in leftovers.list_agent_folder_records():
            if record.is_own and record.testbed.startswith(name_prefix):
                with suppress(BenchError):
                    leftovers.restore_host_and_remove_agent_folder(record)

    def _make_testbed(
        self, connected: Sequence[ConnectedHost], endpoints: tuple[HostEndpoint, ...]
    ) -> HostsTestbed:
        return HostsTestbed(connected, endpoints)

    def _allow_time_to_start(self, time_limit_s: float) -> None:
        """Wait this long for hosts that are booting, when the next testbed is created."""
        self._was_reached, self._reconnect_timeout_s = True, time_limit_s

    def _connect_all(self, testbed_name: str) -> HostsTestbed:
        connecting: list[Future[ConnectedHost]] = []
        try:
            with ThreadPoolExecutor(len(self._hosts)) as pool:
                connecting += (
                    pool.submit(connect_host, host, testbed_name, self._purpose) for host in self._hosts
                )
            connected = [each.result() for each in connecting]
            return self._make_testbed(connected, self._make_endpoints(connected))
        except BaseException:
            for each in connecting:
                # `exception` waits for a host that is still connecting, so that it does not stay connected.
                if each.exception() is None:
                    disconnect_host(each.result())
            raise

    def _make_endpoints(self, connected: Sequence[ConnectedHost]) -> tuple[HostEndpoint, ...]:
        endpoints: list[HostEndpoint] = []
        known_machines: set[str] = set()
        for number, pair in enumerate(zip(connected[::2], connected[1::2], strict=True), start=1):
            a, b = (
                addresses.PairHost(
                    each.spec,
                    each.survey.address_listing,
                    "" if each.spec.is_bench_machine else each.survey.address_reached_by_ssh,
                    partial(deployment.find_route, each.machine),
                )
                for each in pair
            )
            is_one = a.spec.machine_key == b.spec.machine_key
            chosen = (
                addresses.choose_interfaces_of_one_machine(a, b)
                if is_one
                else addresses.choose_routed_interfaces(a, b)
            )
            for side, each, interface in zip(SIDES, pair, chosen, strict=True):
                machine = each.spec.machine_key
                endpoint_type = ExtraInterfaceEndpoint if machine in known_machines else HostEndpoint
                known_machines.add(machine)
                endpoints.append(
                    endpoint_type(
                        each.spec.name,
                        side,
                        number,
                        interface.interface,
                        interface.primary_address,
                        interface.ipv6_address,
                        each.survey.user,
                        each.survey.is_root,
                        interface.has_any_ipv6_address,
                        self._ports,
                    )
                )
        return tuple(endpoints)


def _leave_out_hosts_without_bond(
    settings: Sequence[knobs.KnobSetting], values: Mapping[str, Mapping[str, Any]]
) -> list[knobs.KnobSetting]:
    """Return the settings without those of a bond at hosts that have none, if another host has one.

    Without any bond, the settings remain, so that the treatment is refused.
    """
    has_bond = {name: read.get(TEAM_HASH_POLICY.name) is not None for name, read in values.items()}
    return [
        each
        for each in settings
        if each.knob != TEAM_HASH_POLICY.name or has_bond[each.endpoint.name] or not any(has_bond.values())
    ]
