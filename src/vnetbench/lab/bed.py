"""A testbed that exists now, with its agents: it lives, and must be closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.agents.binary import agent_binary
from vnetbench.agents.client import PROTOCOL, AgentClient, AgentError
from vnetbench.agents.transport import PipeTransport
from vnetbench.errors import BenchError
from vnetbench.lab import knobs, netns, path, registry
from vnetbench.lab.description import Shape, Testbed, describe
from vnetbench.study.model import Level, TestbedAsked


class Bed:
    """A running testbed of the lab `netns`. Made by `raise_bed`."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.agents: dict[str, AgentClient] = {}

    def apply(
        self, factors: Mapping[str, Level], asked: TestbedAsked, online: frozenset[int]
    ) -> dict[str, Any]:
        """Set a treatment's knobs and prove the path; returns what was found. Raises TreatmentRefused."""
        effective = knobs.apply(factors, asked, self.testbed, self.agents, online)
        mtu = effective["mtu"]
        smallest = min(mtu.values()) if isinstance(mtu, dict) else mtu
        ip_version = str(factors.get("ip_version", "4"))
        if ip_version == "6":
            netns.restore_ipv6(self.testbed)
        proved = path.prove(self.testbed, self.agents, int(smallest), ip_version)
        effective["path_mtu_proved"] = int(smallest)
        effective["path_rtt_us"] = [answer.get("rtt_us") for answer in proved]
        return effective

    def leave(self) -> None:
        """End the agents, and let the testbed stand until `lab down`."""
        for agent in self.agents.values():
            agent.close()
        registry.keep(self.testbed.name)

    def close(self) -> None:
        """End the agents and remove the testbed; leaves nothing behind, whatever state it is in."""
        for agent in self.agents.values():
            agent.close()
        registry.remove(self.testbed.name)


def raise_bed(name: str, shape: Shape, purpose: str) -> Bed:
    """Build a testbed and start an agent on every endpoint; on any fault what was built is removed again.

    Raises BenchError, or AgentError when an agent ends before it answers.
    """
    testbed = describe(name, shape)
    registry.register(name, purpose, testbed.as_facts())
    bed = Bed(testbed)
    try:
        netns.build(testbed)
        for endpoint in testbed.endpoints:
            command = ["ip", "netns", "exec", endpoint.namespace, str(agent_binary()), "stdio"]
            bed.agents[endpoint.name] = AgentClient(endpoint.name, _started(command, name))
        for agent in bed.agents.values():
            greet(agent)
    except BaseException:
        bed.close()
        raise
    return bed


def start_observer(label: str) -> AgentClient:
    """An agent on the bench's own host, to keep the host's counters."""
    return start_here("host", label)


def start_here(endpoint: str, label: str) -> AgentClient:
    """An agent on the bench's own host."""
    agent = AgentClient(endpoint, _started([str(agent_binary()), "stdio"], label))
    greet(agent)
    return agent


def check_agent() -> None:
    """Raise BenchError when the agent's binary is missing, does not run here or is another one's."""
    binary = str(agent_binary())
    try:
        start_observer("check").close()
    except AgentError as error:
        raise BenchError(
            f"this is no agent that runs here: {error.message}", where=binary, fix="make install builds it"
        ) from error


def _started(command: list[str], label: str) -> PipeTransport:
    try:
        return PipeTransport(command, label)
    except OSError as error:
        raise BenchError(
            f"{command[0]} does not start: {error.strerror}",
            where=command[0],
            fix="apt-get install iproute2" if command[0] == "ip" else "make install builds the agent",
        ) from error


def greet(agent: AgentClient) -> None:
    """Check that the agent speaks our protocol; raises BenchError, or AgentError when it does not answer."""
    answer = agent.call("agent.hello")
    if answer.get("protocol") != PROTOCOL:
        raise BenchError(
            f"the agent speaks protocol {answer.get('protocol')}, this bench speaks {PROTOCOL}",
            where=agent.endpoint,
            fix="make install builds the agent that fits",
        )
