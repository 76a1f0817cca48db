"""How the bonding driver runs each team policy: the options of the guest's team, and what its state says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.errors import BenchError
from vnetbench.lab.netns.open_vswitch_bonds import (
    LACP_NEGOTIATED,
    LACP_TIMEOUT_S,
    OpenVswitch,
    is_ready,
    lacp_columns,
)
from vnetbench.lab.teams.agreement import (
    Agreement,
    carry_flows,
    compare_with_prediction,
    wait_until_forwarding,
)
from vnetbench.lab.teams.guest_team import GuestTeam
from vnetbench.lab.teams.members import MAX_FRAMES_IN_FLIGHT
from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.linux_bonding import XMIT_HASH_POLICIES
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.state.linux_bonding import NO_PARTNER, read_bonding_dump

_LINK_MONITOR = {"miimon": "100"}
LACP_OPTIONS = {"mode": "802.3ad", "lacp_rate": "fast", **_LINK_MONITOR}

LINK_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class BondingCase:
    """A mode of the bonding driver with its options, and the policy that predicts it."""

    policy: str
    options: Mapping[str, str]

    @property
    def has_lacp(self) -> bool:
        """Whether the members need a partner that negotiates LACP."""
        return self.options["mode"] == "802.3ad"

    @property
    def has_dynamic_load_balancing(self) -> bool:
        """Whether the load decides in balance-tlb and balance-alb; else the hash policy does."""
        return self.options.get("tlb_dynamic_lb") != "0"

    @property
    def name(self) -> str:
        """Mode and hash policy, such as `balance-xor layer2+3`."""
        dynamic = "" if self.has_dynamic_load_balancing else " tlb_dynamic_lb=0"
        return " ".join((self.options["mode"], self.options.get("xmit_hash_policy", ""))).strip() + dynamic


def bonding_cases() -> list[BondingCase]:
    """Return every mode of the driver with each hash policy that it has."""
    hashed = [
        BondingCase(name, {**options, "xmit_hash_policy": name})
        for options in ({"mode": "balance-xor", **_LINK_MONITOR}, LACP_OPTIONS)
        for name in XMIT_HASH_POLICIES
    ]
    by_load = [
        BondingCase(
            "balance-tlb",
            {"mode": "balance-tlb", **_LINK_MONITOR, "tlb_dynamic_lb": "0", "xmit_hash_policy": name},
        )
        for name in ("layer2+3", "layer3+4")
    ]
    others = [
        BondingCase(mode, {"mode": mode, **_LINK_MONITOR})
        for mode in ("balance-rr", "broadcast", "balance-tlb", "balance-alb")
    ]
    return [
        *hashed,
        BondingCase("active-backup", {"mode": "active-backup", **_LINK_MONITOR}),
        *by_load,
        *others,
    ]


def measure_case(
    guest_team: GuestTeam, case: BondingCase, flows: Sequence[Flow], partner: OpenVswitch | None = None
) -> Agreement:
    """Run a policy in the guest and return how many flows the predicted members carried.

    Args:
        guest_team: The guest.
        case: The policy and its options.
        flows: One frame is sent for each.
        partner: The switch at the other end of the members, which LACP needs.

    Raises:
        BenchError: if the guest's kernel refuses an option, LACP is not negotiated, or nothing is forwarded.
    """
    options = dict(case.options)
    if case.options["mode"] == "active-backup":
        # The last one, so that "the first member" is no right answer.
        options["primary"] = guest_team.member_names[-1]
    effective = guest_team.configure(options)
    _check_effective(options, effective)
    if case.has_lacp:
        _negotiate_lacp(guest_team, partner)
    primary = options.get("primary")
    guest_team.wait_for_state(
        lambda text: has_all_links(text, len(guest_team.members), primary), LINK_TIMEOUT_S
    )
    return measure_running_team(guest_team, case, flows)


def has_all_links(state: str, member_count: int, primary: str | None) -> bool:
    """Return whether all members carry frames, and the primary one, if there is one, is active.

    An e1000e has its link some seconds after it joined.
    """
    team = read_bonding_dump(state).team
    is_primary_active = primary is None or (
        team.active is not None and team.uplinks[team.active].name == primary
    )
    return len(team.usable) == member_count and is_primary_active


def measure_running_team(guest_team: GuestTeam, case: BondingCase, flows: Sequence[Flow]) -> Agreement:
    """Return how many flows the members carried that the policy predicts of the team's state just before.

    Raises:
        BenchError: if nothing is forwarded, or the state names another policy.
    """
    wait_until_forwarding(guest_team.source, guest_team.members)
    state = read_bonding_dump(guest_team.read_state())
    if state.policy_name != case.policy:
        raise BenchError(f"the state of the team names the policy {state.policy_name}, not {case.policy}")
    # The state does not show this option. The guest forwards frames, and its adapter gives them no hash.
    team = replace(
        state.team,
        packets_carry_hash=False,
        has_dynamic_load_balancing=case.has_dynamic_load_balancing,
    )
    # Several frames at once may change their order before they reach the team (GRO).
    window = 1 if case.policy == "balance-rr" else MAX_FRAMES_IN_FLIGHT
    carried = carry_flows(guest_team.source, guest_team.members, flows, max_frames_in_flight=window)
    return compare_with_prediction(find_policy(case.policy), team, flows, carried)


def has_negotiated_lacp(state: str, member_count: int) -> bool:
    """Return whether all members are in one aggregator with a partner, by the file in /proc/net/bonding."""
    ports = re.search(r"^\tNumber of ports: (\d+)$", state, re.MULTILINE)
    partner = re.search(r"^\tPartner Mac Address: (\S+)$", state, re.MULTILINE)
    has_partner = partner is not None and partner[1] != NO_PARTNER
    return has_partner and ports is not None and int(ports[1]) == member_count


def _negotiate_lacp(guest_team: GuestTeam, partner: OpenVswitch | None) -> None:
    """Make a bond of the members' other ends, and wait until both have negotiated; raises BenchError."""
    if partner is None:
        raise BenchError("LACP needs a partner", fix="start Open vSwitch at the other end of the members")
    far_ends = [member.interface for member in guest_team.members]
    partner.replace_bridge("far")
    partner.add_bond("far", far_ends, ("bond_mode=balance-slb", *lacp_columns("fast")))
    count = len(far_ends)
    partner.wait_for_bond("far", lambda text: is_ready(text, count, LACP_NEGOTIATED))
    guest_team.wait_for_state(lambda text: has_negotiated_lacp(text, count), LACP_TIMEOUT_S)


def _check_effective(requested: Mapping[str, str], effective: Mapping[str, str]) -> None:
    """Raise BenchError if the kernel reads back another value; it adds a number to most names."""
    for name, value in requested.items():
        if effective[name].split()[0] != value:
            raise BenchError(f"the guest's team has {name} {effective[name]}, not {value}", where=name)
