"""Connects to a host, starts an agent there, and removes both again."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from dataclasses import dataclass

from vnetbench.agents.client import AgentClient
from vnetbench.agents.launch import check_protocol_version
from vnetbench.agents.transport import PipeTransport
from vnetbench.errors import BenchError
from vnetbench.lab.hosts import deployment, leftovers, ssh
from vnetbench.lab.hosts.leftovers import AgentFolderRecord
from vnetbench.study.model import ExistingEndpointSpec

AGENT_CLOSE_TIMEOUT_S = 20.0
"""Time limit for an agent to end: it restores its knobs first, and an adapter may take seconds for each."""


@dataclass
class ConnectedHost:
    """A host with a running agent."""

    spec: ExistingEndpointSpec
    machine: ssh.Machine
    survey: deployment.HostSurvey
    agent_folder_record: AgentFolderRecord
    agent: AgentClient


def connect_host(spec: ExistingEndpointSpec, testbed_name: str, purpose: str) -> ConnectedHost:
    """Connect to a host and start an agent there; after an error, leave nothing on the host.

    Raises:
        BenchError: if the host refuses a step, or another bench uses it.
        AgentError: if the agent does not answer.
    """
    destination = spec.ssh_destination or ""
    machine = (
        ssh.connect(spec.name, destination, testbed_name)
        if destination
        else ssh.local_machine(spec.name, testbed_name)
    )
    record = agent = None
    try:
        survey = deployment.survey_host(machine)
        record = leftovers.record_agent_folder(
            deployment.new_folder_name(survey.user), spec.name, destination, testbed_name, purpose
        )
        # Record ours first: of two benches that start at once, at least one sees the other's record.
        _remove_earlier_agent_folders(machine, record)
        folder = deployment.install_agent_in_new_folder(machine, record.folder)
        agent = _start_agent(machine, folder)
        return ConnectedHost(spec, machine, survey, record, agent)
    except BaseException:
        _clean_up(machine, record, agent)
        raise


def _start_agent(machine: ssh.Machine, folder: str) -> AgentClient:
    process: subprocess.Popen[bytes] = machine.start(
        f"{folder}/{deployment.AGENT_FILE_NAME}", "stdio", "--journal", folder
    )
    agent = AgentClient(machine.name, PipeTransport(process, AGENT_CLOSE_TIMEOUT_S, machine.format_exit_code))
    try:
        check_protocol_version(agent)
    except BaseException:
        agent.close()
        raise
    return agent


def _remove_earlier_agent_folders(machine: ssh.Machine, own_record: AgentFolderRecord) -> None:
    """Remove what an earlier connection left, so that knobs are restored before they are recorded again.

    Raises:
        BenchError: if another bench uses the host.
    """
    for record in leftovers.list_agent_folder_records():
        if record.destination != own_record.destination or record.folder == own_record.folder:
            continue
        if record.is_own and record.testbed == own_record.testbed and record.host != own_record.host:
            continue  # It belongs to another interface of the same host.
        if record.is_in_use and not record.is_own:
            raise BenchError(
                f"another campaign uses this host (process {record.owner.split(':')[0]}: {record.purpose})",
                where=machine.name,
                fix="wait until the other campaign ends, or stop it with Ctrl-C in its terminal",
            )
        deployment.remove_agent_if_installed(machine, record.folder)
        leftovers.delete_agent_folder_record(record)


def disconnect_host(host: ConnectedHost) -> bool:
    """End the agent and the connection; return whether nothing is left on the host."""
    return _clean_up(host.machine, host.agent_folder_record, host.agent)


def _clean_up(
    machine: ssh.Machine, agent_folder_record: AgentFolderRecord | None, agent: AgentClient | None
) -> bool:
    """End the agent, remove its folder, and close the connection; return whether nothing is left."""
    is_clean = agent_folder_record is None
    try:
        if agent is not None:
            agent.close()
        if agent_folder_record is not None:
            # An unreachable host keeps its record, for the next connection or `lab clean`.
            with suppress(BenchError):
                deployment.remove_agent_if_installed(machine, agent_folder_record.folder)
                leftovers.delete_agent_folder_record(agent_folder_record)
                is_clean = True
    finally:
        machine.close()
    return is_clean
