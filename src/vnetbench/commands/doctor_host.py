"""The command `doctor --ssh`: whether a host of the user's can be measured on, and what can be set there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from vnetbench.agents.client import AgentError
from vnetbench.commands.doctor_check import GOOD, LIMITED, MISSING, Check, print_check
from vnetbench.errors import BenchError
from vnetbench.lab import knobs
from vnetbench.lab.hosts import testbed
from vnetbench.lab.hosts.addresses import own_addresses
from vnetbench.lab.hosts.testbed import Entered
from vnetbench.study.file.host_section import HOST
from vnetbench.study.model import HostAsked

KNOBS = (*knobs.INTERFACE_KNOBS, "lro", *knobs.ADAPTER_KNOBS.values())


def examine_host(console: Console, destination: str) -> int:
    """Put an agent on a host, ask it, remove it; a line for each. Returns 0 when it can be used, else 1."""
    asked = HostAsked("host", ssh=str(HOST.keys["ssh"].kind.parse(destination)))
    try:
        entered = testbed.enter(asked, "doctor", "doctor")
    except BenchError as error:
        print_check(console, Check("agent on it", MISSING, f"{error.where}: {error.what}", error.fix or ""))
        return 1
    except AgentError as error:
        print_check(
            console,
            Check("agent on it", MISSING, error.message, "see that its Linux is not too old"),
        )
        return 1
    able = True
    try:
        for check in _checks(entered):
            print_check(console, check)
    except AgentError as error:
        print_check(console, Check("agent on it", MISSING, error.message, "try again"))
        able = False
    except BaseException:
        testbed.leave(entered)
        raise
    if testbed.leave(entered):
        print_check(
            console, Check("clean-up", GOOD, "the agent and its folder are gone, nothing was changed")
        )
        return 0 if able else 1
    print_check(console, Check("clean-up", MISSING, f"left there: {entered.left}", "vnetbench lab clean"))
    return 1


def _checks(entered: Entered) -> Iterator[Check]:
    found, facts = entered.found, entered.agent.call("agent.facts")
    yield Check(
        "connection", GOOD, f"as {found.user}, at {found.reached_at or 'an address that it does not tell'}"
    )
    on = facts.get("hypervisor") or "no hypervisor that it tells of"
    yield Check("machine", GOOD, f"Linux {facts['kernel']['release']}, {found.machine}, on {on}")
    yield Check("agent on it", GOOD, f"in {entered.left.folder}, arrived whole, at work")
    if found.is_root:
        yield Check("knobs", GOOD, "root, so they can be set, and are put back")
    else:
        fix = f"ssh in as root, or leave out all factors that set knobs ({found.user} is not root)"
        yield Check("knobs", LIMITED, "none can be set but the CPUs of the agent", fix)
    addresses = {address: interface for interface, address in own_addresses(found.addresses)}
    if interface := addresses.get(found.reached_at):
        yield from _of_interface(entered, interface, facts)


def _of_interface(entered: Entered, interface: str, facts: Mapping[str, Any]) -> Iterator[Check]:
    """The interface that SSH comes through; a study may name another."""
    (own,) = (each for each in facts["interfaces"] if each["name"] == interface)
    driver = " ".join(own[word] for word in ("driver", "driver_version") if own.get(word)) or "unknown"
    yield Check("interface", GOOD, f"{interface}, {own.get('adapter') or 'adapter unknown'}, driver {driver}")
    values = entered.agent.call("knob.get", interface=interface, knobs=list(KNOBS))["values"]
    yield Check(
        "knobs it has", GOOD, ", ".join(f"{k} {_word(v)}" for k, v in values.items() if v is not None)
    )
    if lacking := [knob for knob, value in values.items() if value is None]:
        fix = "treatments that set them are refused; another adapter may have them"
        yield Check("knobs it lacks", LIMITED, ", ".join(lacking), fix)


def _word(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
