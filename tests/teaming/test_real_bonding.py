"""Predictions of Linux bonding against the driver in a guest: which member carried each flow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.netns.open_vswitch_bonds import OpenVswitch, start_open_vswitch
from vnetbench.lab.teams.bonding import (
    BondingCase,
    bonding_cases,
    has_negotiated_lacp,
    measure_case,
    measure_running_team,
)
from vnetbench.lab.teams.flows import random_flows
from vnetbench.lab.teams.guest_team import GuestTeam, prepare_team_guest, start_guest_team
from vnetbench.teaming.state.linux_bonding import read_bonding_dump

pytestmark = pytest.mark.lab

MEMBER_COUNT = 3
"""Not a power of two, so that the byte order and each bit of a hash matter."""
FLOWS = random_flows(500, seed=20)
LINK_TIMEOUT_S = 10.0
CASES_WITHOUT_TABLE = [case for case in bonding_cases() if case.policy not in ("balance-tlb", "balance-alb")]
CASES_BY_LOAD = [case for case in bonding_cases() if case.policy in ("balance-tlb", "balance-alb")]


@pytest.fixture(scope="module")
def guest_team() -> Iterator[GuestTeam]:
    with start_guest_team(MEMBER_COUNT, prepare_team_guest()) as team:
        yield team


@pytest.fixture(scope="module")
def partner(guest_team: GuestTeam) -> OpenVswitch:
    return start_open_vswitch(guest_team.testbed_name, guest_team.source.namespace)


@pytest.mark.parametrize("case", CASES_WITHOUT_TABLE, ids=lambda case: case.name)
def test_the_predicted_member_carries_each_flow(
    guest_team: GuestTeam, partner: OpenVswitch, case: BondingCase
) -> None:
    found = measure_case(guest_team, case, FLOWS, partner)
    # Frames of the guest itself take turns too, and the first flow's turn is not known.
    undecided, shifted = (1, found.foreign_frame_count) if case.policy == "balance-rr" else (0, 0)
    assert found.lost_count == 0 and found.undecided_count == undecided
    assert len(found.disagreements) <= shifted, found.disagreements[:3]
    used = 1 if case.policy == "active-backup" else MEMBER_COUNT
    assert found.used_member_count == used


@pytest.mark.parametrize("case", CASES_BY_LOAD, ids=lambda case: case.name)
def test_a_flow_is_undecided_where_the_load_decides(guest_team: GuestTeam, case: BondingCase) -> None:
    found = measure_case(guest_team, case, FLOWS)
    is_hashed = case.options.get("tlb_dynamic_lb") == "0"
    assert found.lost_count == 0 and found.disagreements == ()
    assert found.undecided_count == (0 if is_hashed else len(FLOWS))


@pytest.mark.parametrize("policy", ["layer2+3", "active-backup"])
def test_the_state_of_a_team_whose_member_lost_its_link_predicts_the_others(
    guest_team: GuestTeam, policy: str
) -> None:
    case = next(case for case in CASES_WITHOUT_TABLE if case.policy == policy and not case.has_lacp)
    measure_case(guest_team, case, FLOWS[:1])
    lost = MEMBER_COUNT - 1 if policy == "active-backup" else 1
    guest_team.set_member_link(lost, is_up=False)
    try:
        guest_team.wait_for_state(lambda text: "MII Status: down" in text, LINK_TIMEOUT_S)
        found = measure_running_team(guest_team, case, FLOWS)
        assert not read_bonding_dump(guest_team.read_state()).team.uplinks[lost].is_up
    finally:
        guest_team.set_member_link(lost, is_up=True)
    assert found.agreed_count == len(FLOWS), found.disagreements[:3]
    assert found.used_member_count == (1 if policy == "active-backup" else MEMBER_COUNT - 1)


def test_an_option_that_the_kernel_refuses_is_an_error(guest_team: GuestTeam) -> None:
    with pytest.raises(BenchError, match="set xmit_hash_policy of bond0 to layer7"):
        guest_team.configure({"mode": "balance-xor", "xmit_hash_policy": "layer7"})


def test_a_team_without_partner_has_not_negotiated(guest_team: GuestTeam) -> None:
    guest_team.configure({"mode": "802.3ad", "lacp_rate": "fast", "miimon": "100"})
    assert not has_negotiated_lacp(guest_team.read_state(), MEMBER_COUNT)
