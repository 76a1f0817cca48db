"""Knobs of a testbed: what a treatment asks for, set, read back and judged."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.lab import netns
from vnetbench.lab.cpus import cpus_in, receive_cpus, vm_cpus
from vnetbench.lab.description import Endpoint, Testbed
from vnetbench.lab.refusal import TreatmentRefused
from vnetbench.lab.shaping import shape
from vnetbench.study.cpus import spell_cpu_list
from vnetbench.study.factors import format_level
from vnetbench.study.model import Level, TestbedAsked

INTERFACE_KNOBS = ("mtu", "tso", "gso", "uso", "gro", "tx_checksum", "rx_checksum", "queues", "rps_cpus")
CPU_LISTS = ("cpus", "rps_cpus")
ROUNDS = 2
"""What is as asked is not touched, but setting one knob may undo another: then it is set once more."""

# In the order of setting: what the kernel derives from another knob comes after it.
SWITCHES = {
    "checksum_offload": ("tx_checksum", "rx_checksum"),
    "gso": ("gso",),
    "tso": ("tso",),
    "uso": ("uso",),
    "gro": ("gro",),
}

FIXES = {
    "mtu": "choose an MTU that this adapter allows",
    "tso": "leave this treatment out with [[exclude]]; it needs checksum_offload, and macvlan has it fixed",
    "gso": "leave this treatment out with [[exclude]]; macvlan has it fixed",
    "uso": "leave this treatment out with [[exclude]]; it needs checksum_offload, and Linux 4.18",
    "gro": "leave this treatment out with [[exclude]]",
    "tx_checksum": "leave this treatment out with [[exclude]]; many drivers have it fixed",
    "rx_checksum": "leave this treatment out with [[exclude]]; many drivers have it fixed",
    "queues": "ask for no more queues than the adapter has (veth: one for each CPU)",
    "rps_cpus": "receive processing is placed by root only: run as root (sudo), or leave irq_cpus out",
    "cpus": "name CPUs that this machine lets you use",
}


@dataclass(frozen=True)
class Setting:
    """One knob of one endpoint, and the value that the treatment asks for."""

    endpoint: Endpoint
    knob: str
    value: int | bool | str
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
        if self.knob in CPU_LISTS and isinstance(found, str):
            return cpus_in(found) == cpus_in(str(self.value))
        return found == self.value


def settings(factors: Mapping[str, Level], testbed: Testbed, online: frozenset[int]) -> list[Setting]:
    """All settings of a treatment, in the order in which they must be made; raises BenchError."""
    asked: list[Setting] = []

    def ask(endpoint: Endpoint, factor: str, knob: str, value: int | bool | str) -> None:
        level = format_level(factor, factors.get(factor, "any"))
        asked.append(Setting(endpoint, knob, value, f"{factor} = {level}"))

    cpus = vm_cpus(str(factors.get("cpus", "any")), testbed, online)
    for endpoint in testbed.endpoints:
        ask(endpoint, "cpus", "cpus", spell_cpu_list(cpus[endpoint.name]))
        for factor, knobs in SWITCHES.items():
            for knob in knobs if factor in factors else ():
                ask(endpoint, factor, knob, factors[factor] == "on")
        if "queues" in factors:
            ask(endpoint, "queues", "queues", int(factors["queues"]))
        if "irq_cpus" in factors:
            wanted = receive_cpus(str(factors["irq_cpus"]), endpoint, cpus[endpoint.name], online)
            ask(endpoint, "irq_cpus", "rps_cpus", wanted)
        if "mtu" in factors:
            ask(endpoint, "mtu", "mtu", int(factors["mtu"]))
    return asked


def apply(
    factors: Mapping[str, Level],
    asked: TestbedAsked,
    testbed: Testbed,
    agents: Mapping[str, AgentClient],
    online: frozenset[int],
) -> dict[str, Any]:
    """Set every knob of a treatment, read all back, and return what was found, endpoint by endpoint.

    Raises TreatmentRefused, naming the knob, the place and the fix, when one did not take effect, and
    BenchError when the kernel refused what is not a knob.
    """
    wanted = settings(factors, testbed, online)
    mtu = _network_mtu(factors, asked)
    if mtu is not None:
        netns.set_network_mtu(testbed, mtu, only_raise=True)
    found = read_back(testbed, agents)
    for _ in range(ROUNDS):
        pending = [s for s in wanted if not s.holds(found[s.endpoint.name].get(s.knob))]
        if not pending:
            break
        for setting in pending:
            _set(agents[setting.endpoint.name], setting, mtu)
        found = read_back(testbed, agents)
    if mtu is not None:
        netns.set_network_mtu(testbed, mtu)
    rate = _shape_links(factors, asked, testbed)
    network = netns.network_mtu(testbed)
    for setting in wanted:
        if not setting.holds(value := found[setting.endpoint.name].get(setting.knob)):
            raise TreatmentRefused(
                f"{setting.asked} did not take effect: {_shown(value)} was read back",
                where=setting.where,
                fix=FIXES[setting.knob],
            )
    if None not in (mtu, network) and network != mtu:
        raise TreatmentRefused(
            f"an MTU of {mtu} did not take effect on the vSwitch: {network} was read back", fix=FIXES["mtu"]
        )
    effective = _where_alike(found)
    if "link_rate" in factors:
        effective["link_rate"] = "none" if rate is None else rate
    if network is not None:
        effective["vswitch_mtu"] = network
    return effective


def read_back(testbed: Testbed, agents: Mapping[str, AgentClient]) -> dict[str, dict[str, Any]]:
    """Every knob of every endpoint as it stands."""
    pending: list[tuple[str, Future[dict[str, Any]]]] = []
    for endpoint in testbed.endpoints:
        agent = agents[endpoint.name]
        pending.append(
            (endpoint.name, agent.send("knob.get", interface=endpoint.interface, knobs=list(INTERFACE_KNOBS)))
        )
        pending.append((endpoint.name, agent.send("knob.get", interface=None, knobs=["cpus"])))
    found: dict[str, dict[str, Any]] = {endpoint.name: {} for endpoint in testbed.endpoints}
    for name, future in pending:
        found[name].update(agents[name].wait(future, "knob.get")["values"])
    return found


def _set(agent: AgentClient, setting: Setting, network_mtu: int | None) -> None:
    try:
        agent.call("knob.set", interface=setting.interface, knob=setting.knob, value=setting.value)
    except AgentError as error:
        if error.is_dead:
            raise
        fix = FIXES[setting.knob]
        if setting.knob == "mtu" and network_mtu is not None and network_mtu < int(setting.value):
            # A macvlan's MTU cannot exceed its parent's.
            fix = f"the vSwitch has an MTU of {network_mtu}: raise testbed.vswitch_mtu, or leave it out"
        why = error.data.get("reason") or error.message
        raise TreatmentRefused(
            f"{setting.asked} cannot be set: {why}", where=setting.where, fix=fix
        ) from error


def _shape_links(factors: Mapping[str, Level], asked: TestbedAsked, testbed: Testbed) -> float | None:
    if "link_rate" not in factors:
        return None
    level = factors["link_rate"]
    rate = None if level == "none" else float(level)
    devices = testbed.uplinks or tuple(e.device for e in testbed.endpoints)
    found = [shape(device, rate, asked.shaper) for device in devices]
    for device, value in zip(devices, found, strict=True):
        # The kernel keeps whole bytes per second.
        alike = value is None if rate is None else value is not None and abs(value - rate) <= 8
        if not alike:
            raise TreatmentRefused(
                f"link_rate = {format_level('link_rate', level)} did not take effect: {value} was read back",
                where=device.label,
                fix="choose another rate or shaper",
            )
    return found[0]


def _network_mtu(factors: Mapping[str, Level], asked: TestbedAsked) -> int | None:
    if asked.vswitch_mtu is not None:
        return asked.vswitch_mtu
    return int(factors["mtu"]) if "mtu" in factors else None


def _where_alike(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Knob to its one value, or to a mapping by endpoint where they differ."""
    effective: dict[str, Any] = {}
    for knob in next(iter(found.values())):
        values = {name: knobs.get(knob) for name, knobs in found.items()}
        distinct = {repr(v) for v in values.values()}
        effective[knob] = next(iter(values.values())) if len(distinct) == 1 else values
    return effective


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value in ("", None) else str(value)
