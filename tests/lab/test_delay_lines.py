"""Tests of delay lines on running testbeds: delay, loss, reordering, and cleanup."""

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

from tests.lab.test_requests import run_campaign
from vnetbench.agents.client import AgentError
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement, measure_trial
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.links import netem
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import BRIDGE, DIRECT, MACVLAN, OPEN_VSWITCH, ROUTER, NetnsShape
from vnetbench.results.records import HOST, EndpointRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import TCP_STREAM, UDP_STREAM

pytestmark = pytest.mark.lab

SPEC = TestbedSpec()
MAX_DEVIATIONS = 6.0
"""Allowed standard deviations: one test in 500 million fails by chance."""


@pytest.fixture(autouse=True)
def without_netem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netem, "is_available", lambda: False)


@pytest.fixture(scope="module")
def bridged() -> Iterator[NetnsTestbed]:
    testbed = create_testbed("t-line", NetnsShape(delay_line=True), "a test")
    yield testbed
    testbed.close()


def make_load(workload: str, **levels: Level) -> TrialLoad:
    return TrialLoad(complete_levels(levels, workload), 0.5, 0.1, workload)


def measure(testbed: NetnsTestbed, load: TrialLoad) -> tuple[dict[str, Any], TrialMeasurement]:
    """Apply a treatment and measure one trial of it."""
    effective = testbed.set_knobs_and_prove_paths(load.factors, SPEC)
    observer = start_observer("a test")
    try:
        return effective, measure_trial(testbed, observer, load)
    finally:
        observer.close()


def delay_line_counts(measurement: TrialMeasurement, direction: str = "forward") -> dict[str, Any]:
    (host,) = (each for each in measurement.endpoints if each.name == HOST)
    lines: Any = host.totals["delay_lines"]
    (line,) = lines
    return dict(line[direction]["counts"])


def flow_totals(measurement: TrialMeasurement, endpoint: str) -> dict[str, Any]:
    """Return the totals of an endpoint's only flow."""
    record: EndpointRecord = next(each for each in measurement.endpoints if each.name == endpoint)
    streams: Any = record.totals["streams"]
    (stream,) = streams
    return dict(stream)


@pytest.mark.parametrize("vswitch", [BRIDGE, MACVLAN, ROUTER, DIRECT, OPEN_VSWITCH])
@pytest.mark.parametrize("ip_version", ["4", "6"])
def test_a_round_trip_takes_twice_the_delay(vswitch: str, ip_version: str) -> None:
    if vswitch == OPEN_VSWITCH and not shutil.which("ovs-vswitchd"):
        pytest.skip("Open vSwitch is not installed")
    levels = complete_levels({"vswitch": vswitch, "link_delay": 0.01, "pairs": 2, "ip_version": ip_version})
    shape = NetnsLab(SPEC, "a test").testbed_shape(levels)
    assert shape == NetnsShape(vswitch, 2, delay_line=True)
    testbed = create_testbed(f"t-line-{vswitch}", shape, "a test")
    try:
        for mtu in (9000, 1500):
            found = testbed.set_knobs_and_prove_paths({**levels, "mtu": mtu}, SPEC)
            assert found["link_impairment_backend"] == "delay line"
            assert (found["link_delay"], found["path_mtu_proved"]) == (0.01, mtu)
            assert len(found["path_rtt_us"]) == 2 and min(found["path_rtt_us"]) >= 20_000
    finally:
        testbed.close()


def test_a_treatment_without_impairments_has_no_delay_line() -> None:
    lab = NetnsLab(SPEC, "a test")
    assert not lab.testbed_shape(complete_levels({"link_delay": "none", "link_loss": 0.0})).delay_line
    assert lab.testbed_shape(complete_levels({"link_loss": 0.01})).delay_line


def test_one_testbed_takes_several_delays_with_a_shaped_link(bridged: NetnsTestbed) -> None:
    for delay in (0.02, 0.001, "none"):
        found = bridged.set_knobs_and_prove_paths(
            complete_levels({"link_delay": delay, "link_rate": 10**8}), SPEC
        )
        assert (found["link_delay"], found["link_rate"]) == (delay, 10**8)
        # A busy machine lengthens a round trip, so only the line shows that an earlier delay has ended.
        delay_us = 0.0 if delay == "none" else 1e6 * float(delay)
        assert min(found["path_rtt_us"]) >= 2 * delay_us
        (line,) = bridged.read_delay_line_counters()
        assert [line[way]["requested"]["delay_us"] for way in ("forward", "reverse")] == [delay_us] * 2


def test_the_line_avoids_the_cpus_of_the_load_if_it_can(bridged: NetnsTestbed) -> None:
    shared = bridged.set_knobs_and_prove_paths(complete_levels({"link_delay": 0.001, "cpus": "any"}), SPEC)
    assert shared["delay_line_shares_cpus"]
    online = sorted(os.sched_getaffinity(0))
    apart = bridged.set_knobs_and_prove_paths(
        complete_levels({"link_delay": 0.001, "cpus": str(online[0])}), SPEC
    )
    assert apart["delay_line_shares_cpus"] == (len(online) == 1)
    if len(online) > 1:
        assert str(online[0]) not in str(apart["delay_line_cpus"])


def test_the_share_of_lost_segments_is_the_requested_one(bridged: NetnsTestbed) -> None:
    load = make_load(TCP_STREAM, link_delay=0.001, link_loss=0.01, mtu=1500)
    _, measurement = measure(bridged, load)
    counts = delay_line_counts(measurement)
    segments, lost = counts["segments"], counts["lost"]
    assert segments > counts["frames"] > 0, "the line counts the segments of a super-frame"
    assert abs(lost - 0.01 * segments) < MAX_DEVIATIONS * math.sqrt(0.01 * 0.99 * segments)
    source = next(each for each in measurement.endpoints if each.name == "a1")
    sent_again = sum(stream.retransmits or 0 for sample in source.samples for stream in sample.streams)
    assert sent_again > 0, "TCP has noticed the loss"


def test_missing_datagrams_are_those_that_the_line_dropped(bridged: NetnsTestbed) -> None:
    load = make_load(UDP_STREAM, link_loss=0.1, rate=4000.0, datagram_size=200)
    _, measurement = measure(bridged, load)
    sent, received = flow_totals(measurement, "a1")["datagrams"], flow_totals(measurement, "b1")
    lost = sent - received["datagrams"] - received["socket_drops"]
    assert abs(lost - 0.1 * sent) < MAX_DEVIATIONS * math.sqrt(0.1 * 0.9 * sent)


def test_reordered_packets_arrive_late_and_are_not_lost(bridged: NetnsTestbed) -> None:
    load = make_load(UDP_STREAM, link_delay=0.001, link_reordering=0.05, rate=20_000.0, datagram_size=200)
    _, measurement = measure(bridged, load)
    received = flow_totals(measurement, "b1")
    reordered_by_line = delay_line_counts(measurement)["reordered"]
    assert reordered_by_line > 0
    assert 0 < received["reordered"] <= reordered_by_line
    assert delay_line_counts(measurement)["lost"] == 0


def test_jitter_does_not_reorder_packets(bridged: NetnsTestbed) -> None:
    load = make_load(UDP_STREAM, link_delay=0.002, link_jitter=0.001, rate=20_000.0, datagram_size=200)
    effective, measurement = measure(bridged, load)
    received = flow_totals(measurement, "b1")
    assert (received["reordered"], effective["link_jitter"]) == (0, 0.001)


def test_a_campaign_stores_what_impaired_the_link(tmp_path: Path) -> None:
    summary = run_campaign(tmp_path, TCP_STREAM, 'link_delay = ["none", "5 ms"]')
    direct, delayed = summary.treatments
    for treatment in summary.treatments:
        assert treatment.trial_count == 2, treatment.failures
    assert direct.effective["link_impairment_backend"] == "none"
    assert delayed.effective["link_impairment_backend"] == "delay line"
    assert "delay_line_cpus" in delayed.effective


def test_a_path_that_bypasses_the_link_is_refused(
    bridged: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove = bridged.prove_paths

    def prove_with_short_round_trip(mtu: int, ip_version: str = "4", delay_s: float = 0.0) -> dict[str, Any]:
        return {**prove(mtu, ip_version, delay_s), "path_rtt_us": [100.0]}

    monkeypatch.setattr(bridged, "prove_paths", prove_with_short_round_trip)
    with pytest.raises(TreatmentRefused, match=r"takes 0[.]1 ms, but should take 4 ms") as refused:
        bridged.set_knobs_and_prove_paths(complete_levels({"link_delay": 0.002}), SPEC)
    assert refused.value.where == "uplink of vSwitch sw0 > uplink of vSwitch sw1"


def test_frames_beyond_the_queue_limit_are_dropped_and_counted() -> None:
    """Use a line whose far end leads nowhere. No frame leaves it during the test, also on a busy machine."""
    line = {"delay_us": 60_000_000}
    testbed = create_testbed("t-line-full", NetnsShape(), "a test")
    try:
        agent = testbed.agents["a1"]
        name = agent.call("delay_line.start", ports=["l0", "l1"], forward=line, queue_bytes=20_000)["line"]
        netlink.run_in_namespace(testbed.topology.endpoints[0].namespace, partial(_send, "l0", 50))
        counts = agent.call("delay_line.read", line=name)["forward"]["counts"]
        while counts["segments"] < 50:
            counts = agent.call("delay_line.read", line=name)["forward"]["counts"]
        # Each takes 1000 bytes, and 10 for its entry.
        assert counts["queue_drops"] == 50 - 19
        assert counts["queue_drop_bytes"] == 31 * 1000
        assert counts["max_backlog_bytes"] == 19 * 1010
        agent.call("delay_line.stop", line=name)
        with netlink.open_in_namespace(testbed.topology.endpoints[0].namespace) as ipr:
            assert not ipr.link_lookup(ifname="l0")
        with pytest.raises(AgentError, match="there is no delay line"):
            agent.call("delay_line.read", line=name)
    finally:
        testbed.close()


def test_a_line_whose_port_vanishes_ends_without_spinning() -> None:
    testbed = create_testbed("t-line-gone", NetnsShape(), "a test")
    try:
        agent = testbed.agents["a1"]
        name = agent.call("delay_line.start", ports=["l0", "l1"])["line"]
        with netlink.open_in_namespace(testbed.topology.endpoints[0].namespace) as ipr:
            ipr.link("del", index=netlink.interface_index(ipr, "l0"))
        reason = f"line {name} from l0 to l1: the port l0 is gone .*delay_line[.]stop"
        with pytest.raises(AgentError, match=reason):
            while True:
                agent.call("delay_line.read", line=name)
    finally:
        testbed.close()


def _send(interface: str, frames: int) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        for _ in range(frames):
            sender.send(b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5".ljust(1000, b"\0"))


def test_a_killed_line_fails_the_trial_and_leaves_nothing() -> None:
    testbed = create_testbed("t-line-killed", NetnsShape(delay_line=True), "a test")
    try:
        levels = complete_levels({"link_delay": 0.001})
        testbed.set_knobs_and_prove_paths(levels, SPEC)
        (read,) = testbed.read_delay_line_counters()
        os.kill(int(read["forward"]["tid"]), signal.SIGKILL)
        with pytest.raises((AgentError, TreatmentRefused, TrialFailed)):
            testbed.set_knobs_and_prove_paths(levels, SPEC)
        with netlink.open_in_namespace(testbed.topology.switch_namespace) as ipr:
            assert not ipr.link_lookup(ifname="up0")
    finally:
        testbed.close()
    assert not [name for name in netlink.list_namespaces() if "t-line-killed" in name]
