"""Readers of team dumps: each file in tests/data/teams with what a person reads off it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from vnetbench.errors import BenchError
from vnetbench.teaming.flows import parse_mac
from vnetbench.teaming.policies.registry import POLICIES
from vnetbench.teaming.state.reader import MAX_STATE_BYTES, parse_state, read_state_files
from vnetbench.teaming.state.team_state import TeamState
from vnetbench.teaming.team import Uplink

pytestmark = pytest.mark.pure

DUMPS = ROOT / "tests" / "data" / "teams"


def read(*names: str) -> TeamState:
    return read_state_files([DUMPS / name for name in names])


def test_an_802_3ad_bond_uses_only_the_members_of_its_active_aggregator() -> None:
    state = read("bonding-802.3ad.txt")
    assert state.policy_name == "layer3+4"
    assert state.team.uplinks == (
        Uplink("eth0", 10**9),
        Uplink("eth1", 10**9),
        Uplink("eth2", 10**8, is_up=False),
    )
    assert state.notes == ("eth2 carries nothing: it is in aggregator 2, the active one is 1.",)


def test_an_802_3ad_bond_without_a_partner_says_so() -> None:
    state = read("bonding-802.3ad-not-negotiated.txt")
    assert state.team.usable == (0,)
    assert "LACP is not negotiated: the partner's MAC address is zero." in state.notes


def test_an_802_3ad_bond_read_without_privilege_names_what_is_missing() -> None:
    text = (DUMPS / "bonding-802.3ad.txt").read_text()
    lines = [
        line for line in text.splitlines() if not line.startswith(("\t", "    ", "details", "Active Agg"))
    ]
    state = parse_state("\n".join(lines))
    assert state.team.usable == (0, 1, 2)
    assert "names no active aggregator of 2" in state.notes[0]


def test_a_port_that_does_not_distribute_carries_nothing() -> None:
    text = (DUMPS / "bonding-802.3ad.txt").read_text().replace("port state: 61", "port state: 13", 1)
    state = parse_state(text)
    assert state.team.usable == (1,)
    assert "eth0 carries nothing: its LACP port does not distribute." in state.notes


def test_a_balance_xor_bond_gives_its_hash_policy_and_link_states() -> None:
    state = read("bonding-xor.txt")
    assert state.policy_name == "layer2+3"
    assert [(u.name, u.speed_bps, u.is_up) for u in state.team.uplinks] == [
        ("ens1f0", 10**10, True),
        ("ens1f1", None, False),
        ("ens2f0", 10**10, True),
    ]


def test_an_active_backup_bond_gives_its_active_member() -> None:
    state = read("bonding-active-backup.txt")
    assert (state.policy_name, state.team.active, state.team.usable) == ("active-backup", 1, (1,))
    assert state.notes == ("eth0 is going back.",)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("bonding-round-robin.txt", "balance-rr"),
        ("bonding-broadcast.txt", "broadcast"),
        ("bonding-tlb.txt", "balance-tlb"),
        ("bonding-alb.txt", "balance-alb"),
    ],
)
def test_every_mode_of_bonding_is_read(name: str, policy: str) -> None:
    state = read(name)
    assert state.policy_name == policy and len(state.team.usable) == 2
    assert state.team.active == (0 if policy in ("balance-tlb", "balance-alb") else None)


def test_an_older_active_backup_bond_of_open_vswitch_is_read() -> None:
    state = read("ovs-active-backup.txt")
    assert state.policy_name == "active-backup" and state.team.active == 1
    assert state.team.usable == (1,) and state.notes == ("eth0 is disabled.",)


def test_a_recorded_bond_of_open_vswitch_gives_buckets_and_basis() -> None:
    state = read("ovs-balance-tcp.txt")
    assert state.policy_name == "balance-tcp" and state.team.hash_basis == 777
    assert [uplink.name for uplink in state.team.uplinks] == ["m0", "m1", "m2"]
    assert len(state.team.uplink_by_bucket) == 126
    assert set(state.team.uplink_by_bucket.values()) == {0, 1, 2}


def test_lacp_that_is_not_negotiated_changes_the_policy_or_stops_everything() -> None:
    text = (
        (DUMPS / "ovs-balance-tcp.txt")
        .read_text()
        .replace("lacp_status: negotiated", "lacp_status: configured")
    )
    with pytest.raises(BenchError, match="drops every packet"):
        parse_state(text)
    state = parse_state(text.replace("lacp_fallback_ab: false", "lacp_fallback_ab: true"))
    assert state.policy_name == "active-backup" and "falls back" in state.notes[0]


def test_one_of_several_bonds_in_a_dump_is_selected_by_its_name() -> None:
    slb, tcp = ((DUMPS / f"ovs-balance-{name}.txt").read_text() for name in ("slb", "tcp"))
    text = slb + tcp.replace("---- ba ----", "---- bb ----")
    assert parse_state(text, "ba") == parse_state(slb)
    assert parse_state(text, "bb") == parse_state(tcp)
    for name in (None, "bc"):
        with pytest.raises(BenchError, match="has the bonds ba, bb") as error:
            parse_state(text, name)
        assert "--team ba" in str(error.value)


@pytest.mark.parametrize("name", ["teamd-activebackup.json", "teamd-activebackup.txt"])
def test_teamd_gives_its_active_port(name: str) -> None:
    state = read(name)
    assert state.policy_name == "active-backup" and state.team.active == 1
    assert [uplink.name for uplink in state.team.uplinks] == ["eth1", "eth2"]
    assert state.team.uplinks[0] == (
        Uplink("eth1", 10**9) if name.endswith("json") else Uplink("eth1", None, is_up=False)
    )


def test_a_port_that_teamd_did_not_select_carries_nothing() -> None:
    state = read("teamd-lacp.txt")
    assert state.policy_name == "team-hash" and state.team.usable == (0,)
    assert "tx_hash" in state.notes[-1]


def test_esxcli_dumps_together_give_order_speed_and_link_state() -> None:
    state = read("esxcli-failover.txt", "esxcli-nics.txt")
    assert state.policy_name == "ip-hash"
    assert state.team.uplinks == (
        Uplink("vmnic2", 10**10),
        Uplink("vmnic3", 10**10),
        Uplink("vmnic1", None, is_up=False),
    )
    assert state.notes == ("vmnic1 is down.", "On standby, used if an active adapter fails: vmnic0.")


def test_adapters_on_standby_replace_active_ones_that_are_down() -> None:
    failover = (DUMPS / "esxcli-failover.txt").read_text().replace("iphash", "explicit")
    down = (DUMPS / "esxcli-nics.txt").read_text().replace("Up           10000", "Down             0")
    state = parse_state(failover + down)
    assert [(u.name, u.is_up) for u in state.team.uplinks] == [
        ("vmnic2", False), ("vmnic3", False), ("vmnic1", False), ("vmnic0", True),
    ]  # fmt: skip
    assert state.policy_name == "active-backup" and state.team.active == 3


def test_esxcli_ports_give_the_uplink_of_each_port_and_mac_address() -> None:
    state = read("esxcli-failover-srcport.txt", "esxcli-ports.txt")
    assert state.policy_name == "port-id"
    assert state.team.uplink_by_port_id == {67108877: 1, 67108878: 0}
    assert state.team.uplink_by_mac[parse_mac("00:0c:29:aa:bb:02")] == 0


def test_a_list_of_virtual_switches_gives_uplinks_without_a_policy() -> None:
    state = read("esxcli-vswitch-list.txt")
    assert state.policy_name is None
    assert [uplink.name for uplink in state.team.uplinks] == ["vmnic1", "vmnic0"]


def test_a_vsphere_inventory_gives_the_team_of_the_named_switch() -> None:
    path = DUMPS / "vsphere-network.json"
    state = read_state_files([path], "vSwitch1")
    assert state.policy_name == "ip-hash"
    assert state.team.uplinks == (
        Uplink("vmnic2", 10**10),
        Uplink("vmnic1", None, is_up=False),
        Uplink("vmnic3", 10**10),
    )
    distributed = read_state_files([path], "DSwitch")
    assert distributed.policy_name is None and distributed.team.uplinks == (Uplink("vmnic4", 25 * 10**9),)
    assert "give --policy" in distributed.notes[0]
    with pytest.raises(BenchError, match="has the switches vSwitch0, vSwitch1, DSwitch") as error:
        read_state_files([path])
    assert "--team vSwitch0" in str(error.value)


def test_an_inventory_that_govc_wrote_is_read() -> None:
    state = read("vsphere-network-simulated.json")
    assert state.policy_name == "port-id" and state.team.uplinks == (Uplink("vmnic0", 10**10),)
    assert state.dump_format.endswith("switch vSwitch0")


def test_keys_of_a_vsphere_inventory_are_read_in_any_case_and_at_any_depth() -> None:
    text = (DUMPS / "vsphere-network.json").read_text()
    text = (
        text.replace('"vswitch"', '"Vswitch"')
        .replace('"nicTeaming"', '"NicTeaming"')
        .replace('"pnic"', '"Pnic"')
    )
    nested = f'[{{"Name": "config.network", "Val": {text}}}]'
    assert parse_state(nested, "vSwitch0").team.uplinks == (Uplink("vmnic0", 10**9),)
    with pytest.raises(BenchError, match="has 2 hosts"):
        parse_state(f"[{text}, {text}]", "vSwitch0")
    with pytest.raises(BenchError, match="is damaged"):
        parse_state(text[:-3], "vSwitch0")


@pytest.mark.parametrize("path", sorted(DUMPS.glob("[bote]*.txt")), ids=lambda path: path.name)
def test_every_policy_that_a_dump_names_exists(path: Path) -> None:
    if path.name in ("esxcli-nics.txt", "esxcli-ports.txt"):
        with pytest.raises(BenchError, match="names no uplinks"):
            read_state_files([path])
        return
    state = read_state_files([path])
    assert state.policy_name is None or state.policy_name in POLICIES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the dump is empty"),
        ("port-channel load-balance src-ip", 'starts with "port-channel load-balance src-ip"'),
        ("Bonding Mode: magic\n\nSlave Interface: eth0\n", 'unknown mode "magic"'),
        ("Bonding Mode: load balancing (xor)\n", "has no member"),
        ("Bonding Mode: load balancing (xor)\nTransmit Hash Policy: new (9)\nSlave Interface: e\n", '"new'),
        ("---- b ----\nbond_mode: stable\n", 'unknown bond_mode "stable"'),
        ('{"runner_name": "x"', "is damaged"),
        ('{"setup": {"runner_name": "random"}, "ports": {"a": {}}}', 'the runner "random"'),
        ("   Load Balancing: newest\n   Active Adapters: vmnic0\n", 'unknown Load Balancing "newest"'),
        ("   Uplinks: vmnic0\n   Uplinks: vmnic1\n", "several virtual switches"),
    ],
)
def test_a_dump_that_cannot_be_used_is_an_error_with_a_fix(text: str, message: str) -> None:
    with pytest.raises(BenchError) as error:
        parse_state(text)
    assert message in str(error.value) and "fix: " in str(error.value)


def test_a_file_that_is_too_large_or_no_file_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * (MAX_STATE_BYTES + 1))
    with pytest.raises(BenchError, match="more than 4 MiB"):
        read_state_files([large])
    with pytest.raises(BenchError, match="no regular file"):
        read_state_files([tmp_path])


@pytest.mark.parametrize("other", ["bonding-tlb.txt", "teamd-lacp.txt", "ovs-balance-slb.txt"])
def test_files_of_several_teams_are_refused(other: str) -> None:
    with pytest.raises(BenchError, match="only if all are dumps of esxcli"):
        read("bonding-xor.txt", other)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("bonding-xor.txt", "bonding-tlb.txt"), "has 2 bonds"),
        (("teamd-lacp.txt", "teamd-activebackup.txt"), "has 2 teams"),
        (("bonding-xor.txt", "ovs-balance-slb.txt"), "parts of /proc/net/bonding and ovs-appctl"),
    ],
)
def test_a_file_with_several_teams_is_refused(names: tuple[str, str], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        parse_state("\n".join((DUMPS / name).read_text() for name in names))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bonding-xor.txt", "--team nonsense selects nothing"),
        ("teamd-lacp.txt", "--team nonsense selects nothing"),
        ("teamd-activebackup.json", "--team nonsense selects nothing"),
        ("esxcli-failover.txt", "--team nonsense selects nothing"),
        ("esxcli-vswitch-list.txt", "switch vSwitch0, not nonsense"),
        ("ovs-balance-slb.txt", "has the bonds"),
        ("vsphere-network.json", "has the switches"),
    ],
)
def test_a_team_name_that_the_dump_does_not_have_is_refused(name: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        read_state_files([DUMPS / name], "nonsense")


def test_the_switch_of_esxcli_can_be_named() -> None:
    assert len(read_state_files([DUMPS / "esxcli-vswitch-list.txt"], "vSwitch0").team.uplinks) == 2


def test_half_of_a_surrogate_pair_in_a_dump_can_be_printed() -> None:
    text = (DUMPS / "teamd-activebackup.json").read_text().replace('"eth1"', '"eth\\ud800"')
    names = [uplink.name for uplink in parse_state(text).team.uplinks]
    assert "eth?" in names
