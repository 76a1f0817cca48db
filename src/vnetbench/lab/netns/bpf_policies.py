"""The policies of the agent's BPF team: the request of each, and the prediction that it has to fulfil."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.study.teams import (
    BONDING_HASHES,
    IP_HASH,
    IP_HASH_WHOLE,
    PHYSICAL_LOAD,
    PORT_ID,
    SOURCE_MAC,
    SWITCH_HASH_FIELDS,
    SWITCH_HASH_SIDES,
)
from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.prediction import Prediction, certain
from vnetbench.teaming.team import Team

_IP_FIELDS = ("source_ip", "destination_ip")
_MAC_FIELDS = ("source_mac", "destination_mac")
_FORMULA_BY_IP_HASH = {IP_HASH: 0, IP_HASH_WHOLE: 1}
"""Position of the formula in `Prediction.uplink_by_formula`."""


@dataclass(frozen=True)
class BpfPolicy:
    """What the request `team.start` says of a policy."""

    policy: str
    fields: tuple[str, ...] = ()
    reduction: str = "whole_number"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the request."""
        return {"policy": self.policy, "fields": list(self.fields), "reduction": self.reduction}


def _switch_policies() -> dict[str, BpfPolicy]:
    return {
        f"{family}-{side}-{suffix}": BpfPolicy(
            "fields", tuple(f"{end}_{field}" for field in fields for end in ends), reduction
        )
        for family, reduction in (("switch", "whole_number"), ("cisco", "eight_buckets"))
        for side, ends in SWITCH_HASH_SIDES.items()
        for suffix, fields in SWITCH_HASH_FIELDS.items()
    }


BPF_POLICY_BY_NAME: Mapping[str, BpfPolicy] = {
    "active-backup": BpfPolicy("active"),
    "balance-rr": BpfPolicy("turns"),
    "broadcast": BpfPolicy("copies"),
    **{name: BpfPolicy(f"bonding-{name}") for name in BONDING_HASHES},
    "team-hash": BpfPolicy("fields", _MAC_FIELDS + _IP_FIELDS, "xor_of_octets"),
    PORT_ID: BpfPolicy("port-table"),
    SOURCE_MAC: BpfPolicy("source-mac-table"),
    # With the parameter `balance`, which moves ports.
    PHYSICAL_LOAD: BpfPolicy("port-table"),
    IP_HASH: BpfPolicy("fields", _IP_FIELDS, "last_octet"),
    IP_HASH_WHOLE: BpfPolicy("fields", _IP_FIELDS),
    **_switch_policies(),
}
"""What a request says of each policy of `study.teams.BPF_POLICIES`."""


def find_predicted_policy(name: str) -> Policy:
    """Return the policy that predicts a team's policy of a study.

    The two formulas of IP hash are one policy of `team predict`, and two of a team, which runs one of them.
    """
    formula = _FORMULA_BY_IP_HASH.get(name)
    if formula is None:
        return find_policy(name)
    policy = find_policy(IP_HASH)

    def choose(flow: Flow, team: Team) -> Prediction:
        prediction = policy.choose(flow, team)
        return certain(prediction.uplink_by_formula[formula]) if prediction.uplink_by_formula else prediction

    return replace(policy, name=name, choose=choose)
