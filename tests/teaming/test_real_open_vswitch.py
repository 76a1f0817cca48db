"""Predictions of bonds of Open vSwitch against its userspace datapath: which member carried each flow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.teams.agreement import carry_flows
from vnetbench.lab.teams.flows import random_flows
from vnetbench.lab.teams.open_vswitch import OpenVswitchTeam, start_open_vswitch_team
from vnetbench.lab.teams.open_vswitch_cases import CASES, OpenVswitchCase, measure_case, read_team

pytestmark = pytest.mark.lab

MEMBER_COUNT = 3
FLOWS = random_flows(500, seed=20)
MIN_TABLE_AGREEMENT = 0.99
"""The switch may move a bucket between the reading of its table and the last flow."""


@pytest.fixture(scope="module")
def bond() -> Iterator[OpenVswitchTeam]:
    with start_open_vswitch_team(MEMBER_COUNT) as team:
        yield team


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_member_of_the_table_carries_each_flow(bond: OpenVswitchTeam, case: OpenVswitchCase) -> None:
    found = measure_case(bond, case, FLOWS)
    assert found.lost_count == 0
    if case.policy == "active-backup":
        assert found.agreed_count == len(FLOWS) and found.used_member_count == 1
    else:
        assert found.ratio >= MIN_TABLE_AGREEMENT, found.disagreements[:3]
        assert found.used_member_count == MEMBER_COUNT


def test_balance_tcp_without_lacp_carries_nothing_and_its_state_says_so(bond: OpenVswitchTeam) -> None:
    bond.configure("balance-tcp")
    with pytest.raises(BenchError, match="LACP"):
        read_team(bond)
    assert carry_flows(bond.source, bond.members, FLOWS[:1]).members(0) == []


def test_a_bond_has_at_least_two_members() -> None:
    with pytest.raises(BenchError, match="2 to 16 members"), start_open_vswitch_team(1):
        pass
