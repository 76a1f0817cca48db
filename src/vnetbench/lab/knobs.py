"""Sets the knobs of endpoints through their agents, reads them back and checks them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.lab.cpus import parse_cpu_set, select_rps_cpus
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.registry import format_level
from vnetbench.study.model import Level

INTERFACE_KNOBS = ("mtu", "tso", "gso", "uso", "gro", "tx_checksum", "rx_checksum", "queues", "rps_cpus")
CPU_LIST_KNOBS = ("cpus", "rps_cpus", "irq_cpus", "napi_cpus")
SPREAD = "spread"
INTERRUPT_SEPARATOR = ";"
"""Separates the CPU lists of an adapter's interrupts if they differ, so that none is the requested one."""
MAX_ROUNDS = 2
"""Setting one knob may change another that was already set, which then needs a second round."""

# In the order of setting: a knob that the kernel derives from another comes after it.
ON_OFF_KNOBS = {
    "checksum_offload": ("tx_checksum", "rx_checksum"),
    "gso": ("gso",),
    "tso": ("tso",),
    "uso": ("uso",),
    "gro": ("gro",),
    "lro": ("lro",),
}
# Factors whose levels are the agent's own values, with their knobs.
ADAPTER_KNOBS = {"rx_ring": "rx_ring", "tx_ring": "tx_ring", "coalesce": "coalesce", "irq_pin": "irq_cpus"}

FIXES = {
    "mtu": "choose an MTU that this adapter allows",
    "tso": "leave this treatment out with [[exclude]]; it needs checksum_offload, and macvlan cannot change it",
    "gso": "leave this treatment out with [[exclude]]; macvlan cannot change it",
    "uso": "leave this treatment out with [[exclude]]; it needs checksum_offload and Linux 4.18 or newer",
    "gro": "leave this treatment out with [[exclude]]",
    "tx_checksum": "leave this treatment out with [[exclude]]; many drivers cannot change it",
    "rx_checksum": "leave this treatment out with [[exclude]]; many drivers cannot change it",
    "queues": "request no more queues than the adapter has (veth: one for each CPU)",
    "lro": "leave this treatment out with [[exclude]]; not every adapter has it",
    "rx_ring": "request a size that the driver supports (ethtool -g shows the maximum), or leave rx_ring out",
    "tx_ring": "request a size that the driver supports (ethtool -g shows the maximum), or leave tx_ring out",
    "coalesce": "request a value that the driver supports (ethtool -c shows it), or leave coalesce out",
    "irq_cpus": "name CPUs that the machine has, stop irqbalance there, or leave irq_pin out",
    "rps_cpus": "run as root (sudo), since only root can set RPS; or leave irq_cpus out",
    "cpus": "name CPUs that this machine lets you use",
    "napi_cpus": "run as root on Linux 6.9 or newer, or write device_cpus = any",
    "napi_first": "run as root on Linux 6.9 or newer, or write device_cpus = any",
}


@dataclass(frozen=True)
class KnobSetting:
    """One knob of one endpoint and the value that a treatment requests."""

    endpoint: Endpoint
    knob: str
    value: Level | bool
    requested_by: str
    """The level that requests the value, as the study writes it."""

    @property
    def interface(self) -> str | None:
        """The interface of the knob; None for a knob of the endpoint itself."""
        return None if self.knob == "cpus" else self.endpoint.interface

    @property
    def where(self) -> str:
        """Endpoint and interface, for error messages."""
        return f"{self.endpoint.name} {self.interface}" if self.interface else self.endpoint.name

    def matches(self, found: object) -> bool:
        """Whether the value that was read back is the requested one."""
        if self.knob in CPU_LIST_KNOBS and isinstance(found, str) and SPREAD not in (found, self.value):
            return INTERRUPT_SEPARATOR not in found and parse_cpu_set(found) == parse_cpu_set(str(self.value))
        if isinstance(found, float) and isinstance(self.value, float):
            return math.isclose(found, self.value, rel_tol=1e-9)  # A duration, which the agent keeps in µs.
        return found == self.value


def treatment_settings(
    factors: Mapping[str, Level],
    endpoints: Sequence[Endpoint],
    cpus: Mapping[str, frozenset[int]],
    online: frozenset[int],
) -> list[KnobSetting]:
    """Return all settings of a treatment in the order in which they must be made.

    Args:
        factors: The treatment's levels.
        endpoints: The endpoints to set.
        cpus: CPUs of each endpoint's processes.
        online: All CPUs of the machine.

    Raises:
        BenchError: if a CPU does not exist.
    """
    asked: list[KnobSetting] = []

    def ask(endpoint: Endpoint, factor: str, knob: str, value: Level | bool) -> None:
        level = format_level(factor, factors.get(factor, "any"))
        asked.append(KnobSetting(endpoint, knob, value, f"{factor} = {level}"))

    for endpoint in endpoints:
        ask(endpoint, "cpus", "cpus", format_cpu_list(cpus[endpoint.name]))
        for factor, knobs in ON_OFF_KNOBS.items():
            for knob in knobs if factor in factors else ():
                ask(endpoint, factor, knob, factors[factor] == "on")
        if "queues" in factors:
            ask(endpoint, "queues", "queues", int(factors["queues"]))
        for factor, knob in ADAPTER_KNOBS.items():
            if factor in factors:
                ask(endpoint, factor, knob, factors[factor])
        if "irq_cpus" in factors:
            wanted = select_rps_cpus(str(factors["irq_cpus"]), endpoint, cpus[endpoint.name], online)
            ask(endpoint, "irq_cpus", "rps_cpus", wanted)
        if "mtu" in factors:
            ask(endpoint, "mtu", "mtu", int(factors["mtu"]))
    return asked


def apply_settings(
    wanted: Sequence[KnobSetting],
    endpoints: Sequence[Endpoint],
    agents: Mapping[str, AgentClient],
    fixes: Mapping[str, str] = FIXES,
) -> dict[str, dict[str, Any]]:
    """Set the knobs that differ from the requested values and return all knobs of every endpoint.

    Raises:
        TreatmentRefused: if an agent refuses a knob.
    """
    found = read_knobs(endpoints, agents, wanted)
    for _ in range(MAX_ROUNDS):
        pending = [s for s in wanted if not s.matches(found[s.endpoint.name].get(s.knob))]
        if not pending:
            break
        for setting in pending:
            set_knob(agents[setting.endpoint.name], setting, fixes[setting.knob])
        found = read_knobs(endpoints, agents, wanted)
    return found


def check_settings(
    wanted: Iterable[KnobSetting],
    found: Mapping[str, Mapping[str, Any]],
    fixes: Mapping[str, str] = FIXES,
) -> None:
    """Raise TreatmentRefused for the first setting that did not take effect."""
    for setting in wanted:
        if not setting.matches(value := found[setting.endpoint.name].get(setting.knob)):
            raise TreatmentRefused(
                f"{setting.requested_by} did not take effect: {_format_value(value)} was read back",
                where=setting.where,
                fix=fixes[setting.knob],
            )


def merge_endpoints(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the value of each knob, or a mapping by endpoint if the endpoints differ."""
    return {
        knob: merge_if_equal({name: knobs.get(knob) for name, knobs in found.items()})
        for knob in next(iter(found.values()), {})
    }


def smallest_mtu(effective: Mapping[str, Any]) -> int:
    """Return the smallest MTU of all endpoints from a treatment's effective values."""
    mtu = effective["mtu"]
    return int(min(mtu.values()) if isinstance(mtu, dict) else mtu)


def read_knobs(
    endpoints: Sequence[Endpoint], agents: Mapping[str, AgentClient], wanted: Iterable[KnobSetting] = ()
) -> dict[str, dict[str, Any]]:
    """Return all knobs of every endpoint, with those of `wanted` that few adapters have."""
    asked = {setting.knob: None for setting in wanted if setting.interface}
    knobs = list({**dict.fromkeys(INTERFACE_KNOBS), **asked})
    pending: list[tuple[str, Future[dict[str, Any]]]] = []
    for endpoint in endpoints:
        agent = agents[endpoint.name]
        pending.append((endpoint.name, agent.send("knob.get", interface=endpoint.interface, knobs=knobs)))
        pending.append((endpoint.name, agent.send("knob.get", interface=None, knobs=["cpus"])))
    found: dict[str, dict[str, Any]] = {endpoint.name: {} for endpoint in endpoints}
    for name, future in pending:
        found[name].update(agents[name].wait(future, "knob.get")["values"])
    return found


def changed_knobs(
    effective: Mapping[str, Any], endpoints: Sequence[Endpoint], agents: Mapping[str, AgentClient]
) -> dict[str, Any]:
    """Return the knobs that no longer have a treatment's `effective` values.

    Values of other endpoints, such as forwarding guests, are copied unchanged.
    """
    now = read_knobs([each for each in endpoints if each.name in agents], agents)
    changed = {}
    for knob in INTERFACE_KNOBS:
        was = effective.get(knob)
        before = was if isinstance(was, dict) else dict.fromkeys(now, was)
        found = {name: knobs[knob] for name, knobs in now.items() if knob in knobs}
        if any(before.get(name) != value for name, value in found.items()):
            changed[knob] = merge_if_equal({**before, **found})
    return changed


def set_knob(agent: AgentClient, setting: KnobSetting, fix: str) -> object:
    """Set a knob and return the value that the agent read back; raises TreatmentRefused if it refuses."""
    try:
        answer = agent.call("knob.set", interface=setting.interface, knob=setting.knob, value=setting.value)
    except AgentError as error:
        if error.is_dead:
            raise
        why = error.data.get("reason") or error.message
        raise TreatmentRefused(f"cannot set {setting.requested_by}: {why}", where=setting.where, fix=fix) from error
    return answer["found"]


def merge_if_equal(found: Mapping[str, object]) -> object:
    """Return the common value of all endpoints, or a mapping by endpoint if they differ."""
    values = list(found.values())
    return values[0] if all(value == values[0] for value in values) else dict(found)


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value in ("", None) else str(value)
