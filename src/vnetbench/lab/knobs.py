"""Knobs of endpoints: what a treatment asks for, set by their agents, read back and judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.lab.cpus import cpus_in, receive_cpus
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.cpu_lists import spell_cpu_list
from vnetbench.study.factors.registry import format_level
from vnetbench.study.model import Level

INTERFACE_KNOBS = ("mtu", "tso", "gso", "uso", "gro", "tx_checksum", "rx_checksum", "queues", "rps_cpus")
CPU_LISTS = ("cpus", "rps_cpus", "irq_cpus", "napi_cpus")
SPREAD = "spread"
INTERRUPTS_APART = ";"
"""Between the lists of an adapter's interrupts, where they differ: none of them is what was asked."""
ROUNDS = 2
"""What is as asked is not touched, but setting one knob may undo another: then it is set once more."""

# In the order of setting: what the kernel derives from another knob comes after it.
SWITCHES = {
    "checksum_offload": ("tx_checksum", "rx_checksum"),
    "gso": ("gso",),
    "tso": ("tso",),
    "uso": ("uso",),
    "gro": ("gro",),
    "lro": ("lro",),
}
# Levels that are the agent's own values, by their factors.
ADAPTER_KNOBS = {"rx_ring": "rx_ring", "tx_ring": "tx_ring", "coalesce": "coalesce", "irq_pin": "irq_cpus"}

FIXES = {
    "mtu": "choose an MTU that this adapter allows",
    "tso": "leave this treatment out with [[exclude]]; it needs checksum_offload, and macvlan has it fixed",
    "gso": "leave this treatment out with [[exclude]]; macvlan has it fixed",
    "uso": "leave this treatment out with [[exclude]]; it needs checksum_offload, and Linux 4.18",
    "gro": "leave this treatment out with [[exclude]]",
    "tx_checksum": "leave this treatment out with [[exclude]]; many drivers have it fixed",
    "rx_checksum": "leave this treatment out with [[exclude]]; many drivers have it fixed",
    "queues": "ask for no more queues than the adapter has (veth: one for each CPU)",
    "lro": "leave this treatment out with [[exclude]]; not every adapter has it",
    "rx_ring": "ask for a size that the driver takes (ethtool -g tells the most), or leave rx_ring out",
    "tx_ring": "ask for a size that the driver takes (ethtool -g tells the most), or leave tx_ring out",
    "coalesce": "ask for what the driver takes (ethtool -c shows it), or leave coalesce out",
    "irq_cpus": "name CPUs that it has; end irqbalance there, or leave irq_pin out",
    "rps_cpus": "receive processing is placed by root only: run as root (sudo), or leave irq_cpus out",
    "cpus": "name CPUs that this machine lets you use",
    "napi_cpus": "run as root, on Linux 6.9 or newer; or take device_cpus = any",
    "napi_first": "run as root, on Linux 6.9 or newer; or take device_cpus = any",
}


@dataclass(frozen=True)
class Setting:
    """One knob of one endpoint, and the value that the treatment asks for."""

    endpoint: Endpoint
    knob: str
    value: Level | bool
    asked: str
    """The level that asks for it, as the study says it."""

    @property
    def interface(self) -> str | None:
        """The interface that it belongs to; None for what is the endpoint's."""
        return None if self.knob == "cpus" else self.endpoint.interface

    @property
    def where(self) -> str:
        """Endpoint and interface, for people."""
        return f"{self.endpoint.name} {self.interface}" if self.interface else self.endpoint.name

    def holds(self, found: object) -> bool:
        """Whether what was read back is what was asked."""
        if self.knob in CPU_LISTS and isinstance(found, str) and SPREAD not in (found, self.value):
            return INTERRUPTS_APART not in found and cpus_in(found) == cpus_in(str(self.value))
        if isinstance(found, float) and isinstance(self.value, float):
            return math.isclose(found, self.value, rel_tol=1e-9)  # a duration, in microseconds there
        return found == self.value


def settings(
    factors: Mapping[str, Level],
    endpoints: Sequence[Endpoint],
    cpus: Mapping[str, frozenset[int]],
    online: frozenset[int],
) -> list[Setting]:
    """All settings of a treatment, in the order in which they must be made; raises BenchError.

    `cpus` are those that each endpoint's processes get, `online` all that there are.
    """
    asked: list[Setting] = []

    def ask(endpoint: Endpoint, factor: str, knob: str, value: Level | bool) -> None:
        level = format_level(factor, factors.get(factor, "any"))
        asked.append(Setting(endpoint, knob, value, f"{factor} = {level}"))

    for endpoint in endpoints:
        ask(endpoint, "cpus", "cpus", spell_cpu_list(cpus[endpoint.name]))
        for factor, knobs in SWITCHES.items():
            for knob in knobs if factor in factors else ():
                ask(endpoint, factor, knob, factors[factor] == "on")
        if "queues" in factors:
            ask(endpoint, "queues", "queues", int(factors["queues"]))
        for factor, knob in ADAPTER_KNOBS.items():
            if factor in factors:
                ask(endpoint, factor, knob, factors[factor])
        if "irq_cpus" in factors:
            wanted = receive_cpus(str(factors["irq_cpus"]), endpoint, cpus[endpoint.name], online)
            ask(endpoint, "irq_cpus", "rps_cpus", wanted)
        if "mtu" in factors:
            ask(endpoint, "mtu", "mtu", int(factors["mtu"]))
    return asked


def set_all(
    wanted: Sequence[Setting],
    endpoints: Sequence[Endpoint],
    agents: Mapping[str, AgentClient],
    fixes: Mapping[str, str] = FIXES,
) -> dict[str, dict[str, Any]]:
    """Set what is not as asked, and read all back: every knob of every endpoint as it stands.

    Raises TreatmentRefused, naming the knob, the place and the fix, when one is refused.
    """
    found = read_back(endpoints, agents, wanted)
    for _ in range(ROUNDS):
        pending = [s for s in wanted if not s.holds(found[s.endpoint.name].get(s.knob))]
        if not pending:
            break
        for setting in pending:
            set_one(agents[setting.endpoint.name], setting, fixes[setting.knob])
        found = read_back(endpoints, agents, wanted)
    return found


def judge(
    wanted: Iterable[Setting],
    found: Mapping[str, Mapping[str, Any]],
    fixes: Mapping[str, str] = FIXES,
) -> None:
    """Raise TreatmentRefused for the first setting that did not take effect."""
    for setting in wanted:
        if not setting.holds(value := found[setting.endpoint.name].get(setting.knob)):
            raise TreatmentRefused(
                f"{setting.asked} did not take effect: {_shown(value)} was read back",
                where=setting.where,
                fix=fixes[setting.knob],
            )


def alike(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Every knob's one value, or a mapping by endpoint where they differ."""
    return {
        knob: where_alike({name: knobs.get(knob) for name, knobs in found.items()})
        for knob in next(iter(found.values()), {})
    }


def least_mtu(effective: Mapping[str, Any]) -> int:
    """The smallest MTU of all endpoints, of what `alike` gave."""
    mtu = effective["mtu"]
    return int(min(mtu.values()) if isinstance(mtu, dict) else mtu)


def read_back(
    endpoints: Sequence[Endpoint], agents: Mapping[str, AgentClient], wanted: Iterable[Setting] = ()
) -> dict[str, dict[str, Any]]:
    """Every knob of every endpoint as it stands; of those that few adapters have, the wanted ones."""
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


def changed_since(
    effective: Mapping[str, Any], endpoints: Sequence[Endpoint], agents: Mapping[str, AgentClient]
) -> dict[str, Any]:
    """The knobs of interfaces that are no longer as a treatment's `effective` says, as they now are.

    What that says of others than these endpoints, of guests between them, stays as it is.
    """
    now = read_back([each for each in endpoints if each.name in agents], agents)
    changed = {}
    for knob in INTERFACE_KNOBS:
        was = effective.get(knob)
        before = was if isinstance(was, dict) else dict.fromkeys(now, was)
        found = {name: knobs[knob] for name, knobs in now.items() if knob in knobs}
        if any(before.get(name) != value for name, value in found.items()):
            changed[knob] = where_alike({**before, **found})
    return changed


def set_one(agent: AgentClient, setting: Setting, fix: str) -> object:
    """Set a knob; returns what the agent read back. Raises TreatmentRefused where it cannot be set."""
    try:
        answer = agent.call("knob.set", interface=setting.interface, knob=setting.knob, value=setting.value)
    except AgentError as error:
        if error.is_dead:
            raise
        why = error.data.get("reason") or error.message
        raise TreatmentRefused(
            f"{setting.asked} cannot be set: {why}", where=setting.where, fix=fix
        ) from error
    return answer["found"]


def where_alike(found: Mapping[str, object]) -> object:
    """The one value of all endpoints, or a mapping by endpoint where they differ."""
    values = list(found.values())
    return values[0] if all(value == values[0] for value in values) else dict(found)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value in ("", None) else str(value)
