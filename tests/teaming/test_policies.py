"""Each policy's formula: published vectors, ranges, symmetry, and what a flow needs."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vnetbench.errors import BenchError
from vnetbench.teaming.advice import advise
from vnetbench.teaming.flows import ICMP, TCP, UDP, Flow, parse_mac
from vnetbench.teaming.policies.registry import ALIASES, POLICIES, find_policy
from vnetbench.teaming.predict import predict_flows
from vnetbench.teaming.team import Team, Uplink, make_team

pytestmark = pytest.mark.pure

macs = st.binary(min_size=6, max_size=6)
ports = st.integers(0, 65535)


ends_of_one_version = st.one_of(
    st.tuples(st.ip_addresses(v=4), st.ip_addresses(v=4)),
    st.tuples(st.ip_addresses(v=6), st.ip_addresses(v=6)),
)
flows = st.builds(
    lambda ends, sm, dm, sp, dp, protocol, vlan, priority, inner: Flow(
        ends[0], ends[1], sm, dm, sp, dp, protocol, vlan, priority, inner=inner
    ),
    ends_of_one_version,
    macs,
    macs,
    ports,
    ports,
    st.sampled_from((TCP, UDP, 132)),
    st.integers(0, 4094),
    st.integers(0, 7),
    st.none() | st.builds(
        lambda ends, sp, dp: Flow(ends[0], ends[1], source_port=sp, destination_port=dp, protocol=TCP),
        ends_of_one_version, ports, ports,
    ),
)  # fmt: skip
teams = st.builds(
    lambda ups, order, carry, in_frame, basis: Team(
        tuple(Uplink(str(i), None, up) for i, up in enumerate(ups)),
        byte_order=order, packets_carry_hash=carry, is_vlan_tag_in_frame=in_frame, hash_basis=basis,
        uplink_by_bucket={bucket: bucket % len(ups) for bucket in range(256)},
    ),
    st.lists(st.booleans(), min_size=1, max_size=8).filter(any),
    st.sampled_from(("little", "big")), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1),
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "destination", "count", "uplink"),
    [
        ("192.168.100.101", "192.168.100.120", 4, 1),
        ("192.168.100.101", "192.168.100.130", 4, 3),
        ("192.168.100.101", "192.168.100.140", 4, 1),
        ("192.168.100.101", "192.168.100.150", 4, 3),
        ("10.0.0.10", "10.0.0.20", 2, 0),
        ("10.0.0.10", "10.0.0.22", 2, 0),
        ("10.0.0.10", "10.0.0.21", 2, 1),
    ],
)
def test_ip_hash_gives_the_published_uplinks(source: str, destination: str, count: int, uplink: int) -> None:
    prediction = find_policy("ip-hash").predict(flow(source, destination), make_team(count))
    assert (prediction.uplink, prediction.is_ambiguous) == (uplink, False)


def test_ip_hash_names_both_uplinks_where_its_two_descriptions_differ() -> None:
    # Last octets: 1 XOR 2 = 3, 3 mod 3 = 0. Whole addresses differ by 0x01000003, 16777219 mod 3 = 1.
    prediction = find_policy("ip-hash").predict(flow("10.0.0.1", "11.0.0.2"), make_team(3))
    assert prediction.is_ambiguous and prediction.uplink is None and prediction.candidates == (0, 1)
    assert "last octets give uplink 0" in (prediction.depends_on or "")


@given(flows, st.sampled_from((1, 2, 4, 8, 16, 32, 64)))
def test_both_descriptions_of_ip_hash_agree_for_powers_of_two(each: Flow, count: int) -> None:
    assert not find_policy("ip-hash").predict(each, make_team(count)).is_ambiguous


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=20)
@given(each=flows, team=teams)
def test_a_prediction_names_only_uplinks_that_are_up(name: str, each: Flow, team: Team) -> None:
    prediction = POLICIES[name].predict(each, team)
    assert prediction.candidates and set(prediction.candidates) <= set(team.usable)
    assert list(prediction.candidates) == sorted(set(prediction.candidates))
    if prediction.uplink is None:
        assert prediction.depends_on
    else:
        assert prediction.candidates == (prediction.uplink,)


@pytest.mark.parametrize(
    "name",
    ["layer2", "layer2+3", "encap2+3", "ip-hash", "switch-src-dst-mac", "switch-src-dst-ip",
     "switch-src-dst-port", "switch-src-dst-mixed-ip-port", "cisco-src-dst-mixed-ip-port"],
)  # fmt: skip
@given(each=flows, team=teams)
def test_a_policy_of_xors_of_both_ends_is_symmetric(name: str, each: Flow, team: Team) -> None:
    policy = POLICIES[name]
    assert policy.predict(each, team).candidates == policy.predict(each.reverse(), team).candidates


@given(flows)
def test_the_reverse_of_the_reverse_is_the_flow(each: Flow) -> None:
    assert each.reverse().reverse() == each
    ping = replace(each, protocol=ICMP, icmp_type=8, icmp_id=1)
    assert ping.reverse().icmp_type == 0 and ping.reverse().reverse() == ping


@pytest.mark.parametrize(
    ("name", "fields", "missing"),
    [
        ("layer3+4", {"source_port": None}, "source port"),
        ("layer2", {"destination_mac": None}, "destination MAC address"),
        ("layer2+3", {"source": None, "destination": None}, "source IP address"),
        ("balance-tcp", {"protocol": None}, "IP protocol"),
        ("switch-dst-port", {"destination_port": None}, "destination port"),
    ],
)
def test_a_flow_that_lacks_a_field_is_refused_with_its_name(
    name: str, fields: dict[str, Any], missing: str
) -> None:
    whole = replace(flow("10.0.0.1", "10.0.0.2"), source_mac=bytes(6), destination_mac=bytes(6),
                    source_port=1, destination_port=2, protocol=TCP)  # fmt: skip
    with pytest.raises(BenchError, match=missing) as error:
        find_policy(name).predict(replace(whole, **fields), make_team(2))
    assert error.value.fix


def test_an_unknown_policy_names_similar_ones() -> None:
    with pytest.raises(BenchError) as error:
        find_policy("layer34")
    assert "layer3+4" in str(error.value)


def test_a_team_without_uplinks_or_with_all_down_or_too_many_is_refused() -> None:
    each = flow("10.0.0.1", "10.0.0.2")
    with pytest.raises(BenchError, match="0 uplinks"):
        make_team(0)
    with pytest.raises(BenchError, match="no uplink of the team is up"):
        find_policy("ip-hash").predict(each, Team((Uplink("0", None, False),)))
    with pytest.raises(BenchError, match="at most 8 uplinks, not 9"):
        find_policy("cisco-src-ip").predict(each, make_team(9))


def test_mixed_families_are_refused() -> None:
    with pytest.raises(BenchError, match="mixes IPv4 and IPv6"):
        flow("10.0.0.1", "2001:db8::1")


def test_aliases_name_existing_policies() -> None:
    assert set(ALIASES.values()) <= set(POLICIES) and not set(ALIASES) & set(POLICIES)
    assert find_policy("802.3ad/layer3+4") is find_policy("layer3+4")


def test_a_flow_uses_another_uplink_when_one_is_down() -> None:
    each = flow("192.168.100.101", "192.168.100.130")
    team = Team(tuple(Uplink(str(i), None, i != 1) for i in range(4)))
    # 0xE7 mod 3 = 0: the first of uplinks 0, 2 and 3. Whole addresses give the same.
    assert find_policy("ip-hash").predict(each, team).uplink == 0


def flow(source: str, destination: str) -> Flow:
    return Flow(ip_address(source), ip_address(destination))


def test_a_mac_address_is_read_and_a_wrong_one_refused() -> None:
    assert parse_mac("0:50:56:A:b:c") == bytes((0, 0x50, 0x56, 10, 11, 12))
    with pytest.raises(BenchError, match="is not a MAC address"):
        parse_mac("00:50:56:01:02")


def test_the_state_of_the_other_side_decides_the_answers_before_and_after_advice() -> None:
    policy, team = find_policy("balance-tcp"), make_team(2)
    near = replace(team, uplink_by_bucket={bucket: bucket % 2 for bucket in range(256)})
    far = replace(team, uplink_by_bucket=dict.fromkeys(range(256), 1))
    end = replace(flow("10.0.0.1", "10.0.0.2"), destination_port=5201, protocol=TCP)
    sent = [replace(end, source_port=port) for port in range(50000, 50100)]
    together = [each for each in sent if policy.predict(each, near).uplink == 0][:4]
    known = predict_flows(together, policy, near, policy, far)
    assert [each.reverse.uplink for each in known.flows] == [1] * 4
    spread = advise(known).result
    assert spread is not None
    assert [load.certain_flows for load in spread.forward_load.uplinks] == [2, 2]
    assert [load.certain_flows for load in spread.reverse_load.uplinks] == [0, 4]
