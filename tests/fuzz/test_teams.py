"""Fuzz the readers of team dumps, socket lists, captures and flows: each is read or refused."""

from __future__ import annotations

import io
import tempfile
from ipaddress import ip_address
from pathlib import Path

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.docs.pages import ROOT
from tests.fuzz.foreign_files import apply_edits, edits
from tests.fuzz.limits import limit_cpu_time
from vnetbench.errors import BenchError
from vnetbench.teaming.flow_sources.pcap import read_captured_flows
from vnetbench.teaming.flow_sources.socket_list import parse_socket_list
from vnetbench.teaming.flow_syntax import parse_flow_option
from vnetbench.teaming.flows import TCP, Flow
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.state.reader import parse_state

pytestmark = pytest.mark.pure

_DUMPS = tuple(
    path for path in sorted((ROOT / "tests" / "data" / "teams").iterdir()) if path.suffix in (".txt", ".json")
)
_FLOW = Flow(ip_address("10.0.0.1"), ip_address("10.0.0.2"), bytes(6), bytes(6), 50000, 5201, TCP)
_FLOW_TEXT = "[2001:db8::1]:50000..50003-[2001:db8::2]:5201,vlan=20,src-mac=00:50:56:00:00:01,protocol=udp"


def _make_capture(*, is_pcapng: bool) -> bytes:
    stream = io.BytesIO()
    writer = dpkt.pcapng.Writer(stream) if is_pcapng else dpkt.pcap.Writer(stream)
    segment = dpkt.tcp.TCP(sport=50000, dport=5201)
    inner = dpkt.ip.IP(src=b"\x0a\0\0\1", dst=b"\x0a\0\0\2", p=TCP, data=segment)
    outer = dpkt.ip.IP(src=b"\x0a\0\1\1", dst=b"\x0a\0\1\2", p=4, data=inner)
    ipv6 = dpkt.ip6.IP6(src=bytes(15) + b"\1", dst=bytes(15) + b"\2", nxt=TCP, plen=20, data=segment)
    for ethertype, payload in ((b"\x08\0", outer), (b"\x81\0\0\x14\x08\0", inner), (b"\x86\xdd", ipv6)):
        writer.writepkt(bytes(12) + ethertype + bytes(payload), ts=1.0)
    return stream.getvalue()


_CAPTURES = tuple(_make_capture(is_pcapng=is_pcapng) for is_pcapng in (False, True))


@given(st.sampled_from(_DUMPS), edits(), st.sampled_from((None, "ba", "vSwitch1")))
def test_any_dump_of_a_team_gives_a_prediction_or_is_refused(
    path: Path, changes: list[tuple[int, int, bytes]], team_name: str | None
) -> None:
    text = apply_edits(path.read_bytes(), changes).decode(errors="replace")
    if not path.name.startswith(("ovs", "vsphere")):
        team_name = None  # Other dumps name no team, and are refused with a name.
    with limit_cpu_time():
        try:
            state = parse_state(text, team_name)
            if state.policy_name is not None:
                prediction = find_policy(state.policy_name).predict(_FLOW, state.team)
                assert set(prediction.candidates) <= set(state.team.usable)
        except BenchError as error:
            assert error.fix


@given(edits())
def test_any_socket_list_is_read_or_refused(changes: list[tuple[int, int, bytes]]) -> None:
    content = (ROOT / "tests" / "data" / "teams" / "ss-tin.txt").read_bytes()
    with limit_cpu_time():
        try:
            parse_socket_list(apply_edits(content, changes).decode(errors="replace"))
        except BenchError as error:
            assert error.fix


@given(st.sampled_from(_CAPTURES), edits())
def test_any_capture_is_read_or_refused(content: bytes, changes: list[tuple[int, int, bytes]]) -> None:
    with tempfile.NamedTemporaryFile() as file, limit_cpu_time():
        file.write(apply_edits(content, changes))
        file.flush()
        try:
            read_captured_flows(Path(file.name))
        except BenchError as error:
            assert error.fix


@given(edits())
def test_any_flow_is_read_or_refused(changes: list[tuple[int, int, bytes]]) -> None:
    with limit_cpu_time():
        try:
            parse_flow_option(apply_edits(_FLOW_TEXT.encode(), changes).decode(errors="replace"))
        except BenchError as error:
            assert error.fix
