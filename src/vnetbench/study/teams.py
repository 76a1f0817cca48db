"""A team of a study's testbed: links between two switches that act as one."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.quantity import parse_bit_rate

BETWEEN_VSWITCHES = "vswitches"
"""Location of a team: its links join the two virtual switches on the path of every pair."""
IN_GUESTS, IN_GATEWAYS = "guests", "gateways"
"""Locations of teams of Linux bonding: in the two guests of a pair, or in two guests that are gateways."""
IN_HOSTS = "hosts"
"""Location of a team that a host of the lab `hosts` already has: the bench reads it and never makes one."""
GUEST_LOCATIONS = (IN_GUESTS, IN_GATEWAYS)
ACTIVE_BACKUP, BALANCE_SLB, BALANCE_TCP = "active-backup", "balance-slb", "balance-tcp"
OPEN_VSWITCH_POLICIES = (ACTIVE_BACKUP, BALANCE_SLB, BALANCE_TCP)
"""Policies that Open vSwitch runs (`bond_mode`, ovs-vswitchd.conf.db(5)); the first one is its default."""
LACP_POLICY_PREFIX = "802.3ad/"
"""Start of the policies of Linux bonding that negotiate LACP; a hash policy follows."""
BALANCE_RR = "balance-rr"
PORT_ID, SOURCE_MAC, IP_HASH, IP_HASH_WHOLE = "port-id", "source-mac", "ip-hash", "ip-hash-whole"
"""ESXi's policies, with both published formulas of IP hash: the last octets, the whole addresses."""
PHYSICAL_LOAD = "physical-load"
"""ESXi's policy that starts as PORT_ID and moves ports off links with too much load."""
PHYSICAL_LOAD_PERIOD_S = 30.0
"""Time over which ESXi averages the load of an uplink (vSphere Networking)."""
BONDING_HASHES = ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac")
SWITCH_HASH_SIDES = {"src": ("source",), "dst": ("destination",), "src-dst": ("source", "destination")}
SWITCH_HASH_FIELDS = {
    "mac": ("mac",),
    "ip": ("ip",),
    "port": ("port",),
    "mixed-ip-port": ("ip", "port"),
}
"""What the hashes of physical switches read, by the parts of their names."""
CISCO_PREFIX, MAX_CISCO_LINKS = "cisco-", 8
"""Policies of Catalyst switches, which share eight buckets among the links."""
BPF_POLICIES = (
    ACTIVE_BACKUP,
    BALANCE_RR,
    "broadcast",
    *BONDING_HASHES,
    "team-hash",
    PORT_ID,
    SOURCE_MAC,
    PHYSICAL_LOAD,
    IP_HASH,
    IP_HASH_WHOLE,
    *(
        f"{family}-{side}-{suffix}"
        for family in ("switch", "cisco")
        for side in SWITCH_HASH_SIDES
        for suffix in SWITCH_HASH_FIELDS
    ),
)
"""Policies that the agent's BPF programs run between two bridges."""
FAR_OPEN_VSWITCH_POLICIES = (BALANCE_TCP, BALANCE_SLB)
"""Policies of a bond of Open vSwitch at the far end of a team in guests; with LACP, it uses all links."""
POLICIES_BY_VSWITCH = {"openvswitch": OPEN_VSWITCH_POLICIES, "bridge": BPF_POLICIES}
"""Policies of teams by the level of `vswitch` whose teams run them."""
VSWITCH_POLICIES = tuple(dict.fromkeys((*OPEN_VSWITCH_POLICIES, *BPF_POLICIES)))
"""Policies of teams between two virtual switches."""
BALANCE_TLB, BALANCE_ALB = "balance-tlb", "balance-alb"
POLICIES_WITHOUT_CHANNEL = (
    ACTIVE_BACKUP,
    BALANCE_SLB,
    PORT_ID,
    SOURCE_MAC,
    PHYSICAL_LOAD,
    BALANCE_TLB,
    BALANCE_ALB,
)
"""Policies whose far end is a switch that does not bundle the links (for Linux bonding: bonding.rst, "Switch
Configuration")."""
FAR_AUTO, FAR_SAME, FAR_SWITCH = "auto", "same", "switch"
"""Far ends of a team that are no policies."""
LACP_AUTO, LACP_OFF, LACP_SLOW, LACP_FAST = "auto", "off", "slow", "fast"
ACTIVE_BOTH, ACTIVE_NEAR, ACTIVE_FAR, ACTIVE_NEITHER = "both", "near", "far", "neither"
ACTIVE_ENDS = (ACTIVE_BOTH, ACTIVE_NEAR, ACTIVE_FAR, ACTIVE_NEITHER)
"""Ends that send frames of LACP by themselves; another end only answers (IEEE 802.1AX, LACP_Activity)."""
LACP_TIMEOUT_BY_TIMER_S = {LACP_SLOW: 90.0, LACP_FAST: 3.0}
"""Time without a frame of the partner after which LACP stops using a link (IEEE 802.1AX, 6.4.4)."""
LACP_FRAMES_PER_TIMEOUT = 3
"""Frames that a partner sends in this time (IEEE 802.1AX, 6.4.4)."""
MIN_TEAM_LINKS, MAX_TEAM_LINKS = 2, 16
"""A bond of Open vSwitch has at least two interfaces (ovs-vswitchd.conf.db(5)); the maximum is ours."""


@dataclass(frozen=True)
class TeamSpec:
    """A team as a study or a treatment describes it."""

    name: str = "uplinks"
    location: str = BETWEEN_VSWITCHES
    policy: str = ACTIVE_BACKUP
    """Policy of the near end: one of VSWITCH_POLICIES, or of BONDING_POLICIES for a team in guests."""
    links: int = MIN_TEAM_LINKS
    """Number of links; both ends use all of them as members."""
    speed: str | None = None
    """Rates of the links: `1 Gbit/s` for all, or `10 Gbit/s, 1 Gbit/s` for one each; None: no limit."""
    lacp: str = LACP_AUTO
    """`off`, the timer `slow` or `fast`, or `auto`: fast for policies that need LACP, else off."""

    lacp_active: str = ACTIVE_BOTH
    """Ends that negotiate LACP actively, of ACTIVE_ENDS; the others are passive."""
    far_end: str = FAR_AUTO
    """`same` policy, `switch`, another policy, or `auto`: a switch if the policy needs no channel."""
    load_period_s: float = PHYSICAL_LOAD_PERIOD_S
    """With PHYSICAL_LOAD: time over which the load of a link is averaged, and between two moves, in s."""

    @property
    def far_policy(self) -> str | None:
        """Policy of the far end; None if it is a switch that does not bundle the links."""
        if self.far_end == FAR_SWITCH:
            return None
        if self.far_end == FAR_AUTO:
            is_bundled = self.has_lacp or self.policy not in POLICIES_WITHOUT_CHANNEL
            return self.policy if is_bundled else None
        return self.policy if self.far_end == FAR_SAME else self.far_end

    @property
    def has_lacp(self) -> bool:
        """Whether both ends negotiate LACP."""
        return self.lacp_timer != LACP_OFF

    @property
    def is_near_end_active(self) -> bool:
        """Whether the near end sends frames of LACP by itself."""
        return self.lacp_active in (ACTIVE_BOTH, ACTIVE_NEAR)

    @property
    def is_far_end_active(self) -> bool:
        """Whether the far end sends frames of LACP by itself."""
        return self.lacp_active in (ACTIVE_BOTH, ACTIVE_FAR)

    @property
    def negotiates_lacp(self) -> bool:
        """Whether the ends negotiate LACP. Two passive ends wait for each other."""
        return self.has_lacp and self.lacp_active != ACTIVE_NEITHER

    @property
    def effective_policy(self) -> str:
        """Policy that the near end applies. Without a partner for LACP, Open vSwitch uses one link."""
        return ACTIVE_BACKUP if self.has_lacp and not self.negotiates_lacp else self.policy

    @property
    def effective_far_policy(self) -> str | None:
        """Policy that the far end applies, as `effective_policy`; None if it does not bundle the links."""
        return self.far_policy if self.effective_policy == self.policy else self.effective_policy

    @property
    def has_open_vswitch_far_end(self) -> bool:
        """Whether the far end of a team in guests is a bond of Open vSwitch, and not one of a guest."""
        return self.is_in_guests and self.far_end in FAR_OPEN_VSWITCH_POLICIES

    @property
    def is_in_guests(self) -> bool:
        """Whether Linux bonding in guests runs the team, and not a virtual switch."""
        return self.location in GUEST_LOCATIONS

    @property
    def needs_lacp(self) -> bool:
        """Whether the policy works with LACP only."""
        return self.policy == BALANCE_TCP or self.policy.startswith(LACP_POLICY_PREFIX)

    @property
    def lacp_timer(self) -> str:
        """The timer of LACP at both ends, `slow` or `fast`; `off` without LACP."""
        if self.lacp == LACP_AUTO:
            return LACP_FAST if self.needs_lacp else LACP_OFF
        return self.lacp

    @property
    def lacp_period_s(self) -> float:
        """The time between two frames of LACP; 0 without LACP."""
        return LACP_TIMEOUT_BY_TIMER_S[self.lacp_timer] / LACP_FRAMES_PER_TIMEOUT if self.has_lacp else 0.0

    @property
    def listed_speeds_bps(self) -> tuple[int, ...]:
        """The rates that the study lists, in bit/s: none, one for all links, or one for each link."""
        return (
            tuple(round(parse_bit_rate(text.strip())) for text in self.speed.split(",")) if self.speed else ()
        )

    @property
    def speeds_bps(self) -> tuple[int | None, ...]:
        """The rate of each link in bit/s; None for a link without a limit.

        A study lists one rate for all links, or at least one for each.
        """
        listed = self.listed_speeds_bps
        if len(listed) <= 1:
            return (listed[0] if listed else None,) * self.links
        return listed[: self.links]
