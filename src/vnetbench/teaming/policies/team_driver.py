"""The team driver (libteam): its hash is a BPF program that teamd makes of its setting `tx_hash`."""

from __future__ import annotations

from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.prediction import Prediction, certain, undecided
from vnetbench.teaming.team import Team


def _choose(flow: Flow, team: Team) -> Prediction:
    if len(team.usable) == 1:
        return certain(team.usable[0])
    return undecided(
        team.usable,
        "teamd's setting tx_hash, the order in which its ports came up, and tx_balancer, which moves flows",
    )


POLICIES = (
    Policy(
        "team-hash", "Team driver", "hash of the fields in tx_hash", "table",
        "Linux 6.1, drivers/net/team/team_mode_loadbalance.c, lb_transmit", (), _choose,
    ),
)  # fmt: skip
ALIASES = {"loadbalance": "team-hash"}
