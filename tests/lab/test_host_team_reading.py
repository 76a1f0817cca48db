"""Tests of the reading of a host's team, from real dumps of Linux bonding and the team driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.hosts.host_teams import describe_host_team, list_sent_flows, predict_host_load
from vnetbench.lab.hosts.ssh import CommandResult
from vnetbench.lab.hosts.team_reading import HostTeam, read_host_team

pytestmark = pytest.mark.pure

DUMPS = Path(__file__).parents[1] / "data/teams"
HOST = Endpoint("web-01", "a", 1, "bond0.20", "10.0.0.1", "")
PEER = Endpoint("web-02", "b", 1, "eth0", "10.0.0.2", "")
STREAMS = [{"local_port": port, "remote_port": 5201} for port in range(50000, 50008)]
HOST_LINES = (
    "@speed eth0 1000\n@speed eth1 1000\n@speed eth2 -1\n@mac 52:54:00:12:34:56\n@hop 00:23:04:ee:be:01\n"
)


class FakeHost:
    """A host whose script printed this."""

    name = "web-01"

    def __init__(self, output: str) -> None:
        self.output = output

    def run(self, *_: str) -> CommandResult:
        return CommandResult(0, f"Welcome to web-01!\n{self.output}", "")


def read_dump(kind: str, file_name: str, *more: str) -> HostTeam:
    dump = "".join(f"@dump {line}\n" for line in (DUMPS / file_name).read_text().splitlines())
    lines = "".join(f"{line}\n" for line in more)
    host: Any = FakeHost(f"@team {kind} bond0\n{dump}{lines}{HOST_LINES}")
    team = read_host_team(host, "bond0", "10.0.0.2")
    assert team is not None
    return team


def test_a_bond_of_linux_with_lacp_reports_its_partner_and_the_member_that_lacp_leaves_out() -> None:
    team = read_dump("bonding", "bonding-802.3ad.txt", "@vlan 20")
    record = describe_host_team(HOST, team)
    assert (record["name"], record["policy"], record["lacp"]) == (
        "web-01 bond0", "802.3ad/layer3+4", "negotiated",
    )  # fmt: skip
    assert [each["lacp"]["is_attached"] for each in record["links"]] == [
        each["enabled"] for each in record["links"]
    ]
    assert record["links"][0]["lacp"]["partner_mac"] == "00:23:04:ee:be:01"
    flows = list_sent_flows(HOST, PEER, team, STREAMS, "4")
    predicted = predict_host_load(team, "a", flows)
    assert sum(predicted["forward"]) == len(STREAMS)
    assert predicted["forward_open"] == 0
    assert predicted["reverse_open"] == len(STREAMS), "the hash of the switch is unknown"
    mirrored = predict_host_load(team, "b", flows)
    assert mirrored["reverse"] == predicted["forward"]


def test_lacp_without_a_partner_is_not_negotiated() -> None:
    team = read_dump("bonding", "bonding-802.3ad-not-negotiated.txt")
    record = describe_host_team(HOST, team)
    assert record["lacp"] == "not negotiated"
    assert record["far_end"] == ""


def test_answers_of_active_backup_come_over_the_active_member() -> None:
    team = read_dump("bonding", "bonding-active-backup.txt")
    predicted = predict_host_load(team, "a", list_sent_flows(HOST, PEER, team, STREAMS, "4"))
    assert predicted["forward"] == predicted["reverse"]
    active = team.state.team.active
    assert active is not None
    assert predicted["forward"][active] == len(STREAMS)


def test_the_team_driver_is_read_by_its_own_tool() -> None:
    team = read_dump("teamd", "teamd-activebackup.json")
    assert team.state.policy_name == "active-backup"
    assert describe_host_team(HOST, team)["kind"] == "teamd"


def test_a_host_without_a_team_has_none() -> None:
    assert read_host_team(FakeHost("@vlan 20\n"), "eth0", "10.0.0.2") is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "output",
    [
        "@team teamd team0\n@failed Failed to connect to the daemon: Permission denied\n",
        "@failed ovs-vsctl: unix:/run/openvswitch/db.sock: database connection failed (Permission denied)\n",
    ],
)
def test_a_team_that_cannot_be_read_has_one_sentence_and_a_fix(output: str) -> None:
    with pytest.raises(BenchError) as error:
        read_host_team(FakeHost(output), "team0", "10.0.0.2")  # type: ignore[arg-type]
    assert "Permission denied" in error.value.what
    assert "root" in str(error.value.fix)
