"""Starts agents on the bench's own machine and checks their protocol version."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.agents import transport
from vnetbench.agents.binary import agent_binary_path
from vnetbench.agents.client import PROTOCOL_VERSION, AgentClient, AgentError
from vnetbench.agents.transport import PipeTransport
from vnetbench.errors import BenchError


def start_observer(testbed_name: str) -> AgentClient:
    """Start an agent on the bench's own host that records the host's counters."""
    return start_local_agent("host", testbed_name)


def start_local_agent(agent_name: str, testbed_name: str) -> AgentClient:
    """Start an agent on the bench's own host."""
    agent = AgentClient(agent_name, spawn_agent([str(agent_binary_path()), "stdio"], testbed_name))
    check_protocol_version(agent)
    return agent


def start_agents_in_namespaces(
    namespaces: Mapping[str, str], testbed_name: str, agents: dict[str, AgentClient]
) -> None:
    """Start an agent in each network namespace.

    Args:
        namespaces: The namespace of each agent, by the agent's name.
        testbed_name: The testbed's name, which marks the processes.
        agents: Receives each agent as soon as its process runs, so that you can close it after an error.

    Raises:
        BenchError: if an agent does not start or has another protocol version.
        AgentError: if an agent does not answer.
    """
    for name, namespace in namespaces.items():
        command = ["ip", "netns", "exec", namespace, str(agent_binary_path()), "stdio"]
        agents[name] = AgentClient(name, spawn_agent(command, testbed_name))
    for name in namespaces:
        check_protocol_version(agents[name])


def check_agent_binary() -> None:
    """Raise BenchError if the agent's binary is missing, does not run here, or is another version."""
    binary = str(agent_binary_path())
    try:
        start_observer("check").close()
    except AgentError as error:
        raise BenchError(
            f"the agent does not run on this machine: {error.message}",
            where=binary,
            fix="run make install, which builds the agent",
        ) from error


def spawn_agent(command: list[str], testbed_name: str) -> PipeTransport:
    """Start `command` as an agent; the process carries its testbed's name. Raises BenchError."""
    try:
        return transport.spawn_process(command, testbed_name)
    except OSError as error:
        raise BenchError(
            f"{command[0]} does not start: {error.strerror}",
            where=command[0],
            fix="apt-get install iproute2" if command[0] == "ip" else "run make install to build the agent",
        ) from error


def check_protocol_version(agent: AgentClient) -> None:
    """Check that the agent has our protocol version.

    Raises:
        BenchError: if the version differs.
        AgentError: if the agent does not answer.
    """
    answer = agent.call("agent.hello")
    if answer.get("protocol") != PROTOCOL_VERSION:
        raise BenchError(
            f"the agent has protocol version {answer.get('protocol')}, but this bench has version "
            f"{PROTOCOL_VERSION}",
            where=agent.endpoint,
            fix="run make install, which builds the matching agent",
        )
