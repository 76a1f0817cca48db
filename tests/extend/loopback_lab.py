"""The lab of docs/how-to/extend/add-a-lab.md: two agents on this machine, joined by its loopback."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import start_local_agent
from vnetbench.lab.endpoint import SIDES, Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.testbed import StreamSettings
from vnetbench.study.model import Level, TestbedSpec

LOOPBACK_MTU = 65536


class LoopbackTestbed:
    """Two agents on one kernel. There is nothing to set, so other levels are refused."""

    rejected_frame_outcome: Literal["lost", "unsent"] = "unsent"

    def __init__(self, label: str) -> None:
        self.endpoints: Sequence[Endpoint] = tuple(
            Endpoint(f"{side}1", side, 1, "lo", "127.0.0.1", "::1") for side in SIDES
        )
        self.agents: dict[str, AgentClient] = {}
        self.online_cpus = frozenset(os.sched_getaffinity(0))
        try:
            for endpoint in self.endpoints:
                self.agents[endpoint.name] = start_local_agent(endpoint.name, label)
        except BaseException:
            self.close()
            raise

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """Refuse every MTU but the loopback's own, and read that back."""
        knobs = self.agents["a1"].call("knob.get", interface="lo", knobs=["mtu"])["values"]
        if factors.get("mtu", LOOPBACK_MTU) != knobs["mtu"]:
            raise TreatmentRefused(
                f"the loopback's MTU is {knobs['mtu']}",
                where="lo",
                fix=f"write mtu = {knobs['mtu']}, or use the lab netns",
            )
        return {"mtu": knobs["mtu"]}

    def observer_targets(self) -> None:
        """Return nothing to observe besides the machine."""

    def interfaces_by_forwarding_agent(self) -> Mapping[str, Sequence[str]]:
        """Return no forwarders: the kernel hands the data over."""
        return {}

    def watched_interfaces(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return no other interfaces: there is only the loopback."""
        return ()

    def reset_delay_line_counters_and_seeds(self) -> None:
        """Do nothing: there is no delay line."""

    def read_delay_line_counters(self) -> Sequence[Mapping[str, Any]]:
        """Return no counters: there is no delay line."""
        return ()

    def read_mac_moves(self) -> Sequence[Mapping[str, int | None]]:
        """Return no counts: nothing bundles links."""
        return ()

    def read_teams(self, *, has_lasting_flows: bool, streams: StreamSettings) -> Sequence[Mapping[str, Any]]:
        """Return no teams: nothing bundles links."""
        return ()

    def machines_to_audit(self) -> Mapping[str, AgentClient]:
        """Return no machines: the loopback has no settings of an adapter."""
        return {}

    def next_hop_mac(self, endpoint: Endpoint, ip_version: str) -> str:
        """Refuse frames: the loopback is no Ethernet."""
        raise TreatmentRefused("the loopback carries no frames", where="lo", fix="use the lab netns")

    def load_cpus_in_endpoint_numbering(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """Let both endpoints use every CPU of this machine."""
        return {endpoint.name: self.online_cpus for endpoint in self.endpoints}

    def describe(self) -> Mapping[str, object]:
        """Return the description for the results file."""
        return {"lab": "loopback", "endpoints": [{"name": endpoint.name} for endpoint in self.endpoints]}

    def close(self) -> None:
        """End the agents that were started."""
        while self.agents:
            _, agent = self.agents.popitem()
            agent.close()


class LoopbackLab:
    """Creates loopback testbeds. All treatments can use the same one."""

    max_testbeds = 1

    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """Return the same shape for every treatment."""
        return "loopback"

    def create_testbed(self, name: str, shape: Hashable) -> LoopbackTestbed:
        """Start both agents."""
        return LoopbackTestbed(name)

    def remove_unfinished_testbeds(self, name_prefix: str) -> None:
        """Do nothing: agents end with the bench, and nothing else is created."""
