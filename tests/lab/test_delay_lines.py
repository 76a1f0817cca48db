"""Delay lines on running testbeds: the delay is there, so is the loss, and nothing outlives them."""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.lab.test_requests import measured
from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement, measure_trial
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.links import netem
from vnetbench.lab.netns.testbed import NetnsLab, create_testbed
from vnetbench.lab.netns.testbed import NetnsTestbed as Bed
from vnetbench.lab.netns.topology import BRIDGE, DIRECT, MACVLAN, OPEN_VSWITCH, ROUTER, NetnsShape
from vnetbench.results.records import HOST, EndpointRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

pytestmark = pytest.mark.lab

ASKED = TestbedSpec()
SURE = 6.0
"""Standard deviations: one test in 500 million fails by chance."""


@pytest.fixture(autouse=True)
def without_netem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netem, "is_there", lambda: False)


@pytest.fixture(scope="module")
def bridged() -> Iterator[Bed]:
    raised = create_testbed("t-line", NetnsShape(line=True), "a test")
    yield raised
    raised.close()


def load_of(workload: str, **levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, workload), 0.5, 0.1, workload)


def under(bed: Bed, load: TrialLoad) -> tuple[dict[str, Any], TrialMeasurement]:
    """What a treatment was set to, and what came of a trial of it."""
    effective = bed.apply(load.factors, ASKED)
    observer = start_observer("a test")
    try:
        return effective, measure_trial(bed, observer, load)
    finally:
        observer.close()


def sum_endpoint_counts(done: TrialMeasurement, way: str = "forward") -> dict[str, Any]:
    (host,) = (side for side in done.endpoints if side.name == HOST)
    lines: Any = host.totals["delay_lines"]
    (line,) = lines
    return dict(line[way]["counts"])


def flow_of(done: TrialMeasurement, endpoint: str) -> dict[str, Any]:
    """What a side says of its one flow."""
    side: EndpointRecord = next(side for side in done.endpoints if side.name == endpoint)
    streams: Any = side.totals["streams"]
    (stream,) = streams
    return dict(stream)


@pytest.mark.parametrize("vswitch", [BRIDGE, MACVLAN, ROUTER, DIRECT, OPEN_VSWITCH])
@pytest.mark.parametrize("ip_version", ["4", "6"])
def test_a_round_trip_takes_the_delay_twice(vswitch: str, ip_version: str) -> None:
    if vswitch == OPEN_VSWITCH and not shutil.which("ovs-vswitchd"):
        pytest.skip("Open vSwitch is not installed")
    levels = complete_levels({"vswitch": vswitch, "link_delay": 0.01, "pairs": 2, "ip_version": ip_version})
    shape = NetnsLab(ASKED, "a test").shape(levels)
    assert shape == NetnsShape(vswitch, 2, line=True)
    bed = create_testbed(f"t-line-{vswitch}", shape, "a test")
    try:
        for mtu in (9000, 1500):
            found = bed.apply({**levels, "mtu": mtu}, ASKED)
            assert found["link_impaired_by"] == "delay line"
            assert (found["link_delay"], found["path_mtu_proved"]) == (0.01, mtu)
            assert len(found["path_rtt_us"]) == 2 and min(found["path_rtt_us"]) >= 20_000
    finally:
        bed.close()


def test_a_treatment_without_delay_has_no_line_in_its_path() -> None:
    lab = NetnsLab(ASKED, "a test")
    assert not lab.shape(complete_levels({"link_delay": "none", "link_loss": 0.0})).line
    assert lab.shape(complete_levels({"link_loss": 0.01})).line


def test_one_testbed_takes_every_delay_in_turn_and_a_shaped_link_with_it(bridged: Bed) -> None:
    for delay in (0.02, 0.001, "none"):
        found = bridged.apply(complete_levels({"link_delay": delay, "link_rate": 10**8}), ASKED)
        assert (found["link_delay"], found["link_rate"]) == (delay, 10**8)
        assert (min(found["path_rtt_us"]) > 10_000) == (delay == 0.02)


def test_the_line_keeps_from_the_cpus_of_the_load_where_it_can(bridged: Bed) -> None:
    shared = bridged.apply(complete_levels({"link_delay": 0.001, "cpus": "any"}), ASKED)
    assert shared["delay_line_shares_cpus"]
    online = sorted(os.sched_getaffinity(0))
    apart = bridged.apply(complete_levels({"link_delay": 0.001, "cpus": str(online[0])}), ASKED)
    assert apart["delay_line_shares_cpus"] == (len(online) == 1)
    if len(online) > 1:
        assert str(online[0]) not in str(apart["delay_line_cpus"])


def test_the_segments_that_are_lost_are_the_share_that_was_asked_for(bridged: Bed) -> None:
    load = load_of(TCP_STREAM, link_delay=0.001, link_loss=0.01, mtu=1500)
    _, done = under(bridged, load)
    counts = sum_endpoint_counts(done)
    segments, lost = counts["segments"], counts["lost"]
    assert segments > counts["frames"] > 0, "what TCP hands over as one is told apart"
    assert abs(lost - 0.01 * segments) < SURE * math.sqrt(0.01 * 0.99 * segments)
    source = next(side for side in done.endpoints if side.name == "a1")
    sent_again = sum(stream.retransmits or 0 for sample in source.samples for stream in sample.streams)
    assert sent_again > 0, "TCP has seen it"


def test_every_datagram_that_does_not_come_is_one_that_the_line_lost(bridged: Bed) -> None:
    load = load_of(UDP_STREAM, link_loss=0.1, rate=4000.0, datagram_size=200)
    _, done = under(bridged, load)
    sent, came = flow_of(done, "a1")["datagrams"], flow_of(done, "b1")
    lost = sent - came["datagrams"] - came["socket_drops"]
    assert abs(lost - 0.1 * sent) < SURE * math.sqrt(0.1 * 0.9 * sent)


def test_packets_that_are_held_back_arrive_out_of_order_and_are_not_lost(bridged: Bed) -> None:
    load = load_of(UDP_STREAM, link_delay=0.001, link_reordering=0.05, rate=20_000.0, datagram_size=200)
    _, done = under(bridged, load)
    came = flow_of(done, "b1")
    held_back = sum_endpoint_counts(done)["held_back"]
    assert held_back > 0
    assert 0 < came["reordered"] <= held_back
    assert sum_endpoint_counts(done)["lost"] == 0


def test_jitter_lets_no_packet_overtake_another(bridged: Bed) -> None:
    load = load_of(UDP_STREAM, link_delay=0.002, link_jitter=0.001, rate=20_000.0, datagram_size=200)
    effective, done = under(bridged, load)
    came = flow_of(done, "b1")
    assert (came["reordered"], effective["link_jitter"]) == (0, 0.001)


def test_a_campaign_keeps_what_impaired_the_link_and_what_the_line_counted(tmp_path: Path) -> None:
    summary = measured(tmp_path, TCP_STREAM, 'link_delay = ["none", "5 ms"]')
    direct, delayed = summary.treatments
    for treatment in summary.treatments:
        assert treatment.trial_count == 2, treatment.failures
    assert direct.effective["link_impaired_by"] == "none"
    assert delayed.effective["link_impaired_by"] == "delay line"
    assert "delay_line_cpus" in delayed.effective


def test_a_path_that_goes_round_the_link_is_refused(bridged: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    prove = bridged.prove_paths

    def as_if_it_were_short(mtu: int, ip_version: str = "4", delay_s: float = 0.0) -> dict[str, Any]:
        return {**prove(mtu, ip_version, delay_s), "path_rtt_us": [100.0]}

    monkeypatch.setattr(bridged, "prove", as_if_it_were_short)
    with pytest.raises(TreatmentRefused, match=r"takes 0[.]1 ms, and should take 4 ms") as refused:
        bridged.apply(complete_levels({"link_delay": 0.002}), ASKED)
    assert refused.value.where == "uplink of vSwitch sw0 > uplink of vSwitch sw1"


def test_what_does_not_fit_the_queue_is_lost_and_counted() -> None:
    """The line alone: its far end leads nowhere."""
    line = {"delay_us": 200_000}
    bed = create_testbed("t-line-full", NetnsShape(), "a test")
    try:
        agent = bed.agents["a1"]
        name = agent.call("line.start", ports=["l0", "l1"], forward=line, queue_bytes=20_000)["line"]
        netlink.run_in_namespace(bed.topology.endpoints[0].namespace, partial(_send, "l0", 50))
        counts = agent.call("line.read", line=name)["forward"]["counts"]
        while counts["segments"] < 50:
            counts = agent.call("line.read", line=name)["forward"]["counts"]
        # Each has 1000 bytes and the note of 10.
        assert counts["overflowed"] == 50 - 19
        assert counts["overflowed_bytes"] == 31 * 1000
        assert counts["most_waiting_bytes"] == 19 * 1010
        agent.call("line.stop", line=name)
        with netlink.open_in_namespace(bed.topology.endpoints[0].namespace) as ipr:
            assert not ipr.link_lookup(ifname="l0")
        with pytest.raises(AgentError, match="there is no line"):
            agent.call("line.read", line=name)
    finally:
        bed.close()


def test_a_line_whose_port_vanishes_ends_and_does_not_spin() -> None:
    bed = create_testbed("t-line-gone", NetnsShape(), "a test")
    try:
        agent = bed.agents["a1"]
        name = agent.call("line.start", ports=["l0", "l1"])["line"]
        with netlink.open_in_namespace(bed.topology.endpoints[0].namespace) as ipr:
            ipr.link("del", index=netlink.interface_index(ipr, "l0"))
        with pytest.raises(AgentError, match=f"line {name} from l0 to l1: port l0 is gone .*line[.]stop"):
            while True:
                agent.call("line.read", line=name)
    finally:
        bed.close()


def _send(interface: str, frames: int) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        for _ in range(frames):
            sender.send(b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5".ljust(1000, b"\0"))


def test_a_killed_line_fails_the_trial_and_leaves_nothing() -> None:
    bed = create_testbed("t-line-killed", NetnsShape(line=True), "a test")
    try:
        levels = complete_levels({"link_delay": 0.001})
        bed.apply(levels, ASKED)
        (read,) = bed.read_delay_lines()
        os.kill(int(read["forward"]["tid"]), signal.SIGKILL)
        with pytest.raises((AgentError, TreatmentRefused, TrialFailed)):
            bed.apply(levels, ASKED)
        with netlink.open_in_namespace(bed.topology.switch_namespace) as ipr:
            assert not ipr.link_lookup(ifname="up0")
    finally:
        bed.close()
    assert not [name for name in netlink.list_namespaces() if "t-line-killed" in name]
