"""Predict all flows of a team in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vnetbench.teaming.flows import Flow
from vnetbench.teaming.loads import TeamLoad, compute_load
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.policies.registry import POLICIES
from vnetbench.teaming.prediction import Prediction, certain, undecided
from vnetbench.teaming.team import Team, Uplink

MAC_LEARNING = "mac-learning"
"""Reverse policy of a switch without a channel: answers take the uplink on which it learned the address."""
ACTIVE_MEMBER = "active-member"
"""Reverse policy of a switch that only knows the address of the active member, as with balance-tlb."""
UNKNOWN = "unknown"
"""Reverse policy that nobody knows."""
REVERSE_RULES = (MAC_LEARNING, ACTIVE_MEMBER, UNKNOWN)
"""Reverse policies that are no policy of a team."""
_RULE_BY_ANSWERS = {"learned": MAC_LEARNING, "active member": ACTIVE_MEMBER, "unknown": UNKNOWN}


@dataclass(frozen=True)
class FlowPrediction:
    """One flow with the uplinks of both directions."""

    flow: Flow
    forward: Prediction
    reverse: Prediction


@dataclass(frozen=True)
class TeamPrediction:
    """The answer of `team predict`.

    Attributes:
        policy: Policy of the side that sends the flows.
        reverse_policy: Policy of the other side, or one of `REVERSE_RULES`.
        team: The team, seen from the side that sends the flows.
        reverse_team: The same links, seen from the other side.
        flows: Flows in the order given.
    """

    policy: Policy
    reverse_policy: Policy | str
    team: Team
    reverse_team: Team
    flows: tuple[FlowPrediction, ...]

    @property
    def reverse_policy_name(self) -> str:
        """Name of the other side's policy, or one of `REVERSE_RULES`."""
        return self.reverse_policy if isinstance(self.reverse_policy, str) else self.reverse_policy.name

    @cached_property
    def forward_load(self) -> TeamLoad:
        """Load of the uplinks in the direction of the flows."""
        return compute_load([each.forward for each in self.flows], self.team)

    @cached_property
    def reverse_load(self) -> TeamLoad:
        """Load of the uplinks in the direction of the answers."""
        return compute_load([each.reverse for each in self.flows], self.reverse_team)


def predict_flows(
    flows: Sequence[Flow],
    policy: Policy,
    team: Team,
    reverse_policy: Policy | str | None = None,
    reverse_team: Team | None = None,
) -> TeamPrediction:
    """Return the prediction of each flow and its answers.

    Args:
        flows: Flows in the direction of the team's sending side.
        policy: Policy of that side.
        team: State of that side.
        reverse_policy: Policy of the other side, one of `REVERSE_RULES`, or None: what `policy.answers` says.
        reverse_team: State of the other side; None: unknown but for the links.

    Raises:
        BenchError: A flow lacks a field that a policy needs, or the team does not fit the policy.
    """
    if reverse_policy is None:
        reverse_policy = _RULE_BY_ANSWERS.get(policy.answers, policy)
    if reverse_team is None:
        reverse_team = Team(tuple(Uplink(each.name, each.speed_bps, each.is_up) for each in team.uplinks))
        if reverse_policy == ACTIVE_MEMBER:
            reverse_team = replace(reverse_team, active=team.active)
    predictions = []
    for flow in flows:
        forward = policy.predict(flow, team)
        reverse = _predict_reverse(flow, forward, reverse_policy, reverse_team)
        predictions.append(FlowPrediction(flow, forward, reverse))
    return TeamPrediction(policy, reverse_policy, team, reverse_team, tuple(predictions))


def count_independent_flows(prediction: TeamPrediction) -> int:
    """Return how many flows differ in a field that the policy reads; others surely share their uplink."""
    policy = prediction.policy
    names = [*policy.needs, "inner"]
    if "source_port" in policy.needs:
        names += ["spi", "icmp_type", "icmp_code", "icmp_id"]
    # A field that need not be known counts as 0 without a value.
    return len(
        {
            (
                *(getattr(each.flow, name) for name in names),
                *(getattr(each.flow, name) or 0 for name in policy.also_reads),
            )
            for each in prediction.flows
        }
    )


def _predict_reverse(flow: Flow, forward: Prediction, policy: Policy | str, team: Team) -> Prediction:
    if isinstance(policy, Policy):
        return policy.predict(flow.reverse(), team)
    if policy == ACTIVE_MEMBER:
        return POLICIES["active-backup"].predict(flow.reverse(), team)
    if policy == UNKNOWN:
        return undecided(team.usable, "the policy of the other side, which is unknown")
    if forward.uplink is not None:
        return certain(forward.uplink, "the switch has no channel, and learned the sender's address there")
    text = "the uplink of the forward direction, where the switch learned the sender's address"
    prediction = undecided(forward.candidates, text, forward.group)
    return replace(prediction, uplink_by_formula=forward.uplink_by_formula)
