"""Interfaces that every lab implements: create testbeds, apply treatments, close testbeds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vnetbench.agents.client import AgentClient
from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import SIDES, Endpoint
from vnetbench.study.model import Level, TestbedSpec

if TYPE_CHECKING:
    from vnetbench.lab.hosts.ssh import Machine

StreamSettings = Mapping[str, Sequence[Mapping[str, Any]]]
"""The streams of each endpoint of a trial as its agent reads them back (`trial.prepare` in the protocol)."""


class Testbed(Protocol):
    """A running testbed with an agent on every endpoint. Close it after use."""

    agents: dict[str, AgentClient]
    """Agents by the name of their endpoint or forwarding guest."""
    online_cpus: frozenset[int]
    """CPUs of the bench's own machine that it may use."""

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All endpoints, pair by pair, side a first."""

    def set_knobs_and_prove_paths(self, factors: Mapping[str, Level], spec: TestbedSpec) -> dict[str, Any]:
        """Set a treatment's knobs and prove the paths.

        Returns:
            The values that were read back, by knob.

        Raises:
            TreatmentRefused: if a knob did not take effect or a path does not pass packets.
        """

    def observer_targets(self) -> Mapping[str, object] | None:
        """Return what the observer watches besides the machine (`watch` of the agent's `trial.prepare`)."""

    def interfaces_by_forwarding_agent(self) -> Mapping[str, Sequence[str]]:
        """Return the interfaces of each agent that forwards frames between the endpoints."""

    def watched_interfaces(self, endpoint: Endpoint) -> Sequence[str]:
        """Return what an endpoint's agent counts besides its own interface, such as members of a team."""

    def reset_delay_line_counters_and_seeds(self) -> None:
        """Reset the counters of all delay lines, since one setup may serve several trials."""

    def read_delay_line_counters(self) -> Sequence[Mapping[str, Any]]:
        """Return the counters of all delay lines since the last reset (the agent's `delay_line.read`)."""

    def read_mac_moves(self) -> Sequence[Mapping[str, int | None]]:
        """Return how often addresses moved between ports of the switches of each team, by its end."""

    def read_teams(self, *, has_lasting_flows: bool, streams: StreamSettings) -> Sequence[Mapping[str, Any]]:
        """Return the teams: state, and links of the connected flows (docs/results-file.md, `teams`).

        The bench calls it when all streams are connected, just before the load.

        Args:
            has_lasting_flows: Whether the flows that are connected now carry all of the load. Otherwise their
                links say nothing.
            streams: The connected streams.

        Raises:
            TrialFailed: if a team is no longer as the treatment requests.
            BenchError: if the flows cannot be listed.
        """

    def next_hop_mac(self, endpoint: Endpoint, ip_version: str) -> str:
        """Return the destination MAC address of frames from an endpoint to its peer.

        Raises:
            BenchError: if the address is unknown.
        """

    @property
    def rejected_frame_outcome(self) -> Literal["lost", "unsent"]:
        """How to count a frame that an endpoint's port rejects: `lost` or `unsent`.

        It is `lost` if the full queue belongs to the device under test, else `unsent`.
        """

    def load_cpus_in_endpoint_numbering(self, factors: Mapping[str, Level]) -> Mapping[str, frozenset[int]]:
        """Return the CPUs that each endpoint's load may use in a treatment, in the endpoint's numbering.

        Raises:
            BenchError: if a CPU does not exist.
        """

    def machines_to_audit(self) -> Mapping[str, Machine | AgentClient]:
        """Return the machines whose settings a campaign stores, by their names in its results.

        A machine with a shell is a `Machine`; a guest that only has an agent is an `AgentClient`. It is empty
        if the treatments set all settings that matter.
        """

    def describe(self) -> Mapping[str, object]:
        """Return the description for the results file: `lab` (its name) and `endpoints` (with `name`)."""

    def close(self) -> None:
        """End the agents and remove everything that was created, in any state of the testbed."""


class Lab(Protocol):
    """A factory of testbeds for one study."""

    @property
    def max_testbeds(self) -> int:
        """Maximum number of testbeds that may exist at the same time."""

    def testbed_shape(self, factors: Mapping[str, Level]) -> Hashable:
        """Return what a treatment requires of its testbed; its text names the testbed in the results file."""

    def create_testbed(self, name: str, shape: Hashable) -> Testbed:
        """Create a testbed; after an error, remove what was created.

        Raises:
            BenchError: if the machine refuses a step.
            AgentError: if an agent ends before it answers.
        """

    def remove_unfinished_testbeds(self, name_prefix: str) -> None:
        """Remove the testbeds with this name prefix that an interrupted creation left."""


def query_mac_address(agent: AgentClient, interface: str) -> str:
    """Return the MAC address of an interface from its agent; raises BenchError if it has none."""
    interfaces = agent.call("agent.facts")["interfaces"]
    mac = next((each["mac"] for each in interfaces if each["name"] == interface), None)
    if not mac:
        raise BenchError(
            f"{interface} has no MAC address, so it cannot receive frames",
            where=agent.endpoint,
            fix="name an Ethernet interface",
        )
    return str(mac)


def endpoint_pairs(testbed: Testbed) -> list[tuple[Endpoint, Endpoint]]:
    """Return the two endpoints of each pair, side a first."""
    sides = {side: [e for e in testbed.endpoints if e.side == side] for side in SIDES}
    return list(zip(sides["a"], sides["b"], strict=True))
