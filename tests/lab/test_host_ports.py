"""Two interfaces of one host as the ports of a tester, with a device between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import Ground
from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.hosts.testbed import HostsLab
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import HostSpec, Level, TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("real_root", "reached")]


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with ssh_hosts.raised("web-01") as raised:
        yield raised


def raised(of: TestbedSpec) -> Any:
    return closing(HostsLab(of, "a test").create_testbed("t-ports", "ports"))


def ports_of(name: str, **second: Any) -> TestbedSpec:
    """Two interfaces of one host as a study names them."""
    p0, p1 = (HostSpec(port, ssh=f"root@{name}", interface=port) for port in ssh_hosts.PORTS)
    return TestbedSpec(lab=HOSTS, hosts=(p0, replace(p1, **second)))


def of_frames(**levels: Level) -> dict[str, Level]:
    return complete_levels(levels, "frames", HOSTS)


def test_two_ports_of_one_host_have_an_agent_and_a_journal_each(ground: Ground) -> None:
    of = ports_of("web-01")
    with ground.device(ground.hosts["web-01"]) as ports:
        with raised(of) as bed:
            assert len(ssh_hosts.agents()) == len(ssh_hosts.folders()) == 2
            a, b = bed.endpoints
            assert [e.address for e in bed.endpoints] == ["198.18.0.1", "198.19.0.1"]
            assert (bed.next_hop(a, "4"), bed.next_hop(b, "4")) == (
                netlink.interface_mac(*ports[1].location), netlink.interface_mac(*ports[0].location),
            )  # fmt: skip
            assert [e.has_own_kernel for e in bed.endpoints] == [True, False]
            assert bed.apply(of_frames(mtu=9000, frame_size=9018), of)["mtu"] == 9000
            assert [netlink.interface_mtu(*port.location) for port in ports] == [9000, 9000]
        assert [netlink.interface_mtu(*port.location) for port in ports] == [1500, 1500]


def test_frames_larger_than_a_port_of_a_host_takes_are_refused_with_the_port(ground: Ground) -> None:
    of = ports_of("web-01")
    with (
        ground.device(ground.hosts["web-01"]),
        closing(HostsLab(of, "a test").create_testbed("t-ports", "")) as bed,
    ):
        with pytest.raises(TreatmentRefused, match="8000 bytes does not fit an MTU of 1500") as refused:
            bed.apply(of_frames(frame_size=8018), of)
        assert "p0 p0" in str(refused.value)


def test_frames_go_to_the_router_that_the_study_names(ground: Ground) -> None:
    of = ports_of("web-01", next_hop="52:54:00:12:34:56")
    with (
        ground.device(ground.hosts["web-01"]),
        closing(HostsLab(of, "a test").create_testbed("t-ports", "")) as bed,
    ):
        assert bed.next_hop_mac(bed.endpoints[1], "4") == "52:54:00:12:34:56"


def test_frames_pass_from_one_port_of_a_host_to_the_other(ground: Ground) -> None:
    of, factors = ports_of("web-01"), of_frames(frame_load=500.0, direction="both")
    with ground.device(ground.hosts["web-01"]), closing(LabInstrument(HostsLab(of, "a test"), of)) as made:
        sides = made.measure(TrialLoad(factors, 0.3, 0.05, "frames"), lambda: False).measurement.endpoints
    counts = sum_endpoint_counts(sides, factors)
    assert all(counts.sent[way] >= counts.received[way] > 0 for way in ("forward", "reverse"))
