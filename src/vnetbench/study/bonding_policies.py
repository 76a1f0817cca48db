"""Policies of teams in guests: modes and hash policies of Linux's bonding driver, and their options."""

from __future__ import annotations

from vnetbench.study.teams import (
    ACTIVE_BACKUP,
    BALANCE_ALB,
    BALANCE_RR,
    BALANCE_TLB,
    BONDING_HASHES,
    LACP_POLICY_PREFIX,
    TeamSpec,
)

LACP_MODE, HASH_MODE = "802.3ad", "balance-xor"
"""Modes of the driver that have a hash policy."""
LACP_POLICIES = tuple(f"{LACP_POLICY_PREFIX}{name}" for name in BONDING_HASHES)
MODES_WITHOUT_HASH = (ACTIVE_BACKUP, BALANCE_RR, "broadcast", BALANCE_TLB, BALANCE_ALB)
BONDING_POLICIES = (*MODES_WITHOUT_HASH, *BONDING_HASHES, *LACP_POLICIES)
"""Policies of Linux bonding by the names of `vnetbench team policies`. A hash policy alone is balance-xor."""
LINK_MONITOR_INTERVAL_MS = 100
"""Interval in which the driver looks for lost carriers: the value that bonding.rst recommends."""


def mode_of_policy(policy: str) -> str:
    """Return the mode of the bonding driver that runs a policy."""
    if policy in LACP_POLICIES:
        return LACP_MODE
    return HASH_MODE if policy in BONDING_HASHES else policy


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
