"""Knobs of a testbed: what a treatment asks for, set, read back and judged."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.errors import BenchError
from vnetbench.lab import netns
from vnetbench.lab.cpus import cpus_in, receive_cpus, vm_cpus
from vnetbench.lab.description import Endpoint, Testbed
from vnetbench.lab.refusal import TreatmentRefused
from vnetbench.lab.shaping import shape
from vnetbench.study.cpus import spell_cpu_list
from vnetbench.study.model import Level, TestbedAsked

INTERFACE_KNOBS = ("mtu", "tso", "gso", "gro", "tx_checksum", "rx_checksum", "queues", "rps_cpus")
CPU_LISTS = ("cpus", "rps_cpus")

# In the order of setting: what the kernel derives from another knob comes after it.
SWITCHES = {
    "checksum_offload": ("tx_checksum", "rx_checksum"),
    "gso": ("gso",),
    "tso": ("tso",),
    "gro": ("gro",),
}

FIXES = {
    "mtu": "choose an MTU that this adapter allows",
    "tso": "leave this treatment out with [[exclude]]; it needs checksum_offload, and macvlan has it fixed",
    "gso": "leave this treatment out with [[exclude]]; macvlan has it fixed",
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

    @property
    def interface(self) -> str | None:
        """The interface that it belongs to; None for what is the endpoint's."""
        return None if self.knob == "cpus" else self.endpoint.interface

    @property
    def where(self) -> str:
        """Endpoint and interface, for people."""
        return f"{self.endpoint.name} {self.interface}" if self.interface else self.endpoint.name


def settings(factors: Mapping[str, Level], testbed: Testbed, online: frozenset[int]) -> list[Setting]:
    """All settings of a treatment, in the order in which they must be made; raises TreatmentRefused."""
    asked: list[Setting] = []
    try:
        cpus = vm_cpus(str(factors.get("cpus", "any")), testbed, online)
        for endpoint in testbed.endpoints:
            asked.append(Setting(endpoint, "cpus", spell_cpu_list(cpus[endpoint.name])))
            for factor, knobs in SWITCHES.items():
                if factor in factors:
                    asked += [Setting(endpoint, knob, factors[factor] == "on") for knob in knobs]
            if "queues" in factors:
                asked.append(Setting(endpoint, "queues", int(factors["queues"])))
            if "irq_cpus" in factors:
                wanted = receive_cpus(str(factors["irq_cpus"]), endpoint, cpus[endpoint.name], online)
                asked.append(Setting(endpoint, "rps_cpus", wanted))
            if "mtu" in factors:
                asked.append(Setting(endpoint, "mtu", int(factors["mtu"])))
    except TreatmentRefused:
        raise
    except BenchError as error:
        raise TreatmentRefused(error.what, where=error.where, fix=error.fix) from error
    return asked


def apply(
    factors: Mapping[str, Level],
    asked: TestbedAsked,
    testbed: Testbed,
    agents: Mapping[str, AgentClient],
    online: frozenset[int],
) -> dict[str, Any]:
    """Set every knob of a treatment, read all back, and return what was found, endpoint by endpoint.

    Raises TreatmentRefused, naming the knob, the place and the fix, when one did not take effect.
    """
    wanted = settings(factors, testbed, online)
    mtu = _network_mtu(factors, asked)
    try:
        if mtu is not None:
            netns.set_network_mtu(testbed, mtu, only_raise=True)
        for endpoint in testbed.endpoints:
            _set_all(agents[endpoint.name], [s for s in wanted if s.endpoint == endpoint])
        if mtu is not None:
            netns.set_network_mtu(testbed, mtu)
        rate = _shape_links(factors, asked, testbed)
    except TreatmentRefused:
        raise
    except BenchError as error:
        raise TreatmentRefused(error.what, where=error.where, fix=error.fix) from error
    found = read_back(testbed, agents)
    for setting in wanted:
        _judge(setting, found[setting.endpoint.name].get(setting.knob))
    effective = _where_alike(found)
    if "link_rate" in factors:
        effective["link_rate"] = "none" if rate is None else rate
    if (network := netns.network_mtu(testbed)) is not None:
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


def _set_all(agent: AgentClient, wanted: list[Setting]) -> None:
    for setting in wanted:
        try:
            agent.call("knob.set", interface=setting.interface, knob=setting.knob, value=setting.value)
        except AgentError as error:
            if error.is_dead:
                raise
            raise TreatmentRefused(
                f"{setting.knob} = {_shown(setting.value)} was refused: {error.message}",
                where=setting.where,
                fix=FIXES[setting.knob],
            ) from error


def _judge(setting: Setting, found: object) -> None:
    if setting.knob in CPU_LISTS and isinstance(found, str):
        alike = cpus_in(found) == cpus_in(str(setting.value))
    else:
        alike = found == setting.value
    if not alike:
        raise TreatmentRefused(
            f"{setting.knob} = {_shown(setting.value)} did not take effect: {_shown(found)} was read back",
            where=setting.where,
            fix=FIXES[setting.knob],
        )


def _shape_links(factors: Mapping[str, Level], asked: TestbedAsked, testbed: Testbed) -> float | None:
    if "link_rate" not in factors:
        return None
    level = factors["link_rate"]
    rate = None if level == "none" else float(level)
    devices = testbed.uplinks or tuple(e.device for e in testbed.endpoints)
    found = [shape(device, rate, asked.shaper) for device in devices]
    for device, value in zip(devices, found, strict=True):
        # The kernel keeps whole bytes per second.
        if rate is not None and (value is None or abs(value - rate) > 8):
            raise TreatmentRefused(
                f"link_rate = {rate:g} bit/s did not take effect: {value} was read back",
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
