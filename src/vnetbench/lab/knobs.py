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
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.factors.testbed_factors import TESTBED_FACTORS, VM_CPUS
from vnetbench.study.model import Level

INTERFACE_KNOBS = tuple(knob for factor in TESTBED_FACTORS for knob in factor.knobs)
"""Knobs that every endpoint's interface has; the agent reads them back with each treatment."""
CPUS_KNOB, RPS_KNOB = "cpus", "rps_cpus"
CPU_LIST_KNOBS = (CPUS_KNOB, RPS_KNOB, "irq_cpus", "napi_cpus")
SPREAD_CPUS_LEVEL = "spread"
INTERRUPT_CPU_LIST_SEPARATOR = ";"
"""Separates the CPU lists of an adapter's interrupts if they differ, so that none is the requested one."""
MAX_SETTING_ROUNDS = 2
"""Setting one knob may change another that was already set, which then needs a second round."""

KNOB_FACTORS = sorted(
    (factor for factor in FACTORS.values() if factor.knobs), key=lambda factor: factor.knob_setting_order
)
"""Factors that set knobs of an endpoint's interface, in the order in which a treatment sets them."""
FIX_BY_KNOB = {
    **{knob: factor.knob_fix for factor in FACTORS.values() for knob in factor.knobs},
    "cpus": FACTORS["cpus"].knob_fix,
    "napi_cpus": FACTORS["device_cpus"].knob_fix,
    "napi_has_priority": FACTORS["device_cpus"].knob_fix,
}
"""Fix of each knob for the case that a system refuses it or reads back another value."""


@dataclass(frozen=True)
class KnobSetting:
    """One knob of one endpoint and the value that a treatment requests."""

    endpoint: Endpoint
    knob: str
    value: Level | bool
    requesting_level: str
    """The level that requests the value, as the study writes it."""
    factor: str = ""
    """The factor whose level requests the value; empty if something else does."""

    @property
    def interface(self) -> str | None:
        """The interface of the knob; None for a knob of the endpoint itself."""
        return None if self.knob == CPUS_KNOB else self.endpoint.interface

    @property
    def where(self) -> str:
        """Endpoint and interface, for error messages."""
        return f"{self.endpoint.name} {self.interface}" if self.interface else self.endpoint.name

    def matches(self, value_read: object) -> bool:
        """Whether the value that was read back is the requested one."""
        if (
            self.knob in CPU_LIST_KNOBS
            and isinstance(value_read, str)
            and SPREAD_CPUS_LEVEL not in (value_read, self.value)
        ):
            return INTERRUPT_CPU_LIST_SEPARATOR not in value_read and parse_cpu_set(
                value_read
            ) == parse_cpu_set(str(self.value))
        if isinstance(value_read, float) and isinstance(self.value, float):
            return math.isclose(
                value_read, self.value, rel_tol=1e-9
            )  # A duration, which the agent keeps in µs.
        return value_read == self.value


def requested_knob_settings(
    factors: Mapping[str, Level],
    endpoints: Sequence[Endpoint],
    cpus: Mapping[str, frozenset[int]],
    online_cpus: frozenset[int],
) -> list[KnobSetting]:
    """Return all settings of a treatment in the order in which they must be made.

    Args:
        factors: The treatment's levels.
        endpoints: The endpoints to set.
        cpus: CPUs of each endpoint's processes.
        online_cpus: All CPUs of the machine.

    Raises:
        BenchError: if a CPU does not exist.
    """
    settings: list[KnobSetting] = []

    requested_factors = [factor for factor in KNOB_FACTORS if factor.is_present_in(factors)]
    for endpoint in endpoints:
        own_cpus = cpus[endpoint.name]
        requested_by = VM_CPUS.format_as_assignment(VM_CPUS.read_level(factors))
        settings.append(
            KnobSetting(endpoint, CPUS_KNOB, format_cpu_list(own_cpus), requested_by, VM_CPUS.name)
        )
        for factor in requested_factors:
            level = factors[factor.name]
            requested_by = factor.format_as_assignment(level)
            for knob in factor.knobs:
                value: Level | bool
                if knob == RPS_KNOB:
                    value = select_rps_cpus(str(level), endpoint, own_cpus, online_cpus)
                else:
                    value = level == "on" if factor.value_type.is_on_off else level
                settings.append(KnobSetting(endpoint, knob, value, requested_by, factor.name))
    return settings


def apply_settings_and_read_knobs(
    settings: Sequence[KnobSetting],
    endpoints: Sequence[Endpoint],
    agents: Mapping[str, AgentClient],
    fix_by_knob: Mapping[str, str] = FIX_BY_KNOB,
) -> dict[str, dict[str, Any]]:
    """Set the knobs that differ from the requested values and return all knobs of every endpoint.

    Raises:
        TreatmentRefused: if an agent refuses a knob.
    """
    values = read_knobs(endpoints, agents, settings)
    for _ in range(MAX_SETTING_ROUNDS):
        pending = [s for s in settings if not s.matches(values[s.endpoint.name].get(s.knob))]
        if not pending:
            break
        for setting in pending:
            set_knob(agents[setting.endpoint.name], setting, fix_by_knob[setting.knob])
        values = read_knobs(endpoints, agents, settings)
    return values


def check_settings(
    settings: Iterable[KnobSetting],
    values: Mapping[str, Mapping[str, Any]],
    fix_by_knob: Mapping[str, str] = FIX_BY_KNOB,
) -> None:
    """Raise TreatmentRefused for the first setting that did not take effect."""
    for setting in settings:
        if not setting.matches(value := values[setting.endpoint.name].get(setting.knob)):
            raise TreatmentRefused(
                f"{setting.requesting_level} did not take effect: {_format_value(value)} was read back",
                where=setting.where,
                fix=fix_by_knob[setting.knob],
                factor=setting.factor,
            )


def merge_knob_values(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the value of each knob, or a mapping by endpoint if the endpoints differ."""
    return {
        knob: merge_if_equal({name: knobs.get(knob) for name, knobs in values.items()})
        for knob in next(iter(values.values()), {})
    }


def smallest_mtu(effective: Mapping[str, Any]) -> int:
    """Return the smallest MTU of all endpoints from a treatment's effective values."""
    mtu = effective["mtu"]
    return int(min(mtu.values()) if isinstance(mtu, dict) else mtu)


def read_knobs(
    endpoints: Sequence[Endpoint], agents: Mapping[str, AgentClient], settings: Iterable[KnobSetting] = ()
) -> dict[str, dict[str, Any]]:
    """Return all knobs of every endpoint, with those of `settings` that few adapters have."""
    requested = {setting.knob: None for setting in settings if setting.interface}
    knobs = list({**dict.fromkeys(INTERFACE_KNOBS), **requested})
    pending: list[tuple[str, Future[dict[str, Any]]]] = []
    for endpoint in endpoints:
        agent = agents[endpoint.name]
        pending.append((endpoint.name, agent.send("knob.get", interface=endpoint.interface, knobs=knobs)))
        pending.append((endpoint.name, agent.send("knob.get", interface=None, knobs=[CPUS_KNOB])))
    values: dict[str, dict[str, Any]] = {endpoint.name: {} for endpoint in endpoints}
    for name, future in pending:
        values[name].update(agents[name].wait(future, "knob.get")["values"])
    return values


def knob_values_if_changed(
    effective: Mapping[str, Any], endpoints: Sequence[Endpoint], agents: Mapping[str, AgentClient]
) -> dict[str, Any]:
    """Return the knobs that no longer have a treatment's `effective` values.

    Values of other endpoints, such as forwarding guests, are copied unchanged.
    """
    now = read_knobs([each for each in endpoints if each.name in agents], agents)
    changed = {}
    for knob in INTERFACE_KNOBS:
        stored = effective.get(knob)
        before = stored if isinstance(stored, dict) else dict.fromkeys(now, stored)
        values = {name: knobs[knob] for name, knobs in now.items() if knob in knobs}
        if any(before.get(name) != value for name, value in values.items()):
            changed[knob] = merge_if_equal({**before, **values})
    return changed


def set_knob(agent: AgentClient, setting: KnobSetting, fix: str) -> object:
    """Set a knob and return the value that the agent read back; raises TreatmentRefused if it refuses."""
    try:
        answer = agent.call("knob.set", interface=setting.interface, knob=setting.knob, value=setting.value)
    except AgentError as error:
        if error.has_agent_ended:
            raise
        # The agent's reason is a predicate, such as "cannot be set: Operation not supported".
        reason = error.data.get("reason")
        what = f"{setting.requesting_level} {reason or f'cannot be set: {error.message}'}"
        raise TreatmentRefused(what, where=setting.where, fix=fix) from error
    return answer["effective"]


def merge_if_equal(values: Mapping[str, object]) -> object:
    """Return the common value of all endpoints, or a mapping by endpoint if they differ."""
    first, *others = values.values()
    return first if all(value == first for value in others) else dict(values)


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing" if value in ("", None) else str(value)
