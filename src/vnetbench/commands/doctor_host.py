"""The command `doctor --ssh`: check whether a host can take part in measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from vnetbench.agents.client import AgentError
from vnetbench.commands.doctor_check import GOOD, LIMITED, MISSING, Check, print_check
from vnetbench.errors import BenchError
from vnetbench.lab import knobs
from vnetbench.lab.hosts import testbed
from vnetbench.lab.hosts.addresses import usable_addresses
from vnetbench.lab.hosts.testbed import ConnectedHost
from vnetbench.study.file.host_section import HOST_SECTION
from vnetbench.study.model import HostSpec

KNOBS = (*knobs.INTERFACE_KNOBS, "lro", *knobs.ADAPTER_KNOBS.values())


def check_host(console: Console, destination: str) -> int:
    """Install an agent on a host, run the checks and remove it; return 0 if the host is usable, else 1."""
    asked = HostSpec("host", ssh=str(HOST_SECTION.keys["ssh"].value_type.parse(destination)))
    try:
        entered = testbed.connect_host(asked, "doctor", "doctor")
    except BenchError as error:
        print_check(console, Check("agent", MISSING, f"{error.where}: {error.what}", error.fix or ""))
        return 1
    except AgentError as error:
        print_check(
            console,
            Check("agent", MISSING, error.message, "check the host's kernel version"),
        )
        return 1
    able = True
    try:
        for check in _host_checks(entered):
            print_check(console, check)
    except AgentError as error:
        print_check(console, Check("agent", MISSING, error.message, "try again"))
        able = False
    except BaseException:
        testbed.disconnect_host(entered)
        raise
    if testbed.disconnect_host(entered):
        print_check(
            console, Check("clean-up", GOOD, "the agent and its folder were removed; nothing was changed")
        )
        return 0 if able else 1
    print_check(
        console, Check("clean-up", MISSING, f"left on the host: {entered.leftover}", "vnetbench lab clean")
    )
    return 1


def _host_checks(entered: ConnectedHost) -> Iterator[Check]:
    found, facts = entered.survey, entered.agent.call("agent.facts")
    yield Check("connection", GOOD, f"as {found.user}, at {found.ssh_address or 'an unknown address'}")
    hypervisor = facts.get("hypervisor") or "no known hypervisor"
    yield Check("machine", GOOD, f"Linux {facts['kernel']['release']}, {found.machine}, on {hypervisor}")
    yield Check("agent", GOOD, f"in {entered.leftover.folder}, copied and running")
    if found.is_root:
        yield Check("settings", GOOD, "root: all can be set, and are restored afterwards")
    else:
        fix = f"connect as root, or omit factors that change settings ({found.user} is not root)"
        yield Check("settings", LIMITED, "only the agent's CPUs can be set", fix)
    addresses = {address: interface for interface, address in usable_addresses(found.address_listing)}
    if interface := addresses.get(found.ssh_address):
        yield from _interface_checks(entered, interface, facts)


def _interface_checks(entered: ConnectedHost, interface: str, facts: Mapping[str, Any]) -> Iterator[Check]:
    """Check the interface that SSH uses. A study may name another one."""
    (own,) = (each for each in facts["interfaces"] if each["name"] == interface)
    driver = " ".join(own[word] for word in ("driver", "driver_version") if own.get(word)) or "unknown"
    yield Check("interface", GOOD, f"{interface}, {own.get('adapter') or 'adapter unknown'}, driver {driver}")
    values = entered.agent.call("knob.get", interface=interface, knobs=list(KNOBS))["values"]
    yield Check(
        "adapter settings",
        GOOD,
        ", ".join(f"{k} {_format_value(v)}" for k, v in values.items() if v is not None),
    )
    if lacking := [knob for knob, value in values.items() if value is None]:
        fix = "treatments that set them are refused; another adapter may support them"
        yield Check("unsupported", LIMITED, ", ".join(lacking), fix)


def _format_value(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
