"""Tests with two interfaces of one host as the tester's ports and a device between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import HostNetwork
from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import ExistingEndpointSpec, Level, TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "private_ssh_client")]


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    with ssh_hosts.create_hosts("web-01") as created:
        yield created


def open_testbed(spec: TestbedSpec) -> Any:
    return closing(HostsLab(spec, "a test").create_testbed("t-ports", "ports"))


def make_spec(name: str, **second: Any) -> TestbedSpec:
    """Return a testbed section with two interfaces of one host."""
    p0, p1 = (
        ExistingEndpointSpec(port, ssh_destination=f"root@{name}", interface=port) for port in ssh_hosts.PORTS
    )
    return TestbedSpec(lab=HOSTS, existing_endpoints=(p0, replace(p1, **second)))


def frame_levels(**levels: Level) -> dict[str, Level]:
    return complete_levels(levels, "frames", HOSTS)


def test_two_ports_of_one_host_have_an_agent_and_a_journal_each(network: HostNetwork) -> None:
    spec = make_spec("web-01")
    with network.bridge_ports(network.hosts["web-01"]) as ports:
        with open_testbed(spec) as testbed:
            assert len(ssh_hosts.agents()) == len(ssh_hosts.folders()) == 2
            a, b = testbed.endpoints
            assert [e.address for e in testbed.endpoints] == ["198.18.0.1", "198.19.0.1"]
            assert (testbed.next_hop_mac(a, "4"), testbed.next_hop_mac(b, "4")) == (
                netlink.interface_mac(*ports[1].location), netlink.interface_mac(*ports[0].location),
            )  # fmt: skip
            assert [e.has_own_kernel for e in testbed.endpoints] == [True, False]
            assert (
                testbed.set_knobs_and_prove_paths(frame_levels(mtu=9000, frame_size=9018), spec)["mtu"]
                == 9000
            )
            assert [netlink.interface_mtu(*port.location) for port in ports] == [9000, 9000]
        assert [netlink.interface_mtu(*port.location) for port in ports] == [1500, 1500]


def test_frames_larger_than_the_mtu_of_a_port_are_refused_with_the_port(network: HostNetwork) -> None:
    spec = make_spec("web-01")
    with (
        network.bridge_ports(network.hosts["web-01"]),
        closing(HostsLab(spec, "a test").create_testbed("t-ports", "")) as testbed,
    ):
        with pytest.raises(TreatmentRefused, match="8000 bytes does not fit an MTU of 1500") as refused:
            testbed.set_knobs_and_prove_paths(frame_levels(frame_size=8018), spec)
        assert "p0 p0" in str(refused.value)


def test_frames_go_to_the_next_hop_of_the_study(network: HostNetwork) -> None:
    spec = make_spec("web-01", next_hop_mac="52:54:00:12:34:56")
    with (
        network.bridge_ports(network.hosts["web-01"]),
        closing(HostsLab(spec, "a test").create_testbed("t-ports", "")) as testbed,
    ):
        assert testbed.next_hop_mac(testbed.endpoints[1], "4") == "52:54:00:12:34:56"


def test_frames_pass_from_one_port_of_a_host_to_the_other(network: HostNetwork) -> None:
    spec, factors = make_spec("web-01"), frame_levels(frame_load=500.0, direction="both")
    with (
        network.bridge_ports(network.hosts["web-01"]),
        closing(LabInstrument(HostsLab(spec, "a test"), spec)) as instrument,
    ):
        endpoints = instrument.measure(
            TrialLoad(factors, 0.3, 0.05, "frames"), lambda: False
        ).measurement.endpoints
    counts = sum_endpoint_counts(endpoints, factors)
    assert all(
        counts.sent_by_direction[direction] >= counts.received_by_direction[direction] > 0
        for direction in ("forward", "reverse")
    )
