"""Flows from `--flow`, from a seed, from `ss` and from captures."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import tempfile
from ipaddress import ip_address
from itertools import product
from pathlib import Path
from typing import Any

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.docs.pages import ROOT
from vnetbench.errors import BenchError
from vnetbench.teaming.flow_sources import pcap, socket_list
from vnetbench.teaming.flow_sources.pcap import read_captured_flows
from vnetbench.teaming.flow_sources.socket_list import parse_socket_list
from vnetbench.teaming.flow_syntax import parse_flow_option
from vnetbench.teaming.flows import AH, ESP, ICMP, ICMPV6, TCP, UDP, Flow, format_end, parse_mac
from vnetbench.teaming.random_flows import draw_flows

pytestmark = pytest.mark.pure

MAC_A, MAC_B = bytes.fromhex("005056000001"), bytes.fromhex("005056000002")


def test_addresses_ports_and_keys_are_read() -> None:
    (flow,) = parse_flow_option(
        "10.0.0.1:50000-10.0.0.2:5201,protocol=udp,vlan=20,vlan-priority=3,src-mac=00:50:56:00:00:01,src-port-id=7"
    )
    assert flow == Flow(
        ip_address("10.0.0.1"), ip_address("10.0.0.2"), source_mac=MAC_A, source_port=50000,
        destination_port=5201, protocol=UDP, vlan=20, vlan_priority=3, source_port_id=7,
    )  # fmt: skip


def test_ipv6_and_mac_addresses_are_read() -> None:
    (flow,) = parse_flow_option("[2001:db8::1]:50000-[2001:db8::2]:5201")
    assert (flow.source, flow.source_port, flow.protocol) == (ip_address("2001:db8::1"), 50000, TCP)
    assert parse_flow_option("2001:db8::1-2001:db8::2")[0].destination == ip_address("2001:db8::2")
    (flow,) = parse_flow_option("00:50:56:00:00:01-00:50:56:00:00:02,vlan=5")
    assert (flow.source_mac, flow.destination_mac, flow.vlan, flow.source) == (MAC_A, MAC_B, 5, None)


def test_a_range_of_ports_gives_a_flow_each() -> None:
    flows = parse_flow_option("10.0.0.1:50000..50003-10.0.0.2:5201")
    assert [(f.source_port, f.destination_port) for f in flows] == [(50000 + i, 5201) for i in range(4)]
    pairs = parse_flow_option("10.0.0.1:1..2-10.0.0.2:11..12")
    assert [(f.source_port, f.destination_port) for f in pairs] == [(1, 11), (2, 12)]


@given(st.ip_addresses(), st.data(), st.integers(1, 65535))
def test_a_printed_flow_is_read_back(source: Any, data: st.DataObject, port: int) -> None:
    destination: Any = data.draw(st.ip_addresses(v=source.version))
    text = f"{format_end(source, None, port)}-{format_end(destination, None, 5201)}"
    if "%" not in text:  # a scope such as fe80::1%eth0
        assert parse_flow_option(text) == [
            Flow(source, destination, source_port=port, destination_port=5201, protocol=TCP)
        ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.1", "is not a flow"),
        ("10.0.0.1-10.0.0.2-10.0.0.3", "is not a flow"),
        ("10.0.0.1-10.0.0.300", "no IP address or MAC address"),
        ("10.0.0.1-2001:db8::1", "mixes IPv4 and IPv6"),
        ("10.0.0.1:0-10.0.0.2:1", "ports are not from 1 to 65535"),
        ("10.0.0.1:5-10.0.0.2", "a port at one end only"),
        ("10.0.0.1:1..3-10.0.0.2:1..2", "3 source ports and 2 destination ports"),
        ("10.0.0.1-10.0.0.2,colour=red", 'unknown key "colour"'),
        ("10.0.0.1-10.0.0.2,vlan=5000", "vlan=5000"),
        ("10.0.0.1-10.0.0.2,vlan=1,vlan=2", "vlan twice"),
        ("10.0.0.1-10.0.0.2,protocol=quic", 'unknown protocol "quic"'),
        ("10.0.0.1-10.0.0.2,src-mac=1", "not a MAC address"),
        ("10.0.0.1-00:50:56:00:00:01", "IP address at one end only"),
        ("1" * 2000, "has 2000 characters"),
        ("00:50:56:00:00:01-00:50:56:00:00:02,src-mac=00:50:56:00:00:09", "two MAC addresses at one end"),
        ("10.0.0.1:5-10.0.0.2:6,protocol=icmp", "its protocol has none"),
        ("10.0.0.1-10.0.0.2,icmp-type=8", "without protocol=icmp"),
        ("10.0.0.1-10.0.0.2,protocol=tcp,spi=8", "without protocol=esp"),
    ],
)
def test_a_wrong_flow_is_an_error_with_a_fix(text: str, message: str) -> None:
    with pytest.raises(BenchError) as error:
        parse_flow_option(text)
    assert message in str(error.value) and "fix: " in str(error.value)


def test_random_flows_depend_on_the_seed_and_have_the_ports_of_linux() -> None:
    flows = draw_flows(500, 7)
    assert flows == draw_flows(500, 7) != draw_flows(500, 8)
    ports = [flow.source_port or 0 for flow in flows]
    assert all(port % 2 == 0 and 32768 <= port <= 60998 for port in ports) and len(set(ports)) > 400
    mac_by_host = {(flow.source, flow.source_mac) for flow in flows}
    assert len(mac_by_host) == len({flow.source for flow in flows})


def test_the_connections_of_ss_are_read_without_those_within_the_host() -> None:
    listed = parse_socket_list((ROOT / "tests" / "data" / "teams" / "ss-tin.txt").read_text())
    assert [
        f"{format_end(f.source, None, f.source_port)} {format_end(f.destination, None, f.destination_port)}"
        for f in listed.flows
    ] == [
        "192.168.100.101:50000 192.168.100.120:5201",
        "192.168.100.101:50002 192.168.100.120:5201",
        # Packets to an IPv4-mapped address are IPv4.
        "192.168.100.101:443 192.168.100.130:40118",
        "[2001:db8::1]:22 [2001:db8::2]:55004",
    ]
    assert listed.skipped_loopback == 1


def test_a_socket_list_with_names_or_of_another_program_is_refused() -> None:
    with pytest.raises(BenchError, match="names in place of numbers") as error:
        parse_socket_list("ESTAB 0 0 10.0.0.1:ssh 10.0.0.2:40000\n")
    assert "-n" in str(error.value)
    with pytest.raises(BenchError, match="which ss does not print"):
        parse_socket_list("Proto Recv-Q Send-Q Local Address Foreign Address\n")


def ethernet(payload: Any, ethertype: int = 0x0800, tag: bytes = b"") -> bytes:
    return MAC_B + MAC_A + tag + ethertype.to_bytes(2) + bytes(payload)


def ipv4(payload: Any, protocol: int, source: str = "10.0.0.1", fragment: int = 0) -> dpkt.ip.IP:
    return dpkt.ip.IP(
        src=ip_address(source).packed, dst=ip_address("10.0.0.2").packed, p=protocol, data=payload,
        _flags_offset=fragment,
    )  # fmt: skip


def capture(folder: Path, frames: list[bytes], *, pcapng: bool = False, link_type: int = 1) -> Path:
    path = folder / "flows.pcap"
    with path.open("wb") as file:
        writer = dpkt.pcapng.Writer(file) if pcapng else dpkt.pcap.Writer(file, linktype=link_type)
        for frame in frames:
            writer.writepkt(frame, ts=1.0)
    return path


@pytest.mark.parametrize("pcapng", [False, True])
def test_the_flows_of_a_capture_are_read_once_and_in_one_direction(tmp_path: Path, pcapng: bool) -> None:
    segment = dpkt.tcp.TCP(sport=50000, dport=5201)
    answer = dpkt.ip.IP(
        src=ip_address("10.0.0.2").packed, dst=ip_address("10.0.0.1").packed, p=TCP,
        data=dpkt.tcp.TCP(sport=5201, dport=50000),
    )  # fmt: skip
    frames = [
        ethernet(ipv4(segment, TCP)),
        ethernet(ipv4(segment, TCP)),
        MAC_A + MAC_B + b"\x08\x00" + bytes(answer),
        ethernet(b"\x00" * 28, 0x0806),
        ethernet(ipv4(segment, TCP), 0x0800, tag=b"\x81\x00\x60\x14"),
    ]
    captured = read_captured_flows(capture(tmp_path, frames, pcapng=pcapng))
    first = Flow(
        ip_address("10.0.0.1"), ip_address("10.0.0.2"), MAC_A, MAC_B, 50000, 5201, TCP, vlan=0
    )  # fmt: skip
    assert captured.flows[0] == first
    assert [(f.vlan, f.vlan_priority) for f in captured.flows] == [(0, 0), (20, 3)]
    assert (captured.packets, captured.skipped, captured.is_complete) == (5, 1, True)


def test_tunnels_fragments_and_pings_of_a_capture_are_read(tmp_path: Path) -> None:
    inner = ipv4(dpkt.udp.UDP(sport=7, dport=8), UDP, source="172.16.0.1")
    echo = dpkt.icmp.ICMP(type=8, data=dpkt.icmp.ICMP.Echo(id=99, seq=1))
    frames = [
        ethernet(ipv4(inner, 4)),
        ethernet(ipv4(struct.pack(">HH", 0, 0x0800) + bytes(inner), 47)),
        ethernet(ipv4(b"x" * 16, UDP, fragment=0x2000)),
        ethernet(ipv4(echo, ICMP)),
    ]
    ip_in_ip, gre, fragment, ping = read_captured_flows(capture(tmp_path, frames)).flows
    for tunnel in (ip_in_ip, gre):
        assert tunnel.inner is not None
        assert (tunnel.inner.source, tunnel.inner.source_port) == (ip_address("172.16.0.1"), 7)
    assert fragment.is_fragmented and fragment.source_port is None
    assert (ping.icmp_type, ping.icmp_id) == (8, 99)


def test_a_capture_without_ethernet_headers_has_no_mac_addresses(tmp_path: Path) -> None:
    path = capture(tmp_path, [bytes(ipv4(dpkt.udp.UDP(sport=7, dport=8), UDP))], link_type=101)
    (flow,) = read_captured_flows(path).flows
    assert (flow.source_port, flow.source_mac) == (7, None)


def test_a_file_that_is_no_capture_or_of_another_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"hello, this is no capture at all")
    with pytest.raises(BenchError, match="no packet capture"):
        read_captured_flows(path)
    with pytest.raises(BenchError, match="link type 105"):
        read_captured_flows(capture(tmp_path, [], link_type=105))


@given(st.binary(max_size=300), st.integers(0, 400))
def test_a_damaged_capture_raises_no_other_error(noise: bytes, cut: int) -> None:
    stream = io.BytesIO()
    writer = dpkt.pcapng.Writer(stream) if len(noise) % 2 else dpkt.pcap.Writer(stream)
    for _ in range(3):
        writer.writepkt(ethernet(ipv4(dpkt.tcp.TCP(sport=1, dport=2), TCP)), ts=1.0)
    with tempfile.NamedTemporaryFile() as file, contextlib.suppress(BenchError):
        file.write(stream.getvalue()[:cut] + noise)
        file.flush()
        read_captured_flows(Path(file.name))


def test_mac_addresses_of_cisco_and_windows_are_read() -> None:
    forms = ("00:50:56:01:02:03", "00-50-56-01-02-03", "0050.5601.0203")
    for source, destination in product(forms, forms):
        assert parse_mac(source) == bytes.fromhex("005056010203")
        (flow,) = parse_flow_option(f"{source}-{destination.replace('3', '4')},vlan=7")
        assert (flow.source_mac or b"").hex() == "005056010203"
        assert (flow.destination_mac or b"").hex() == "005056010204"


def test_a_flow_has_ports_of_16_bits_whatever_its_source() -> None:
    with pytest.raises(BenchError, match="port 99999"):
        Flow(source_port=99999)
    with pytest.raises(BenchError, match="99999"):
        parse_socket_list("ESTAB 0 0 10.0.0.1:22 10.0.0.2:99999\n")


def test_the_list_of_one_state_has_no_column_for_it() -> None:
    text = (
        "Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
        "0      0      10.0.0.1:22        10.0.0.2:40000\n\t cubic wscale:7,7 rto:204\n"
        "0      128    0.0.0.0:22         0.0.0.0:*\n"
    )
    (flow,) = parse_socket_list(text).flows
    assert (flow.source_port, flow.destination, flow.destination_port) == (22, ip_address("10.0.0.2"), 40000)


def test_long_socket_lists_are_refused_before_they_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_list, "MAX_FLOWS", 10)
    lines = [f"ESTAB 0 0 10.0.0.1:{port} 10.0.0.2:80" for port in range(1, 21)]
    with pytest.raises(BenchError, match="more than 10 connections"):
        # The bad line behind the limit is not read.
        parse_socket_list("\n".join([*lines, "ESTAB 0 0 a:b c:d"]))
    with pytest.raises(BenchError, match="lines"):
        parse_socket_list("\n" * (socket_list.MAX_LINES + 1))


def test_a_capture_behind_the_limits_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    frames = [ethernet(ipv4(dpkt.udp.UDP(sport=7, dport=port), UDP)) for port in range(1, 31)]
    for pcapng in (False, True):
        path = capture(tmp_path, frames, pcapng=pcapng)
        for name, limit in (("MAX_PACKETS", 10), ("MAX_CAPTURE_BYTES", 1000), ("_MAX_READS", 30)):
            with monkeypatch.context() as patch:
                patch.setattr(pcap, name, limit)
                captured = read_captured_flows(path)
            assert 0 < captured.packets < 20 and len(captured.flows) == captured.packets
            assert not captured.is_complete and not captured.is_damaged
        assert read_captured_flows(path).is_complete


def test_a_capture_that_was_cut_off_says_so(tmp_path: Path) -> None:
    frames = [ethernet(ipv4(dpkt.udp.UDP(sport=7, dport=port), UDP)) for port in range(1, 4)]
    for pcapng in (False, True):
        path = capture(tmp_path, frames, pcapng=pcapng)
        path.write_bytes(path.read_bytes()[:-10])
        captured = read_captured_flows(path)
        assert (captured.packets, captured.is_damaged) == (2, True)
    path = capture(tmp_path, frames)
    content = bytearray(path.read_bytes())
    content[32:36] = (2**31).to_bytes(4, "little")  # the length of the first packet
    path.write_bytes(content)
    captured = read_captured_flows(path)
    assert (captured.packets, captured.is_damaged) == (0, True)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BenchError, match="no regular file"):
        read_captured_flows(tmp_path / "pipe")


def test_the_spi_of_ipsec_and_the_packet_that_an_icmp_error_quotes_are_read(tmp_path: Path) -> None:
    quoted = dpkt.ip.IP(
        src=ip_address("10.0.0.2").packed, dst=ip_address("10.0.0.9").packed, p=UDP,
        data=dpkt.udp.UDP(sport=5000, dport=5001),
    )  # fmt: skip
    ends = ip_address("2001:db8::1").packed, ip_address("2001:db8::2").packed
    quoted_ipv6 = (
        struct.pack(">IHBB", 6 << 28, 8, UDP, 64) + ends[1] + ends[0] + struct.pack(">4H", 7, 8, 8, 0)
    )
    error_ipv6 = b"\x01\x04" + bytes(6) + quoted_ipv6
    authenticated = bytes((TCP, 4, 0, 0)) + struct.pack(">II", 0xABCD, 1) + bytes(12)
    segment = bytes(dpkt.tcp.TCP(sport=1, dport=2))
    frames = [
        ethernet(ipv4(struct.pack(">II", 0xDEADBEEF, 1) + bytes(16), ESP)),
        ethernet(ipv4(authenticated + segment, AH)),
        ethernet(ipv4(b"\x03\x03" + bytes(6) + bytes(quoted)[:28], ICMP)),
        ethernet(
            struct.pack(">IHBB", 6 << 28, len(error_ipv6), ICMPV6, 64) + b"".join(ends) + error_ipv6, 0x86DD
        ),
        ethernet(
            struct.pack(">IHBB", 6 << 28, 44, AH, 64) + b"".join(ends) + authenticated + segment, 0x86DD
        ),
    ]
    esp, ah, error, other_error, other_ah = read_captured_flows(capture(tmp_path, frames)).flows
    assert (esp.spi, ah.spi, other_ah.spi, other_ah.protocol) == (0xDEADBEEF, 0xABCD, 0xABCD, AH)
    assert error.inner is not None and other_error.inner is not None
    assert error.icmp_type == 3 and other_error.icmp_type == 1
    assert (str(error.inner.destination), error.inner.source_port) == ("10.0.0.9", 5000)
    assert (str(other_error.inner.source), other_error.inner.destination_port) == ("2001:db8::2", 8)


def test_extension_headers_of_ipv6_are_seen(tmp_path: Path) -> None:
    ends = ip_address("2001:db8::1").packed + ip_address("2001:db8::2").packed
    segment = bytes(dpkt.udp.UDP(sport=7, dport=8))
    plain = struct.pack(">IHBB", 6 << 28, 8, UDP, 64) + ends + segment
    hop_by_hop = struct.pack(">IHBB", 6 << 28, 16, 0, 64) + ends + bytes((UDP, 0, 1, 4, 0, 0, 0, 0)) + segment
    frames = [ethernet(plain, 0x86DD), ethernet(hop_by_hop, 0x86DD)]
    flows = read_captured_flows(capture(tmp_path, frames)).flows
    assert [(flow.has_extension_headers, flow.source_port) for flow in flows] == [(False, 7), (True, 7)]
