"""The factor `source_ports` in real trials: every level takes effect, and a port in use is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest

from vnetbench.agents.client import AgentClient
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.testbed import Testbed
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import MIXED, TCP_RR, TCP_STREAM, UDP_STREAM

pytestmark = pytest.mark.lab

LISTENING_PORT = "5300-5300"
"""The only port of all listeners, so that the connections of two trials differ in nothing but their time."""


@contextmanager
def listen_on_one_port(testbed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
    if load.workload != UDP_STREAM:
        testbed.agents["b1"].call("knob.set", interface=None, knob="ports", value=LISTENING_PORT)
    yield testbed
    testbed.agents["b1"].call("knob.set", interface=None, knob="ports", value="")


@pytest.fixture(scope="module")
def instrument() -> Iterator[LabInstrument]:
    lab = NetnsLab(TestbedSpec(), "a test")
    with closing(LabInstrument(lab, TestbedSpec(), listen_on_one_port)) as lab_instrument:
        yield lab_instrument


def measure_ports(instrument: LabInstrument, workload: str, **levels: Level) -> Mapping[str, list[int]]:
    """Run a trial and return its source ports by endpoint; it fails if the testbed was replaced."""
    idle_s = 0.1 if workload == MIXED else 0.0
    load = TrialLoad(complete_levels(levels, workload), 0.1, 0.05, workload, idle_s)
    effective = instrument.measure(load, lambda: False).measurement.effective
    assert "replaced_testbed" not in effective
    ports = effective["source_ports"]
    destinations = effective["destination_ports"]
    assert isinstance(ports, dict) and isinstance(destinations, dict)
    assert {name: len(each) for name, each in destinations.items()} == {
        name: len(each) for name, each in ports.items()
    }
    assert all(port > 0 for each in destinations.values() for port in each)
    return ports


def test_every_level_takes_effect_and_named_ports_serve_one_trial_after_another(
    instrument: LabInstrument,
) -> None:
    ports = [
        measure_ports(instrument, TCP_STREAM, streams=2, direction="both", source_ports=level)["a1"]
        for level in ("any", "consecutive", "spread", "20000-20003", "20000-20015")
    ]
    any_ports, consecutive, spread, *named = ports
    assert len(set(any_ports)) == 4
    assert consecutive == [consecutive[0] + i for i in range(4)]
    assert spread == sorted(spread)
    assert [port % 2 for port in spread] == [0, 1, 0, 1]
    assert named == [[20000, 20001, 20002, 20003]] * 2


def test_datagrams_leave_these_ports_at_both_endpoints(instrument: LabInstrument) -> None:
    levels: dict[str, Level] = {"streams": 2, "direction": "both", "rate": 1000.0}
    named = measure_ports(instrument, UDP_STREAM, source_ports="20000-20001", **levels)
    assert named == {"a1": [20000, 20001], "b1": [20000, 20001]}
    spread = measure_ports(instrument, UDP_STREAM, source_ports="spread", ip_version="6", **levels)
    assert [[port % 2 for port in spread[name]] for name in ("a1", "b1")] == [[0, 1]] * 2


@pytest.mark.parametrize(("workload", "count"), [(TCP_RR, 2), (MIXED, 3)])
def test_requests_have_source_ports_too(instrument: LabInstrument, workload: str, count: int) -> None:
    ports = measure_ports(instrument, workload, connections=2, source_ports="20100-20102")
    assert ports == {"a1": [20100, 20101, 20102][:count]}


def test_a_port_in_use_is_named_with_a_fix() -> None:
    @contextmanager
    def use_port(testbed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        # Another trial of the same agent listens on the second port.
        agent: AgentClient = testbed.agents["a1"]
        address = testbed.endpoints[0].address_for("4")
        agent.call(
            "trial.prepare", trial="other", workload=TCP_STREAM, secret="0" * 32,
            streams=[{"id": 0, "role": "sink"}], listen={"address": address, "port": 20201},
        )  # fmt: skip
        try:
            yield testbed
        finally:
            agent.call("trial.stop", trial="other")

    load = TrialLoad(complete_levels({"streams": 3, "source_ports": "20200-20203"}), 0.1, 0.05)
    with (
        closing(LabInstrument(NetnsLab(TestbedSpec(), "a test"), TestbedSpec(), use_port)) as instrument,
        pytest.raises(TreatmentRefused, match="cannot use the source port 20201: another socket") as refused,
    ):
        instrument.measure(load, lambda: False)
    assert refused.value.where == "a1"
    assert "ss -tuanp shows it" in str(refused.value.fix)
