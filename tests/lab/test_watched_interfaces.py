"""Tests of the interfaces that the observer watches: their roles, and the queue that fills."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab.guest import topology as guest_topology
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.netns.topology import NetnsShape, describe_observed_interfaces, make_topology
from vnetbench.results.records import EndpointRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec

EMPTY_QUEUE = {
    "kind": "noqueue",
    "drops": 0,
    "overlimits": 0,
    "requeues": 0,
    "backlog_packets": 0,
    "backlog_bytes": 0,
}
"""An interface without a queue has an empty one at all times."""


def roles(facts: list[dict[str, object]]) -> dict[object, tuple[object, ...]]:
    return {each["name"]: (each["role"], each["leads_to"], each["pairs"]) for each in facts}


@pytest.mark.pure
def test_each_watched_interface_has_a_role_and_a_far_end() -> None:
    found = roles(
        describe_observed_interfaces(make_topology("t-roles", NetnsShape("bridge", 2, uplink=True)))
    )
    assert found == {
        "a1": ("port", "a1", [1]),
        "up0": ("uplink", "sw1", [1, 2]),
        "up1": ("uplink", "sw0", [1, 2]),
        "b1": ("port", "b1", [1]),
        "a2": ("port", "a2", [2]),
        "b2": ("port", "b2", [2]),
    }
    assert roles(describe_observed_interfaces(make_topology("t-roles", NetnsShape("macvlan")))) == {
        "low0": ("parent", "", [1])
    }
    assert roles(describe_observed_interfaces(make_topology("t-roles", NetnsShape("router")))) == {
        "a1": ("port", "a1", [1]),
        "b1": ("port", "b1", [1]),
    }
    assert describe_observed_interfaces(make_topology("t-roles", NetnsShape("direct"))) == []


@pytest.mark.pure
def test_the_ports_of_guests_lead_to_them() -> None:
    between = guest_topology.make_topology("t-roles", GuestShape(role="bridge"))
    assert roles(describe_observed_interfaces(between)) == {
        "a1": ("port", "a1", [1]),
        "g1a": ("port", "g1", [1]),
        "g1b": ("port", "g1", [1]),
        "b1": ("port", "b1", [1]),
    }
    assert between.describe()["observed_interfaces"] == describe_observed_interfaces(between)
    macvtaps = guest_topology.make_topology("t-roles", GuestShape(adapter="macvtap"))
    assert roles(describe_observed_interfaces(macvtaps))["low0"] == ("parent", "", [1])


def measure(spec: TestbedSpec, **levels: Level) -> dict[str, EndpointRecord]:
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec)) as instrument:
        done = instrument.measure(TrialLoad(complete_levels(levels), 0.4, 0.05), lambda: False)
    return {each.name: each for each in done.measurement.endpoints}


def last_observation(host: EndpointRecord) -> dict[str, Any]:
    assert host.samples[-1].observation
    return dict(host.samples[-1].observation.interface_counters)


@pytest.mark.lab
@pytest.mark.alone
def test_the_observer_sees_the_queue_of_a_full_uplink() -> None:
    endpoints = measure(TestbedSpec(uplink=True), link_rate=2e8)
    observed = last_observation(endpoints["host"])
    assert set(observed) == {"a1", "up0", "up1", "b1"}
    queues = [
        x.observation.interface_counters["up0"]["qdisc"] for x in endpoints["host"].samples if x.observation
    ]
    assert {queue["kind"] for queue in queues} == {"tbf"}
    assert sum(queue["overlimits"] for queue in queues) > 0
    assert max(queue["backlog_bytes"] for queue in queues) > 0
    assert (
        sum(
            x.observation.interface_counters["b1"]["tx_bytes"]
            for x in endpoints["host"].samples
            if x.observation
        )
        > 0
    )
    assert observed["a1"]["qdisc"] == EMPTY_QUEUE
    counters = endpoints["a1"].samples[0].counters
    assert not any(value for name, value in counters.items() if name.startswith("qdisc"))


@pytest.mark.lab
@pytest.mark.alone
@pytest.mark.parametrize("shaper", ["tbf", "htb"])
def test_an_endpoint_sees_the_queue_of_its_own_vnic(shaper: str) -> None:
    endpoints = measure(TestbedSpec(shaper=shaper), link_rate=2e8)
    samples = endpoints["a1"].samples
    assert sum(sample.counters["qdisc_overlimits"] for sample in samples) > 0
    assert max(sample.counters["qdisc_backlog_packets"] for sample in samples) > 0
    assert last_observation(endpoints["host"])["a1"]["qdisc"] == EMPTY_QUEUE
