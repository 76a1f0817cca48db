"""All team policies by name."""

from __future__ import annotations

import difflib

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.teaming.policies import esxi, linux_bonding, open_vswitch, switch, team_driver
from vnetbench.teaming.policies.policy import Policy

_FAMILIES = (linux_bonding, team_driver, esxi, open_vswitch, switch)
POLICIES: dict[str, Policy] = {policy.name: policy for family in _FAMILIES for policy in family.POLICIES}
"""Policies by their name."""
ALIASES: dict[str, str] = {alias: name for family in _FAMILIES for alias, name in family.ALIASES.items()}
"""Other names of policies, such as those in a product's settings."""

_LACP_NAMES = ("lacp", "802.1ax", "link-aggregation")


def find_policy(name: str) -> Policy:
    """Return the policy of this name or alias.

    Raises:
        BenchError: There is no such policy.
    """
    key = name.strip().lower()
    if key in _LACP_NAMES:
        raise BenchError(
            "LACP finds the links of a bundle, and has no policy of its own",
            fix="name the hash, such as 802.3ad/layer2+3, balance-tcp or team-hash; "
            "vnetbench team policies lists all",
        )
    policy = POLICIES.get(ALIASES.get(key, key))
    if policy is None:
        near = difflib.get_close_matches(key, (*POLICIES, *ALIASES), n=3)
        hint = f"use {' or '.join(near)}" if near else "choose one of `vnetbench team policies`"
        raise BenchError(f'there is no policy "{make_printable(name[:80])}"', fix=hint)
    return policy
