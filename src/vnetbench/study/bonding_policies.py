"""Policies of teams in guests: modes and hash policies of Linux's bonding driver, and the options that set them."""

from __future__ import annotations

from vnetbench.study.teams import LACP_FAST, LACP_OFF, TeamSpec
from vnetbench.teaming.policies.linux_bonding import XMIT_HASH_POLICIES

LACP_MODE, HASH_MODE = "802.3ad", "balance-xor"
"""Modes of the driver that have a hash policy."""
LACP_POLICIES = tuple(f"{LACP_MODE}/{name}" for name in XMIT_HASH_POLICIES)
MODES_WITHOUT_HASH = ("active-backup", "balance-rr", "broadcast", "balance-tlb", "balance-alb")
BONDING_POLICIES = (*MODES_WITHOUT_HASH, *XMIT_HASH_POLICIES, *LACP_POLICIES)
"""Policies of Linux bonding by the names of `vnetbench team policies`. A hash policy alone is balance-xor."""
MODES_FOR_A_PLAIN_SWITCH = ("active-backup", "balance-tlb", "balance-alb")
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


def bonding_options(spec: TeamSpec, first_member: str) -> dict[str, str]:
    """Return the options of the bonding driver for a team, by the names of bonding.rst.

    Args:
        spec: The team.
        first_member: The member that active-backup prefers.
    """
    mode = mode_of_policy(spec.policy)
    options = {"mode": mode, "miimon": str(LINK_MONITOR_INTERVAL_MS)}
    if mode in (HASH_MODE, LACP_MODE):
        options["xmit_hash_policy"] = spec.policy.removeprefix(f"{LACP_MODE}/")
    if mode == LACP_MODE:
        options["lacp_rate"] = bonding_lacp_timer(spec)
    if mode == "active-backup":
        options["primary"] = first_member
    return options


def bonding_lacp_timer(spec: TeamSpec) -> str:
    """Return the timer of LACP of a team in guests, `slow` or `fast`; `off` without LACP."""
    if spec.policy not in LACP_POLICIES:
        return LACP_OFF
    return spec.lacp if spec.lacp in ("slow", LACP_FAST) else LACP_FAST
