"""Knobs of interfaces, changed after the bench has set and proved them; by our agents, as the bench does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from bench.corpus.scene import Disturb, Scene
from vnetbench.agents.client import AgentClient, AgentError

UPLINK_END = "up0"
Values = Mapping[str, object]


def at_ends(sides: str, values: Values) -> Disturb:
    """Knobs of the interfaces of all endpoints of these sides."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        places = [
            (scene.bed.agents[end.name], end.interface) for end in scene.bed.endpoints if end.side in sides
        ]
        with _changed(places, values):
            yield

    return disturb


def at_ports(values: Values, sides: str = "ab") -> Disturb:
    """Knobs of the ports of the virtual switches that lead to endpoints of these sides."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        if not any(scene.bed.topology.ports):  # joined directly
            yield
            return
        agent = scene.agent_at_switch()
        with _changed([(agent, end.name) for end in scene.bed.endpoints if end.side in sides], values):
            yield

    return disturb


def at_uplink(values: Values) -> Disturb:
    """Knobs of the uplink's end at the virtual switch of side a."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        with _changed([(scene.agent_at_switch(), UPLINK_END)], values):
            yield

    return disturb


@contextmanager
def _changed(places: list[tuple[AgentClient, str]], values: Values) -> Iterator[None]:
    with ExitStack() as changed:
        for agent, interface in places:
            changed.enter_context(_changed_at(agent, interface, values))
        yield


@contextmanager
def _changed_at(agent: AgentClient, interface: str, values: Values) -> Iterator[None]:
    before = agent.call("knob.get", interface=interface, knobs=list(values))["values"]
    try:
        for knob, value in values.items():
            agent.call("knob.set", interface=interface, knob=knob, value=value)
        yield
    finally:
        for knob in reversed(before):
            with suppress(AgentError):  # an agent that is gone takes its testbed with it
                agent.call("knob.set", interface=interface, knob=knob, value=before[knob])
