"""What is watched on the paths of a testbed: the role of each interface, and the queue that fills."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import Load
from vnetbench.lab.guest import topology as guest
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.netns.topology import Shape, describe, watched_facts
from vnetbench.results.records import SideRecord
from vnetbench.study.factors.registry import complete
from vnetbench.study.model import Level, TestbedAsked


def roles(facts: list[dict[str, object]]) -> dict[object, tuple[object, ...]]:
    return {each["name"]: (each["role"], each["leads_to"], each["pairs"]) for each in facts}


@pytest.mark.pure
def test_each_watched_interface_has_a_role_and_leads_somewhere() -> None:
    found = roles(watched_facts(describe("t-roles", Shape("bridge", 2, uplink=True))))
    assert found == {
        "a1": ("port", "a1", [1]),
        "up0": ("uplink", "sw1", [1, 2]),
        "up1": ("uplink", "sw0", [1, 2]),
        "b1": ("port", "b1", [1]),
        "a2": ("port", "a2", [2]),
        "b2": ("port", "b2", [2]),
    }
    assert roles(watched_facts(describe("t-roles", Shape("macvlan")))) == {"low0": ("parent", "", [1])}
    assert roles(watched_facts(describe("t-roles", Shape("router")))) == {
        "a1": ("port", "a1", [1]),
        "b1": ("port", "b1", [1]),
    }
    assert watched_facts(describe("t-roles", Shape("direct"))) == []


@pytest.mark.pure
def test_the_ports_of_guests_lead_to_them() -> None:
    between = guest.describe("t-roles", GuestShape(role="bridge"))
    assert roles(watched_facts(between)) == {
        "a1": ("port", "a1", [1]),
        "g1a": ("port", "g1", [1]),
        "g1b": ("port", "g1", [1]),
        "b1": ("port", "b1", [1]),
    }
    assert between.as_facts()["watched"] == watched_facts(between)
    macvtaps = guest.describe("t-roles", GuestShape(adapter="macvtap"))
    assert roles(watched_facts(macvtaps))["low0"] == ("parent", "", [1])


def measure(asked: TestbedAsked, **levels: Level) -> dict[str, SideRecord]:
    with closing(LabInstrument(NetnsLab(asked, "a test"), asked)) as instrument:
        done = instrument.measure(Load(complete(levels), 0.4, 0.05), lambda: False)
    return {side.endpoint: side for side in done.measured.sides}


def last_seen(host: SideRecord) -> dict[str, Any]:
    assert host.samples[-1].watched
    return dict(host.samples[-1].watched.interfaces)


@pytest.mark.lab
def test_a_full_uplink_shows_its_queue_to_the_observer() -> None:
    sides = measure(TestbedAsked(uplink=True), link_rate=2e8)
    seen = last_seen(sides["host"])
    assert set(seen) == {"a1", "up0", "up1", "b1"}
    queues = [x.watched.interfaces["up0"]["qdisc"] for x in sides["host"].samples if x.watched]
    assert {queue["kind"] for queue in queues} == {"tbf"}
    assert sum(queue["overlimits"] for queue in queues) > 0
    assert max(queue["backlog_bytes"] for queue in queues) > 0
    assert sum(x.watched.interfaces["b1"]["tx_bytes"] for x in sides["host"].samples if x.watched) > 0
    assert "qdisc" not in seen["a1"]
    assert not [name for name in sides["a1"].samples[0].counters if name.startswith("qdisc")]


@pytest.mark.lab
@pytest.mark.parametrize("shaper", ["tbf", "htb"])
def test_a_full_vnic_shows_its_queue_to_its_own_endpoint(shaper: str) -> None:
    sides = measure(TestbedAsked(shaper=shaper), link_rate=2e8)
    samples = sides["a1"].samples
    assert sum(sample.counters["qdisc_overlimits"] for sample in samples) > 0
    assert max(sample.counters["qdisc_backlog_packets"] for sample in samples) > 0
    assert "qdisc" not in last_seen(sides["host"])["a1"]
