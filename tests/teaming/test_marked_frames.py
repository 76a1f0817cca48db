"""Frames of flows: another library reads them as the flows that they were built from."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import dpkt
import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.teams.agreement import compare_with_prediction
from vnetbench.lab.teams.flows import random_flows
from vnetbench.lab.teams.frames import Mark, build_frame
from vnetbench.lab.teams.members import CarriedFrames
from vnetbench.teaming.flow_sources.pcap import read_captured_flows
from vnetbench.teaming.policies.registry import find_policy
from vnetbench.teaming.team import make_team

pytestmark = pytest.mark.pure

FLOWS = random_flows(400, seed=3)
MIN_ETHERNET_FRAME_BYTES = 60


def test_a_capture_of_the_frames_has_the_flows(tmp_path: Path) -> None:
    flows = [flow for flow in FLOWS if not flow.is_fragmented]
    content = io.BytesIO()
    writer = dpkt.pcap.Writer(content)
    for number, flow in enumerate(flows):
        writer.writepkt(build_frame(flow, Mark().payload(number)), ts=float(number))
    path = tmp_path / "flows.pcap"
    path.write_bytes(content.getvalue())
    captured = read_captured_flows(path)
    assert captured.skipped == 0 and len(captured.flows) == len(flows)
    policies = [find_policy(name) for name in ("layer2", "layer2+3", "layer3+4", "encap2+3", "vlan+srcmac")]
    for flow, read in zip(flows, captured.flows, strict=True):
        for policy in policies:
            assert policy.predict(flow, make_team(7)) == policy.predict(read, make_team(7)), policy.name


def test_the_checksums_of_ipv4_packets_are_those_of_another_library() -> None:
    for flow in random_flows(200, seed=4, is_plain=True):
        packet = dpkt.ethernet.Ethernet(build_frame(flow, b"payload")).data
        sums = [packet.data.sum] + ([packet.sum] if flow.source.version == 4 else [])  # type: ignore[union-attr]
        packet.data.sum = 0
        if flow.source.version == 4:  # type: ignore[union-attr]
            packet.sum = 0
        again = dpkt.ethernet.Ethernet(bytes(dpkt.ethernet.Ethernet(data=packet, type=flow.ethertype))).data
        expected = [again.data.sum] + ([again.sum] if flow.source.version == 4 else [])  # type: ignore[union-attr]
        assert sums == expected


def test_a_mark_reads_its_own_frames_only() -> None:
    mark, other = Mark(), Mark()
    frame = build_frame(FLOWS[0], mark.payload(77))
    assert mark.read_number(frame) == 77
    assert other.read_number(frame) is None
    assert mark.read_number(frame[:-1]) is None


def test_no_frame_needs_padding_by_an_adapter() -> None:
    assert min(len(build_frame(flow, Mark().payload(0))) for flow in FLOWS) >= MIN_ETHERNET_FRAME_BYTES


def test_the_same_seed_gives_the_same_flows() -> None:
    assert random_flows(50, seed=3) == FLOWS[:50]
    assert random_flows(50, seed=4) != FLOWS[:50]


@pytest.mark.parametrize("field", ["source_mac", "source", "protocol"])
def test_a_flow_without_a_field_has_no_frame(field: str) -> None:
    (flow,) = random_flows(1, seed=1, is_plain=True)
    missing: dict[str, Any] = {field: None}
    with pytest.raises(BenchError, match="without"):
        build_frame(replace(flow, **missing), b"")


def test_a_comparison_counts_wrong_lost_copied_and_undecided_flows() -> None:
    flows, team = random_flows(6, seed=8, is_plain=True), make_team(3)
    policy = find_policy("layer2")
    right = [policy.predict(flow, team).uplink or 0 for flow in flows]
    carried = CarriedFrames({number: [uplink] for number, uplink in enumerate(right)})
    assert compare_with_prediction(policy, team, flows, carried).ratio == 1
    carried.members_by_frame[0] = [(right[0] + 1) % 3]
    carried.members_by_frame[1] = [right[1], right[1]]
    del carried.members_by_frame[2]
    found = compare_with_prediction(policy, team, flows, carried)
    assert (found.agreed_count, found.lost_count, len(found.disagreements)) == (3, 1, 2)
    assert compare_with_prediction(find_policy("balance-tlb"), team, flows, carried).undecided_count == 5


def test_copies_on_each_member_and_turns_are_compared() -> None:
    flows, team = random_flows(4, seed=8, is_plain=True), make_team(2)
    copies = CarriedFrames({number: [1, 0] for number in range(4)})
    assert compare_with_prediction(find_policy("broadcast"), team, flows, copies).agreed_count == 4
    copies.members_by_frame[3] = [0]
    assert len(compare_with_prediction(find_policy("broadcast"), team, flows, copies).disagreements) == 1
    turns = CarriedFrames()
    # The foreign frame takes the turn of member 0.
    for frame, member in ((0, 1), (1, 0), (None, 1), (2, 0), (3, 0)):
        turns.add(frame, member)
    found = compare_with_prediction(find_policy("balance-rr"), team, flows, turns)
    assert (found.agreed_count, found.undecided_count, len(found.disagreements)) == (2, 1, 1)
