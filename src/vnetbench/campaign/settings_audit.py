"""The audit of a campaign: settings of the endpoints, read once, before the first trial on a testbed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.audit.inventory import Inventory
from vnetbench.audit.linux.agent_facts import read_agent_facts
from vnetbench.audit.linux.collect import collect_local, linux_script, read_linux_listing
from vnetbench.audit.stored import keep_objects_of_path, machine_to_json, unread_to_json
from vnetbench.errors import BenchError
from vnetbench.lab.hosts.ssh import Machine
from vnetbench.lab.testbed import Testbed


def audit_testbed(testbed: Testbed, known: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Return what the results file stores about the machines of a testbed that are not known yet.

    A machine that cannot be read never stops a campaign: its entry says why.
    """
    interfaces = {each.interface for each in testbed.endpoints}
    return {
        name: _audit_machine(name, access, interfaces)
        for name, access in testbed.machines_to_audit().items()
        if name not in known
    }


def audit_this_machine(name: str, interface: str, server: str) -> dict[str, Mapping[str, Any]]:
    """Return the same about this machine and an iperf3 server, whose settings nobody can read.

    Args:
        name: This machine's name in the results.
        interface: The interface of the load.
        server: The server's name in the results.
    """
    unread = unread_to_json(f"The settings of {server} were not read: it is an iperf3 server.")
    try:
        inventory = collect_local()
    except BenchError as error:
        return {name: _unread_machine(name, error.what), server: unread}
    return {name: _store(replace(inventory, target=name), {interface}), server: unread}


def _audit_machine(
    name: str, access: Machine | AgentClient, interfaces: Collection[str]
) -> Mapping[str, Any]:
    try:
        if isinstance(access, AgentClient):
            return machine_to_json(read_agent_facts(access.call("agent.facts"), name))
        return _store(read_linux_listing(access.run(linux_script()).output, name), interfaces)
    except BenchError as error:
        return _unread_machine(name, error.what)
    except AgentError as error:
        return _unread_machine(name, error.message)


def _store(inventory: Inventory, interfaces: Collection[str]) -> Mapping[str, Any]:
    return machine_to_json(keep_objects_of_path(inventory, interfaces))


def _unread_machine(name: str, reason: str) -> Mapping[str, Any]:
    return unread_to_json(f"The settings of {name} were not read: {reason}.")
