"""Switches, Open vSwitch and ESXi's ports: buckets, recorded hashes, and tables."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from ipaddress import ip_address

import pytest

from tests.docs.pages import ROOT
from vnetbench.teaming.flows import TCP, Flow, parse_mac
from vnetbench.teaming.policies.open_vswitch import hash_mac
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.policies.switch import count_buckets
from vnetbench.teaming.policies.team_driver import hash_default_fields
from vnetbench.teaming.state.reader import read_state_files
from vnetbench.teaming.team import make_team

pytestmark = pytest.mark.pure

DUMPS = ROOT / "tests" / "data" / "teams"
FLOW = Flow(
    ip_address("10.0.0.1"), ip_address("10.0.0.2"), source_port=50000, destination_port=80, protocol=TCP
)


@pytest.mark.parametrize(
    ("links", "buckets"),
    [
        (1, [8]),
        (2, [4, 4]),
        (3, [3, 3, 2]),
        (4, [2] * 4),
        (5, [2, 2, 2, 1, 1]),
        (7, [2] + [1] * 6),
        (8, [1] * 8),
    ],
)
def test_eight_buckets_are_shared_as_cisco_documents(links: int, buckets: list[int]) -> None:
    assert count_buckets(links) == buckets
    flows = [replace(FLOW, source_port=50000 + i) for i in range(8)]
    policy = find_policy("cisco-src-port")
    used = Counter(policy.predict(flow, make_team(links)).uplink for flow in flows)
    assert [used[i] for i in range(links)] == buckets


def test_a_switch_hashes_the_fields_that_its_policy_names() -> None:
    assert find_policy("switch-dst-ip").predict(FLOW, make_team(4)).uplink == 2
    assert find_policy("switch-src-dst-ip").predict(FLOW, make_team(4)).uplink == 1 ^ 2
    assert find_policy("switch-src-dst-port").predict(FLOW, make_team(4)).uplink == (50000 ^ 80) % 4
    mixed = find_policy("switch-src-dst-mixed-ip-port").predict(FLOW, make_team(4))
    assert mixed.uplink == (1 ^ 2 ^ 50000 ^ 80) % 4
    assert "unpublished" in (mixed.assumption or "")


@pytest.mark.parametrize(
    ("mac", "vlan", "basis", "bucket"),
    [
        ("00:00:00:00:00:00", 0, 0, 252),
        ("00:00:00:00:00:00", 1, 1, 145),
        ("00:00:00:00:00:00", 20, 12345, 120),
        ("00:00:00:00:00:00", 4094, 4294967295, 119),
        ("00:50:56:01:02:03", 1, 0, 60),
        ("00:50:56:01:02:03", 20, 1, 48),
        ("00:50:56:01:02:03", 4094, 12345, 108),
        ("ff:ff:ff:ff:ff:fe", 0, 4294967295, 57),
        ("ff:ff:ff:ff:ff:fe", 20, 0, 92),
        ("ff:ff:ff:ff:ff:fe", 4094, 1, 140),
        ("12:34:56:78:9a:bc", 0, 12345, 217),
        ("12:34:56:78:9a:bc", 1, 4294967295, 107),
        ("12:34:56:78:9a:bc", 4094, 0, 244),
    ],
)
def test_the_hash_of_balance_slb_is_the_one_that_ovs_appctl_bond_hash_printed(
    mac: str, vlan: int, basis: int, bucket: int
) -> None:
    assert hash_mac(parse_mac(mac), vlan, basis) % 256 == bucket


@pytest.mark.parametrize("name", ["balance-slb", "balance-tcp"])
def test_recorded_flows_took_the_member_that_the_recorded_table_predicts(name: str) -> None:
    state = read_state_files([DUMPS / f"ovs-{name}.txt"])
    policy = find_policy(state.policy_name or "")
    known = 0
    with (DUMPS / f"ovs-{name}.csv").open() as file:
        for row in csv.DictReader(file):
            flow = Flow(
                ip_address(row["source"]), ip_address(row["destination"]), parse_mac(row["source_mac"]), None,
                int(row["source_port"]), int(row["destination_port"]), int(row["protocol"]),
            )  # fmt: skip
            prediction = policy.predict(flow, state.team)
            if prediction.uplink is not None:
                known += 1
                assert prediction.uplink == int(row["member"])
            else:
                assert "bucket" in (prediction.depends_on or "")
    assert known > 200


def test_the_team_driver_hashes_all_bytes_of_both_addresses() -> None:
    flow = replace(
        FLOW, source_mac=parse_mac("02:00:00:00:01:10"), destination_mac=parse_mac("02:00:00:00:00:21")
    )
    # 02 02 01 10 21, and 1 2 of 10.0.0.1 and 10.0.0.2.
    assert hash_default_fields(flow) == 0x01 ^ 0x10 ^ 0x21 ^ 1 ^ 2
    prediction = find_policy("team-hash").predict(flow, make_team(4))
    assert prediction.uplink == 0x33 % 4 and "default tx_hash" in (prediction.assumption or "")


def test_the_kernel_datapath_of_open_vswitch_cannot_be_predicted() -> None:
    state = read_state_files([DUMPS / "ovs-balance-tcp.txt"])
    team = replace(state.team, has_random_datapath_hash=True)
    prediction = find_policy("balance-tcp").predict(FLOW, team)
    assert prediction.uplink is None and "random at each boot" in (prediction.depends_on or "")


def test_a_port_of_esxi_uses_the_uplink_of_the_dump_and_is_open_without_one() -> None:
    state = read_state_files([DUMPS / "esxcli-failover-srcport.txt", DUMPS / "esxcli-ports.txt"])
    policy = find_policy("port-id")
    assert policy.predict(replace(FLOW, source_port_id=67108877), state.team).uplink == 1
    assert policy.predict(replace(FLOW, source_mac=parse_mac("00:0c:29:aa:bb:02")), state.team).uplink == 0
    unknown = policy.predict(FLOW, state.team)
    assert unknown.uplink is None and unknown.group == "10.0.0.1"
    by_mac = find_policy("source-mac").predict(
        replace(FLOW, source_mac=parse_mac("00:0c:29:aa:bb:01")), state.team
    )
    assert by_mac.uplink == 1
