"""Parameters of the agents from a treatment's levels: roles of streams, threads and the idle phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from vnetbench.campaign.agent_parameters import (
    choose_thread_cpus,
    common_prepare_parameters,
    compute_idle_duration_s,
    find_endpoint_role,
    frame_sources_share_cpu,
    list_streams,
)
from vnetbench.lab.cpus import parse_cpu_set
from vnetbench.lab.endpoint import SIDES, Endpoint
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, Timing


def mixed_levels(**levels: Level) -> dict[str, Level]:
    return complete_levels(levels, "mixed")


@pytest.mark.parametrize(
    ("direction", "role", "transfers"),
    [("forward", "source", ["source"] * 2), ("reverse", "sink", ["sink"] * 2),
     ("both", "both", ["source", "source", "sink", "sink"])],
)  # fmt: skip
def test_the_first_vm_sends_the_requests_for_every_direction_of_transfers(
    direction: str, role: str, transfers: list[str]
) -> None:
    streams = list_streams("mixed", mixed_levels(direction=direction, streams=2, connections=3))
    parts = {
        part: [stream["role"] for stream in streams if stream["part"] == part]
        for part in ("requests", "transfers")
    }
    assert parts == {"requests": ["source"] * 3, "transfers": transfers}
    assert [stream["id"] for stream in streams] == list(range(3 + len(transfers)))
    assert find_endpoint_role(streams) == role


class CpuTestbed:
    """A testbed that only has endpoints and their CPUs."""

    def __init__(self, cpus: str) -> None:
        self.endpoints = [Endpoint(f"{side}1", side, 1, "eth0", "", "") for side in SIDES]
        self._cpus = parse_cpu_set(cpus)

    def load_cpus_in_endpoint_numbering(self, _factors: Mapping[str, Level]) -> dict[str, frozenset[int]]:
        return {endpoint.name: self._cpus for endpoint in self.endpoints}


@pytest.mark.parametrize(
    ("cpus", "generators", "sources", "shared"),
    [("1-3", 1, ["1", "2"], False), ("0-1", 1, ["0", "1"], False), ("0-3", 2, ["0", "1", "2", "3"], False),
     ("2", 1, ["2", "2"], True), ("0-2", 2, ["0", "1", "2", "0"], True)],
)  # fmt: skip
def test_generators_of_both_directions_share_cpus_only_if_there_are_too_few(
    cpus: str, generators: int, sources: list[str], shared: bool
) -> None:
    testbed: Any = CpuTestbed(cpus)
    levels = complete_levels({"direction": "both", "generators": generators}, "frames")
    placement = choose_thread_cpus("frames", levels, testbed, {})
    assert [*placement["a1"][:generators], *placement["b1"][generators:]] == sources
    assert {*placement["a1"][generators:], *placement["b1"][:generators]} == {cpus}
    assert frame_sources_share_cpu("frames", levels, testbed, placement) == shared


def test_vsock_parameters_contain_no_tcp_options() -> None:
    levels = complete_levels({"transport": "vsock", "role": "guest-to-host"}, "tcp_stream", QEMU)
    parameters = common_prepare_parameters("tcp_stream", levels)
    assert (parameters["receive"], parameters["congestion_control"], parameters["pacing_rate_bps"]) == (
        "copy",
        None,
        None,
    )
    assert "transport" not in parameters


def test_the_role_of_an_endpoint_follows_from_its_streams() -> None:
    assert (
        find_endpoint_role(list_streams("tcp_rr", complete_levels({"direction": "reverse"}, "tcp_rr")))
        == "sink"
    )
    assert (
        find_endpoint_role(list_streams("tcp_stream", complete_levels({"direction": "both"}, "tcp_stream")))
        == "both"
    )


def test_the_parameters_of_mixed_contain_those_of_both_parts() -> None:
    parameters = common_prepare_parameters("mixed", mixed_levels(request_size=100, message_size=4096))
    assert (parameters["request_bytes"], parameters["message_bytes"], parameters["rate_per_s"]) == (
        100,
        4096,
        1000.0,
    )
    assert "request_bytes" not in common_prepare_parameters("tcp_stream", complete_levels({}, "tcp_stream"))
    assert "message_bytes" not in common_prepare_parameters("tcp_crr", complete_levels({}, "tcp_crr"))


@pytest.mark.parametrize(
    ("levels", "timing", "expected"),
    [
        ({}, Timing(), 1.1),
        ({"connections": 10}, Timing(), 0.6),
        ({"rate": "none"}, Timing(), 0.6),
        ({"rate": 10.0}, Timing(), 5.1),
        ({"rate": 10.0}, Timing(idle_phase_s=2.0), 2.0),
        ({}, Timing(idle_phase_s=0.33, interval_s=0.1), 0.4),
        ({}, Timing(interval_s=0.4), 2.0),
    ],
)
def test_the_idle_phase_has_whole_intervals_and_enough_requests_for_the_99th_percentile(
    levels: dict[str, Level], timing: Timing, expected: float
) -> None:
    assert compute_idle_duration_s("mixed", mixed_levels(**levels), timing) == pytest.approx(expected)


def test_other_workloads_have_no_idle_phase() -> None:
    assert compute_idle_duration_s("tcp_rr", complete_levels({}, "tcp_rr"), Timing()) == 0
