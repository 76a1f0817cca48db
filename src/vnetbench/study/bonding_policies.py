"""Policies of teams in guests: modes and hash policies of Linux's bonding driver, and their options."""

from __future__ import annotations

from vnetbench.study.teams import ACTIVE_BACKUP, LACP_POLICY_PREFIX, TeamSpec

XMIT_HASH_POLICIES = ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac")
LACP_MODE, HASH_MODE = "802.3ad", "balance-xor"
"""Modes of the driver that have a hash policy."""
LACP_POLICIES = tuple(f"{LACP_POLICY_PREFIX}{name}" for name in XMIT_HASH_POLICIES)
MODES_WITHOUT_HASH = (ACTIVE_BACKUP, "balance-rr", "broadcast", "balance-tlb", "balance-alb")
BONDING_POLICIES = (*MODES_WITHOUT_HASH, *XMIT_HASH_POLICIES, *LACP_POLICIES)
"""Policies of Linux bonding by the names of `vnetbench team policies`. A hash policy alone is balance-xor."""
MODES_FOR_A_PLAIN_SWITCH = (ACTIVE_BACKUP, "balance-tlb", "balance-alb")
"""Modes whose other end is a switch that does not bundle the links (bonding.rst, "Switch Configuration")."""
LINK_MONITOR_INTERVAL_MS = 100
"""Interval in which the driver looks for lost carriers: the value that bonding.rst recommends."""


def mode_of_policy(policy: str) -> str:
    """Return the mode of the bonding driver that runs a policy."""
    if policy in LACP_POLICIES:
        return LACP_MODE
    return HASH_MODE if policy in XMIT_HASH_POLICIES else policy


def has_bundled_far_end(policy: str) -> bool:
    """Return whether the other end of the links has to be a team as well."""
    return mode_of_policy(policy) not in MODES_FOR_A_PLAIN_SWITCH


def bonding_options(spec: TeamSpec, first_member: str, *, is_passive: bool = False) -> dict[str, str]:
    """Return the options of the bonding driver for a team, by the names of bonding.rst.

    Args:
        spec: The team.
        first_member: The member that active-backup prefers.
        is_passive: Whether this end negotiates LACP only when the other one does.
    """
    mode = mode_of_policy(spec.policy)
    options = {"mode": mode, "miimon": str(LINK_MONITOR_INTERVAL_MS)}
    if mode in (HASH_MODE, LACP_MODE):
        options["xmit_hash_policy"] = spec.policy.removeprefix(LACP_POLICY_PREFIX)
    if mode == LACP_MODE:
        options["lacp_rate"] = spec.lacp_timer
        if is_passive:
            options["lacp_active"] = "off"
    if mode == ACTIVE_BACKUP:
        options["primary"] = first_member
    return options
