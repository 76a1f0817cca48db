"""Measures which member of a bond of Open vSwitch carries each flow, by mode of the bond."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.lab.teams.agreement import (
    Agreement,
    carry_flows,
    compare_with_prediction,
    wait_until_forwarding,
)
from vnetbench.lab.teams.open_vswitch import OpenVswitchTeam
from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.state.open_vswitch import read_bond_show
from vnetbench.teaming.team import Team

TABLE_PADDING_BYTES = 1300
"""Size of the frames that fill the table: `bond/show` omits buckets that carried less than 1 kB."""
TABLE_ROUNDS, LOADS_PER_ROUND = 4, 3
"""How often to fill the table. The switch halves all loads at each rebalance."""
STATISTICS_DELAY_S = 0.6
"""Time until the datapath's counts reach the switch: its revalidators run every 500 ms."""


@dataclass(frozen=True)
class OpenVswitchCase:
    """A mode of a bond, with LACP or without."""

    policy: str
    has_lacp: bool

    @property
    def name(self) -> str:
        """The mode, such as `balance-tcp, LACP`."""
        return f"{self.policy}, LACP" if self.has_lacp else self.policy


CASES = (
    OpenVswitchCase("balance-slb", False),
    OpenVswitchCase("balance-slb", True),
    OpenVswitchCase("balance-tcp", True),
    OpenVswitchCase("active-backup", False),
)
"""Open vSwitch refuses balance-tcp without LACP."""


def measure_case(bond: OpenVswitchTeam, case: OpenVswitchCase, flows: Sequence[Flow]) -> Agreement:
    """Run a mode and return how many flows the predicted members carried; raises BenchError.

    The prediction uses the table that the switch shows just before the flows.
    """
    bond.configure(case.policy, has_lacp=case.has_lacp)
    wait_until_forwarding(bond.source, bond.members)
    if case.policy == "active-backup":
        # The last one, so that "the first member" is no right answer.
        bond.set_active_member(len(bond.members) - 1)
        team = read_team(bond)
    else:
        team = _fill_table(bond, case, flows)
    carried = carry_flows(bond.source, bond.members, flows)
    return compare_with_prediction(find_policy(case.policy), team, flows, carried)


def read_team(bond: OpenVswitchTeam) -> Team:
    """Return the bond's state for predictions: active member, hash basis and table of buckets."""
    return read_bond_show(bond.read_bond(), None).team


def _fill_table(bond: OpenVswitchTeam, case: OpenVswitchCase, flows: Sequence[Flow]) -> Team:
    """Send the flows until one reading of the table has all their buckets; return the last reading.

    The reading follows a rebalance, so that the table stays for a whole interval. A flow whose bucket stays
    unknown counts as undecided.
    """
    policy, team = find_policy(case.policy), read_team(bond)
    for _ in range(TABLE_ROUNDS):
        for _ in range(LOADS_PER_ROUND):
            carry_flows(bond.source, bond.members, flows, padding_bytes=TABLE_PADDING_BYTES)
        time.sleep(STATISTICS_DELAY_S)
        bond.wait_for_rebalance()
        team = read_team(bond)
        if all(policy.predict(flow, team).uplink is not None for flow in flows):
            break
    return team
