"""The formulas of Linux bonding, by hand-computed values of the kernel's code, and what they depend on."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest

from vnetbench.teaming.flows import AH, DCCP, ESP, ICMP, TCP, UDP, UDP_LITE, Flow, parse_mac
from vnetbench.teaming.policies.linux_bonding import (
    hash_encap2_3,
    hash_encap3_4,
    hash_layer2,
    hash_layer2_3,
    hash_layer3_4,
    hash_vlan_source_mac,
)
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.team import Team, Uplink, make_team

pytestmark = pytest.mark.pure

FLOW = Flow(
    ip_address("10.0.0.1"),
    ip_address("10.0.0.2"),
    parse_mac("52:54:00:12:34:56"),
    parse_mac("52:54:00:ab:cd:ef"),
    50000,
    5201,
    TCP,
)
LITTLE, BIG = make_team(3), replace(make_team(3), byte_order="big")
TAGGED = replace(make_team(3), is_vlan_tag_in_frame=True)


def test_layer2_is_the_xor_of_the_last_bytes_and_the_ethertype() -> None:
    assert hash_layer2(FLOW, LITTLE) == 0xEF ^ 0x56 ^ 0x0800
    ipv6 = replace(FLOW, source=ip_address("2001:db8::1"), destination=ip_address("2001:db8::2"))
    assert hash_layer2(ipv6, LITTLE) == 0xEF ^ 0x56 ^ 0x86DD
    assert hash_layer2(replace(FLOW, vlan=5), TAGGED) == 0xEF ^ 0x56 ^ 0x8100
    assert hash_layer2(replace(FLOW, vlan=5), LITTLE) == hash_layer2(FLOW, LITTLE)


def test_layer2_3_reads_addresses_in_the_byte_order_of_the_host() -> None:
    # Addresses differ in the last byte only: 3 << 24 on x86. 0x08B9 ^ 0x03000000, folded by 16 and by 8.
    assert hash_layer2_3(FLOW, LITTLE) == 0x03000BB9 ^ (0x03000BB9 >> 8)
    assert hash_layer2_3(FLOW, BIG) == (0x08B9 ^ 3) ^ ((0x08B9 ^ 3) >> 8)


def test_layer3_4_drops_the_lowest_bit() -> None:
    # 50000 = 0xC350, 5201 = 0x1451: in memory C3 50 14 51, as a number of x86 0x511450C3.
    value = 0x511450C3 ^ 0x03000000
    value ^= value >> 16
    value ^= value >> 8
    assert hash_layer3_4(FLOW, LITTLE) == value >> 1


def test_other_kernels_drop_the_lowest_bit_of_all_hashes_or_of_none() -> None:
    every = replace(LITTLE, dropped_hash_bit="all")
    none = replace(LITTLE, dropped_hash_bit="none")
    assert hash_layer2_3(FLOW, every) == hash_layer2_3(FLOW, LITTLE) >> 1
    assert hash_layer3_4(FLOW, every) == hash_layer3_4(FLOW, LITTLE) == hash_layer3_4(FLOW, none) >> 1
    # Without the drop, ports that are all even use one of two links.
    flows = [replace(FLOW, source_port=port) for port in range(50000, 50064, 2)]
    assert len({hash_layer3_4(flow, none) % 2 for flow in flows}) == 1
    assert len({hash_layer3_4(flow, LITTLE) % 2 for flow in flows}) == 2


def test_ipv6_addresses_count_as_the_xor_of_their_words() -> None:
    flow = replace(FLOW, source=ip_address("1:2:3:4:5:6:7:8"), destination=ip_address("::"))
    word = 0x00010002 ^ 0x00030004 ^ 0x00050006 ^ 0x00070008
    value = 0xC3501451 ^ word
    value ^= value >> 16
    value ^= value >> 8
    assert hash_layer3_4(flow, BIG) == value >> 1


def test_fragments_and_other_protocols_hash_no_ports() -> None:
    no_ports = replace(FLOW, source_port=0, destination_port=0)
    assert hash_layer3_4(replace(FLOW, is_fragmented=True), LITTLE) == hash_layer3_4(no_ports, LITTLE)
    esp_like = replace(FLOW, protocol=89, source_port=None, destination_port=None)
    assert hash_layer3_4(esp_like, LITTLE) == hash_layer3_4(no_ports, LITTLE)


def test_pings_hash_type_code_and_id() -> None:
    ping = replace(FLOW, protocol=ICMP, source_port=None, destination_port=None, icmp_type=8, icmp_id=0x1234)
    value = 0x12340008 ^ 0x03000000
    value ^= value >> 16
    value ^= value >> 8
    assert hash_layer3_4(ping, LITTLE) == value >> 1
    # ID 0 counts as 1, and errors such as "time exceeded" have no ID.
    assert hash_layer3_4(replace(ping, icmp_id=0), LITTLE) == hash_layer3_4(replace(ping, icmp_id=1), LITTLE)
    without = hash_layer3_4(replace(ping, icmp_type=11), LITTLE)
    assert without == hash_layer3_4(replace(FLOW, source_port=0, destination_port=0), LITTLE)


def test_encap_policies_look_into_tunnels_and_the_others_do_not() -> None:
    inner = Flow(ip_address("172.16.0.1"), ip_address("172.16.0.9"), None, None, 1000, 2000, TCP)
    tunnel = replace(FLOW, protocol=4, source_port=None, destination_port=None, inner=inner)
    other = replace(tunnel, inner=replace(inner, source_port=1002))
    assert hash_encap3_4(tunnel, LITTLE) == hash_layer3_4(inner, LITTLE) != hash_encap3_4(other, LITTLE)
    assert hash_layer3_4(tunnel, LITTLE) == hash_layer3_4(other, LITTLE)
    assert hash_encap2_3(tunnel, LITTLE) != hash_layer2_3(tunnel, LITTLE)
    assert hash_encap2_3(FLOW, LITTLE) == hash_layer2_3(FLOW, LITTLE)


def test_a_tag_in_the_frame_hides_the_addresses_from_layer2_3_and_layer3_4() -> None:
    tagged = replace(FLOW, vlan=7)
    assert hash_layer2_3(tagged, TAGGED) == hash_layer3_4(tagged, TAGGED) == hash_layer2(tagged, TAGGED)
    # encap2+3 finds them, and hashes them with the EtherType of the tag.
    assert hash_encap2_3(tagged, TAGGED) != hash_layer2(tagged, TAGGED)


def test_vlan_srcmac_hashes_the_whole_tag_and_both_halves_of_the_address() -> None:
    value = 0x525400 ^ 0x123456
    assert hash_vlan_source_mac(FLOW, LITTLE) == value
    assert hash_vlan_source_mac(replace(FLOW, vlan=20, vlan_priority=3), LITTLE) == value ^ 20 ^ (3 << 13)
    assert hash_vlan_source_mac(replace(FLOW, vlan=20), TAGGED) == value


def test_encap3_4_is_open_as_long_as_packets_may_carry_a_hash() -> None:
    prediction = find_policy("encap3+4").predict(FLOW, make_team(2))
    assert prediction.uplink is None and "random hash of the sending socket" in (prediction.depends_on or "")
    team = replace(make_team(2), packets_carry_hash=False)
    assert find_policy("encap3+4").predict(FLOW, team).uplink == hash_layer3_4(FLOW, team) % 2


def test_tlb_and_alb_are_open_unless_dynamic_balancing_is_off() -> None:
    for name in ("balance-tlb", "balance-alb"):
        assert find_policy(name).predict(FLOW, make_team(2)).uplink is None
        team = replace(make_team(2), has_dynamic_load_balancing=False, xmit_hash_policy="layer3+4")
        assert find_policy(name).predict(FLOW, team) == find_policy("layer3+4").predict(FLOW, team)


def test_modes_without_a_hash_use_the_active_member_or_all() -> None:
    team = Team((Uplink("a"), Uplink("b"), Uplink("c", None, False)), active=1)
    assert find_policy("active-backup").predict(FLOW, team).uplink == 1
    assert find_policy("active-backup").predict(FLOW, replace(team, active=2)).candidates == (0, 1)
    in_turn = find_policy("balance-rr").predict(FLOW, team)
    assert (in_turn.spread, in_turn.candidates) == ("packets in turn", (0, 1))
    copies = find_policy("broadcast").predict(FLOW, team)
    assert (copies.spread, copies.candidates) == ("copy on each", (0, 1))


def _fold(value: int) -> int:
    value ^= value >> 16
    return value ^ value >> 8


def test_layer3_4_hashes_the_spi_of_ipsec_and_is_open_without_it() -> None:
    policy = find_policy("layer3+4")
    for protocol in (ESP, AH):
        flow = replace(FLOW, protocol=protocol, source_port=None, destination_port=None)
        unknown = policy.predict(flow, LITTLE)
        assert unknown.uplink is None and "SPI" in (unknown.depends_on or "")
        known = replace(flow, spi=0xDEADBEEF)
        # In memory DE AD BE EF, as a number of x86 0xEFBEADDE.
        assert hash_layer3_4(known, LITTLE) == _fold(0xEFBEADDE ^ 0x03000000) >> 1
        assert policy.predict(known, LITTLE).uplink == hash_layer3_4(known, LITTLE) % 3
        assert policy.predict(known.reverse(), LITTLE).uplink is None
        assert replace(known, answer_spi=7).reverse().spi == 7
    assert find_policy("layer2+3").predict(flow, LITTLE).uplink is not None
    assert policy.predict(flow, make_team(1)).uplink == 0


@pytest.mark.parametrize("protocol", [DCCP, UDP_LITE])
def test_layer3_4_hashes_the_ports_of_dccp_and_udp_lite(protocol: int) -> None:
    assert hash_layer3_4(replace(FLOW, protocol=protocol), LITTLE) == hash_layer3_4(FLOW, LITTLE)
    no_ports = replace(FLOW, protocol=protocol, source_port=None, destination_port=None)
    prediction = find_policy("layer3+4").predict(no_ports, LITTLE)
    assert prediction.uplink is None and "ports" in (prediction.depends_on or "")


def test_icmp_errors_hash_the_addresses_and_ports_that_they_quote() -> None:
    quoted = Flow(ip_address("10.0.0.2"), ip_address("10.0.0.9"), None, None, 5000, 5001, UDP)
    error = replace(
        FLOW, protocol=ICMP, source_port=None, destination_port=None, icmp_type=3, icmp_code=3, inner=quoted
    )
    # Ports 0x1388 and 0x1389, in memory 13 88 13 89; addresses differ by 2 ^ 9 in the last byte.
    assert hash_layer3_4(error, LITTLE) == _fold(0x89138813 ^ 0x0B000000) >> 1
    assert find_policy("layer3+4").predict(error, LITTLE).uplink == 2
    assert hash_layer2_3(error, LITTLE) == _fold(0x08B9 ^ 0x0B000000)
    ping = replace(error, inner=replace(quoted, protocol=ICMP, icmp_type=8, icmp_id=77))
    assert hash_layer3_4(ping, LITTLE) == _fold(0x0B000000) >> 1
    # encap policies dissect the packet itself, and errors have no ID.
    assert hash_encap3_4(error, LITTLE) == _fold(0x03000000) >> 1
    for name in ("layer2+3", "layer3+4"):
        prediction = find_policy(name).predict(replace(error, inner=None), LITTLE)
        assert prediction.uplink is None and "quotes" in (prediction.depends_on or "")
    assert find_policy("layer2").predict(replace(error, inner=None), LITTLE).uplink is not None


def test_layer3_4_reads_no_ports_behind_extension_headers_and_encap3_4_does() -> None:
    flow = replace(FLOW, source=ip_address("2001:db8::1"), destination=ip_address("2001:db8::2"))
    behind = replace(flow, has_extension_headers=True)
    no_ports = replace(flow, source_port=0, destination_port=0)
    assert hash_layer3_4(behind, LITTLE) == hash_layer3_4(no_ports, LITTLE) != hash_layer3_4(flow, LITTLE)
    assert hash_encap3_4(behind, LITTLE) == hash_encap3_4(flow, LITTLE)
    assert hash_layer2_3(behind, LITTLE) == hash_layer2_3(flow, LITTLE)
