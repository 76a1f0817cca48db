"""What every lab offers: testbeds that can be raised, set as a treatment asks, and closed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from vnetbench.agents.client import AgentClient
from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.study.model import Level, TestbedAsked


class Bed(Protocol):
    """A testbed that exists now, with an agent on every endpoint. It lives, and must be closed."""

    agents: dict[str, AgentClient]
    """By the name of the endpoint, or of what stands between endpoints."""
    online: frozenset[int]
    """The CPUs of the bench's own machine that may be used."""

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All of them, pair by pair, side a first."""

    def apply(self, factors: Mapping[str, Level], asked: TestbedAsked) -> dict[str, Any]:
        """Set a treatment's knobs and prove the path; returns what was found. Raises TreatmentRefused."""

    def watch(self) -> Mapping[str, object] | None:
        """What the observer looks at beside the machine (`watch` of the agent's `trial.prepare`)."""

    def between(self) -> Mapping[str, Sequence[str]]:
        """The agents between the ends, that forward what goes from one to the other, and their interfaces."""

    def begin_line_counts(self) -> None:
        """Have delay lines between the ends count from now on: a testbed set once may have many runs."""

    def line_counts(self) -> Sequence[Mapping[str, Any]]:
        """What delay lines between the ends have counted since that was begun (`line.read` of the agent)."""

    def next_hop(self, endpoint: Endpoint, ip_version: str) -> str:
        """The MAC address that frames from an endpoint to the other one of its pair are sent to.

        Raises BenchError where it cannot be found out.
        """

    @property
    def refused_frames(self) -> str:
        """What a frame is that an endpoint's port does not take: `lost` or `unsent`.

        It is lost where the queue that was full is the first of the device under test, and else the port's.
        """

    def cpus(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """The CPUs that each endpoint's load may use in a treatment.

        They are numbered as the endpoint numbers them. Raises BenchError for CPUs that are not there.
        """

    def as_facts(self) -> Mapping[str, object]:
        """The description for the results file."""

    def close(self) -> None:
        """End the agents and undo all that was made; leaves nothing behind, whatever state it is in."""


class Lab(Protocol):
    """What makes testbeds, or finds them."""

    @property
    def most_kept(self) -> int:
        """So many testbeds may stand side by side."""

    def shape(self, factors: Mapping[str, Level]) -> Hashable:
        """What of a treatment decides which testbed it needs; as a text, its name in the results file."""

    def raise_bed(self, name: str, shape: Hashable) -> Bed:
        """Make a testbed of this name and shape; on any fault what was made is removed again.

        Raises BenchError, or AgentError when an agent ends before it answers.
        """

    def remove_left(self, prefix: str) -> None:
        """Remove the testbeds whose names begin so: those that were broken off while they were raised."""


def mac_in(agent: AgentClient, interface: str) -> str:
    """The MAC address of an interface, as its agent says; raises BenchError where it does not."""
    interfaces = agent.call("agent.facts")["interfaces"]
    mac = next((each["mac"] for each in interfaces if each["name"] == interface), None)
    if not mac:
        raise BenchError(
            f"{interface} has no MAC address, so no frames can be sent to it",
            where=agent.endpoint,
            fix="name an Ethernet interface",
        )
    return str(mac)


def pairs(bed: Bed) -> list[tuple[Endpoint, Endpoint]]:
    """The endpoints two by two: those that load runs between."""
    sides = {side: [e for e in bed.endpoints if e.side == side] for side in "ab"}
    return list(zip(sides["a"], sides["b"], strict=True))
