"""The command `doctor --ssh`: check whether a host can take part in measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from vnetbench.agents.client import AgentError
from vnetbench.commands.doctor_check import GOOD, LIMITED, MISSING, Check, print_check
from vnetbench.errors import BenchError
from vnetbench.lab import knobs
from vnetbench.lab.hosts import connection
from vnetbench.lab.hosts.addresses import usable_addresses
from vnetbench.lab.hosts.connection import ConnectedHost
from vnetbench.study.file.host_value_types import ssh_destinations
from vnetbench.study.model import ExistingEndpointSpec

CHECKED_KNOBS = dict.fromkeys(
    (*knobs.INTERFACE_KNOBS, *(knob for factor in knobs.KNOB_FACTORS for knob in factor.knobs))
)


def check_host(console: Console, destination: str) -> int:
    """Install an agent on a host, run the checks and remove it; return 0 if the host is usable, else 1."""
    host_spec = ExistingEndpointSpec("host", ssh_destination=str(ssh_destinations().parse(destination)))
    try:
        connected = connection.connect_host(host_spec, "doctor", "doctor")
    except BenchError as error:
        print_check(console, Check("agent", MISSING, f"{error.where}: {error.what}", error.fix or ""))
        return 1
    except AgentError as error:
        print_check(
            console,
            Check("agent", MISSING, error.message, "check the host's kernel version"),
        )
        return 1
    succeeded = True
    try:
        for check in _run_host_checks(connected):
            print_check(console, check)
    except AgentError as error:
        print_check(console, Check("agent", MISSING, error.message, "try again"))
        succeeded = False
    except BaseException:
        connection.disconnect_host(connected)
        raise
    if connection.disconnect_host(connected):
        print_check(
            console,
            Check("clean-up", GOOD, "the bench removed the agent and its folder, and changed nothing else"),
        )
        return 0 if succeeded else 1
    print_check(
        console,
        Check(
            "clean-up",
            MISSING,
            f"left on the host: {connected.agent_folder_record}",
            "run vnetbench lab clean",
        ),
    )
    return 1


def _run_host_checks(host: ConnectedHost) -> Iterator[Check]:
    survey, facts = host.survey, host.agent.call("agent.facts")
    address = survey.address_reached_by_ssh or "an unknown address"
    yield Check("connection", GOOD, f"as {survey.user}, at {address}")
    hypervisor = facts.get("hypervisor") or "no known hypervisor"
    release = facts["kernel"]["release"]
    yield Check("machine", GOOD, f"Linux {release}, {survey.architecture}, on {hypervisor}")
    yield Check("agent", GOOD, f"copied to {host.agent_folder_record.folder} and running")
    if survey.is_root:
        yield Check("settings", GOOD, "root can set all settings, and the bench restores them afterwards")
    else:
        fix = f"connect as root, or omit factors that change settings ({survey.user} is not root)"
        yield Check("settings", LIMITED, "the bench can set the CPUs of its agent only", fix)
    addresses = {address: interface for interface, address in usable_addresses(survey.address_listing)}
    if interface := addresses.get(survey.address_reached_by_ssh):
        yield from _run_interface_checks(host, interface, facts)


def _run_interface_checks(host: ConnectedHost, interface: str, facts: Mapping[str, Any]) -> Iterator[Check]:
    """Check the interface that SSH uses. A study may name another one."""
    interface_facts: Mapping[str, Any] = next(
        (each for each in facts["interfaces"] if each["name"] == interface), {}
    )
    driver = (
        " ".join(interface_facts[word] for word in ("driver", "driver_version") if interface_facts.get(word))
        or "unknown"
    )
    yield Check(
        "interface",
        GOOD,
        f"{interface}, {interface_facts.get('adapter') or 'adapter unknown'}, driver {driver}",
    )
    values = host.agent.call("knob.get", interface=interface, knobs=list(CHECKED_KNOBS))["values"]
    yield Check(
        "adapter settings",
        GOOD,
        ", ".join(f"{k} {_format_value(v)}" for k, v in values.items() if v is not None),
    )
    if unsupported := [knob for knob, value in values.items() if value is None]:
        fix = "the bench refuses treatments that change these settings. Another adapter may support them"
        yield Check("unsupported", LIMITED, ", ".join(unsupported), fix)


def _format_value(effective_knob_value: object) -> str:
    return (
        {True: "on", False: "off"}[effective_knob_value]
        if isinstance(effective_knob_value, bool)
        else str(effective_knob_value)
    )
