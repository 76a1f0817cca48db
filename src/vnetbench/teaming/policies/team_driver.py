"""The team driver (libteam): its hash is a BPF program that teamd makes of its setting `tx_hash`.

Sources: teamd_hash_func.c and teamd_bpf_chef.c of libteam 1.32; drivers/net/team/team_mode_loadbalance.c of
Linux 6.1.
"""

from __future__ import annotations

from functools import reduce
from operator import xor

from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.prediction import Prediction, certain
from vnetbench.teaming.team import Team

_ASSUMPTION = (
    "teamd has its default tx_hash (eth, ipv4, ipv6) and no tx_balancer, and its ports came up in the order"
    " of the list"
)


def hash_default_fields(flow: Flow) -> int:
    """Return the hash of the default `tx_hash`: the XOR of all bytes of both MAC and both IP addresses.

    The program XORs words of the packet, and lb_get_skb_hash() XORs the four bytes of its result.
    """
    assert flow.source_mac is not None and flow.destination_mac is not None
    assert flow.source is not None and flow.destination is not None
    return reduce(xor, flow.source_mac + flow.destination_mac + flow.source.packed + flow.destination.packed)


def _choose(flow: Flow, team: Team) -> Prediction:
    return certain(team.usable[hash_default_fields(flow) % len(team.usable)], _ASSUMPTION)


POLICIES = (
    Policy(
        "team-hash", "Team driver", "XOR of all bytes of MAC and IP addresses", "hash",
        "Linux 6.1, drivers/net/team/team_mode_loadbalance.c, lb_transmit; libteam, teamd_bpf_chef.c",
        ("source_mac", "destination_mac", "source", "destination"), _choose,
    ),
)  # fmt: skip
ALIASES = {"loadbalance": "team-hash"}
