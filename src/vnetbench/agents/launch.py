"""Starts agents on the bench's own machine, and greets any."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.agents import transport
from vnetbench.agents.binary import agent_binary
from vnetbench.agents.client import PROTOCOL, AgentClient, AgentError
from vnetbench.agents.transport import PipeTransport
from vnetbench.errors import BenchError


def start_observer(label: str) -> AgentClient:
    """An agent on the bench's own host, to keep the host's counters."""
    return start_here("host", label)


def start_here(endpoint: str, label: str) -> AgentClient:
    """An agent on the bench's own host."""
    agent = AgentClient(endpoint, started([str(agent_binary()), "stdio"], label))
    greet(agent)
    return agent


def start_inside(namespaces: Mapping[str, str], testbed: str, agents: dict[str, AgentClient]) -> None:
    """Start an agent in each network namespace, by its name; each is in `agents` as soon as it runs.

    Raises BenchError, or AgentError when one does not answer.
    """
    for name, namespace in namespaces.items():
        command = ["ip", "netns", "exec", namespace, str(agent_binary()), "stdio"]
        agents[name] = AgentClient(name, started(command, testbed))
    for name in namespaces:
        greet(agents[name])


def check_agent() -> None:
    """Raise BenchError when the agent's binary is missing, does not run here or is another one's."""
    binary = str(agent_binary())
    try:
        start_observer("check").close()
    except AgentError as error:
        raise BenchError(
            f"this is no agent that runs here: {error.message}", where=binary, fix="make install builds it"
        ) from error


def started(command: list[str], label: str) -> PipeTransport:
    """The program that `command` starts, to speak with; `label` is its testbed's name."""
    try:
        return transport.start(command, label)
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
