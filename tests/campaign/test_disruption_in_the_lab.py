"""Events in the lab `netns`: the outage has the length of the event, and nothing stays changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.campaign.trial_failure import TrialFailedUnderLoad
from vnetbench.estimate.disruption import EventWindow, find_outages
from vnetbench.estimate.outage_metrics import outage_metrics
from vnetbench.lab.disruption import catalog
from vnetbench.lab.disruption.bridge_port_stp import BridgePortStp
from vnetbench.lab.disruption.link_end import LinkEnd, disrupted_link_ends
from vnetbench.lab.disruption.silent_drop import SilentDrop
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.netns.topology import NetnsShape, NetnsTopology, make_topology
from vnetbench.lab.registry import remove_testbed_and_list_remaining_groups
from vnetbench.results.records import HOST, EndpointRecord, TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import DISRUPTION, TCP_DISRUPTION

pytestmark = pytest.mark.lab

EVENT_S, RATE_PER_S = 0.1, 2000


@pytest.mark.parametrize(
    ("event", "uplink"), [("silent-drop", False), ("link-flap", False), ("link-flap", True)]
)
def test_an_outage_is_as_long_as_its_event_by_the_clock_and_by_the_numbers(event: str, uplink: bool) -> None:
    spec = TestbedSpec(uplink=uplink)
    levels: dict[str, Level] = {"event": event, "event_duration": EVENT_S, "rate": RATE_PER_S}
    load = TrialLoad(complete_levels(levels, DISRUPTION), 1.2, 0.1, DISRUPTION)
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec)) as instrument:
        endpoints = measure_even_if_the_event_ends_late(instrument, load)
    record: Any = next(each.totals["network_event"] for each in endpoints if each.name == HOST)
    (begin_before, begin_after), (end_before, end_after) = (
        record["begin_monotonic_ns"],
        record["end_monotonic_ns"],
    )
    assert end_before - begin_after >= EVENT_S * 1e9
    (outage,) = find_outages(endpoints, EventWindow(begin_before, end_after))
    assert outage.longest is not None
    # Whatever delays the bench, nothing passed while the event was in force for certain.
    assert outage.longest_ns >= end_before - begin_after
    assert outage.longest.start_ns <= begin_after and outage.longest.end_ns >= end_before
    # The numbers agree: what is missing was due in the gap. A late source sends some of it after the gap.
    source: Any = next(each.totals for each in endpoints if each.role == "source")
    late_ns = 1e3 * source["instrument"]["pacing"]["lateness_max_us"]
    sink: Any = next(each.totals for each in endpoints if each.role == "sink")
    slow_ns = 1e3 * sink["delay"]["max_us"]
    by_numbers_ns = (outage.longest.missing + 1) * 1e9 / RATE_PER_S
    assert abs(outage.longest_ns - by_numbers_ns) <= late_ns + slow_ns + 1e9 / RATE_PER_S
    assert outage.recovered_ns is not None and outage.recovered_ns >= outage.longest.end_ns
    _check_proof(event, record["proof"], outage.longest.missing)


def test_a_tcp_stream_stalls_at_least_as_long_as_its_event_and_times_out() -> None:
    spec = TestbedSpec()
    levels: dict[str, Level] = {"event": "silent-drop", "event_duration": 0.3, "rate": RATE_PER_S}
    load = TrialLoad(complete_levels(levels, TCP_DISRUPTION), 2.2, 0.1, TCP_DISRUPTION)
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec)) as instrument:
        endpoints = measure_even_if_the_event_ends_late(instrument, load)
    metrics = dict(outage_metrics(TrialRecord(0, 0, None, 0.0, 2.2, 0.0, {}, tuple(endpoints))))
    assert metrics["stall_s"] >= metrics["event_s"] > 0.25
    # TCP repeats at 0.2 s and then at twice the time, so it is late.
    assert metrics["stall_timeouts"] >= 1 and metrics["stall_retransmits"] >= 1
    assert metrics["recovery_s"] >= metrics["event_s"]
    sink: Any = next(each.totals for each in endpoints if each.role == "sink")
    arrivals = sink["streams"][0]["arrivals"]
    assert arrivals["last_number"] + 1 == sum(arrivals["counts"]["datagrams"])


def measure_even_if_the_event_ends_late(
    instrument: LabInstrument, load: TrialLoad
) -> Sequence[EndpointRecord]:
    """Return the records of a trial. On a busy machine its event may last too long, and is measured too."""
    try:
        return instrument.measure(load, lambda: False).measurement.endpoints
    except TrialFailedUnderLoad as error:
        if "did not take effect: the event lasted" not in str(error):
            raise
        return error.endpoints


def _check_proof(event: str, proof: Mapping[str, Any], missing: int) -> None:
    if event == "link-flap":
        assert proof["carrier_changes"] >= 2
    else:
        # The count misses what the kernel drops while it removes the queueing discipline: some ms.
        assert proof["link_was_up"] and proof["dropped_packets"] > 0
        assert missing > 0


@pytest.fixture
def topology() -> Iterator[NetnsTopology]:
    network = make_topology("disrupted", NetnsShape())
    try:
        builder.build_network(network)
        yield network
    finally:
        remove_testbed_and_list_remaining_groups(network.testbed_name)


def open_end(topology: NetnsTopology) -> LinkEnd:
    end = disrupted_link_ends(topology)[0]
    end.open()
    return end


@pytest.mark.parametrize("event_name", ["link-flap", "silent-drop", "bridge-port-stp"])
def test_an_event_that_is_interrupted_is_undone_and_not_proved(
    topology: NetnsTopology, event_name: str
) -> None:
    event = catalog.make_network_event(topology, {"event": event_name})
    end = open_end(topology)
    before = end.read_state()
    event.prepare()
    event.begin()
    with pytest.raises(TrialFailed, match=f"event {event_name}|event link-flap"):
        event.prove()
    event.restore()
    event.restore()
    after = end.read_state()
    assert (after.is_up, after.bridge_port_state) == (before.is_up, before.bridge_port_state) == (True, 3)
    assert end.read_discipline() == "noqueue"
    end.close()


def test_a_port_that_listens_after_a_flap_forwards_again_before_the_next_trial(
    topology: NetnsTopology,
) -> None:
    event = catalog.make_network_event(topology, {"event": "bridge-port-stp"})
    assert isinstance(event, BridgePortStp)
    end = open_end(topology)
    try:
        event.prepare()
        event.begin()
        event.observe_during()
        event.end()
        event.observe_after()
        # It listens and learns for 4 s, so the trial would fail now.
        with pytest.raises(TrialFailed, match="does not forward"):
            event.prove()
    finally:
        event.restore()
    assert end.read_state().bridge_port_state == 3
    end.close()


def test_a_link_that_drops_in_one_direction_only_is_no_silent_drop(topology: NetnsTopology) -> None:
    near, far = disrupted_link_ends(topology)
    event = SilentDrop(near, far)
    try:
        event.prepare()
        event.begin()
        far.stop_dropping()
        event.observe_during()
        far.start_dropping()
        event.end()
        with pytest.raises(TrialFailed, match="did not drop in both directions"):
            event.prove()
    finally:
        event.restore()


def test_a_link_with_a_queueing_discipline_of_its_own_cannot_drop_silently(topology: NetnsTopology) -> None:
    end = open_end(topology)
    end.start_dropping()
    event = catalog.make_network_event(topology, {"event": "silent-drop"})
    with pytest.raises(TreatmentRefused, match="which is blackhole already"):
        event.prepare()
    event.restore()
    assert end.read_discipline() == "blackhole"
    end.close()
