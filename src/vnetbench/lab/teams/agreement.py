"""Compares the uplinks that a policy predicts with the members that carried the flows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab.netns.topology import NetDevice
from vnetbench.lab.teams.flows import random_flows
from vnetbench.lab.teams.frames import Mark, build_frame
from vnetbench.lab.teams.members import MAX_FRAMES_IN_FLIGHT, CarriedFrames, carry_frames
from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.prediction import Prediction
from vnetbench.teaming.team import Team

PATH_TIMEOUT_S = 20.0
"""Longest wait until a new team forwards: bridge ports and LACP take some seconds."""
_PATH_PROBE_TIMEOUT_S = 0.2


@dataclass(frozen=True)
class Disagreement:
    """A flow that another member carried than predicted."""

    flow: Flow
    predicted: tuple[int, ...]
    carried_by: tuple[int, ...]


@dataclass(frozen=True)
class Agreement:
    """How many flows the predicted members carried."""

    flow_count: int
    agreed_count: int
    undecided_count: int
    """Flows for which the policy predicts no member, because it depends on what cannot be read."""
    lost_count: int
    """Flows that no member carried."""
    disagreements: tuple[Disagreement, ...]
    used_member_count: int
    """Members that carried at least one flow."""
    foreign_frame_count: int
    """Other frames that the members carried meanwhile. Where members take turns, each takes a turn too."""

    @property
    def ratio(self) -> float:
        """Share of all flows that agreed, from 0 to 1."""
        return self.agreed_count / self.flow_count


def carry_flows(
    source: NetDevice,
    members: Sequence[NetDevice],
    flows: Sequence[Flow],
    *,
    padding_bytes: int = 0,
    max_frames_in_flight: int = MAX_FRAMES_IN_FLIGHT,
) -> CarriedFrames:
    """Send one frame for each flow and return which members carried it.

    Args:
        source: The interface whose frames go to the team.
        members: Where the frames of each member arrive.
        flows: One frame is sent for each, in this order.
        padding_bytes: Zeroes in each payload, in addition to the mark.
        max_frames_in_flight: Most frames on their way at once. With one, they reach the team in this order.

    Raises:
        BenchError: if no frame can be built for a flow.
    """
    mark, padding = Mark(), bytes(padding_bytes)
    frames = [build_frame(flow, padding + mark.payload(number)) for number, flow in enumerate(flows)]
    return carry_frames(source, members, frames, mark, max_frames_in_flight=max_frames_in_flight)


def wait_until_forwarding(source: NetDevice, members: Sequence[NetDevice]) -> None:
    """Wait until a frame from the source arrives on a member; raises BenchError after the timeout."""
    (flow,) = random_flows(1, seed=0, is_plain=True)
    deadline = time.monotonic() + PATH_TIMEOUT_S
    while time.monotonic() < deadline:
        mark = Mark()
        frame = build_frame(flow, mark.payload(0))
        if carry_frames(source, members, [frame], mark, timeout_s=_PATH_PROBE_TIMEOUT_S).members_by_frame:
            return
    raise BenchError(
        f"no member of the team carried a frame within {PATH_TIMEOUT_S:g} s",
        where=source.display_name,
        fix="look at the state of the team: its links may be down, or LACP has no partner",
    )


def compare_with_prediction(
    policy: Policy, team: Team, flows: Sequence[Flow], carried: CarriedFrames
) -> Agreement:
    """Return how many flows the predicted members carried; raises BenchError for a flow without a field."""
    agreed = undecided = lost = 0
    disagreements: list[Disagreement] = []
    used: set[int] = set()
    for number, flow in enumerate(flows):
        members = carried.members(number)
        used.update(members)
        expected = _expected_members(policy.predict(flow, team), carried.member_before_frame.get(number))
        if not members:
            lost += 1
        elif expected is None:
            undecided += 1
        elif sorted(members) == sorted(expected):
            agreed += 1
        else:
            disagreements.append(Disagreement(flow, expected, tuple(members)))
    foreign = carried.foreign_frame_count
    return Agreement(len(flows), agreed, undecided, lost, tuple(disagreements), len(used), foreign)


def _expected_members(prediction: Prediction, previous: int | None) -> tuple[int, ...] | None:
    """Return the members that must carry a frame, each once; None if the prediction does not say.

    Where members take turns, it is the one after `previous`, which carried the frame before.
    """
    if prediction.uplink is not None:
        return (prediction.uplink,)
    if prediction.spread == "copy on each":
        return prediction.candidates
    if prediction.spread == "packets in turn" and previous in prediction.candidates:
        turn = prediction.candidates.index(previous) + 1
        return (prediction.candidates[turn % len(prediction.candidates)],)
    return None
