"""Interface knobs that agents change after the bench has set and verified them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.agents.client import AgentClient, AgentError

UPLINK_END = "up0"
ValueByKnob = Mapping[str, object]


def endpoint_knobs(sides: str, values: ValueByKnob) -> Disturbance:
    """Set knobs of the interfaces of all endpoints on these sides."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        interfaces = [
            (target.testbed.agents[end.name], end.interface)
            for end in target.testbed.endpoints
            if end.side in sides
        ]
        with _set_knobs(interfaces, values):
            yield

    return disturb


def port_knobs(values: ValueByKnob, sides: str = "ab") -> Disturbance:
    """Set knobs of the virtual switch ports to the endpoints on these sides."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        if not any(target.testbed.topology.ports_by_pair):  # a direct connection has no switch
            yield
            return
        agent = target.switch_agent()
        ports = [(agent, end.name) for end in target.testbed.endpoints if end.side in sides]
        with _set_knobs(ports, values):
            yield

    return disturb


def uplink_knobs(values: ValueByKnob) -> Disturbance:
    """Set knobs of the uplink's end at the virtual switch of side a."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        with _set_knobs([(target.switch_agent(), UPLINK_END)], values):
            yield

    return disturb


@contextmanager
def _set_knobs(interfaces: list[tuple[AgentClient, str]], values: ValueByKnob) -> Iterator[None]:
    with ExitStack() as stack:
        for agent, interface in interfaces:
            stack.enter_context(_set_interface_knobs(agent, interface, values))
        yield


@contextmanager
def _set_interface_knobs(agent: AgentClient, interface: str, values: ValueByKnob) -> Iterator[None]:
    original_values = agent.call("knob.get", interface=interface, knobs=list(values))["values"]
    try:
        for knob, value in values.items():
            agent.call("knob.set", interface=interface, knob=knob, value=value)
        yield
    finally:
        for knob in reversed(original_values):
            with suppress(AgentError):  # the testbed of an agent that ended is gone too
                agent.call("knob.set", interface=interface, knob=knob, value=original_values[knob])
