"""Parameters of the agents' trial.prepare for a workload and a treatment's levels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from vnetbench.lab.cpus import assign_thread_cpus, parse_cpu_set
from vnetbench.lab.endpoint import Endpoint, PairSideOrEmpty
from vnetbench.lab.testbed import Testbed
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.frame_factors import (
    FRAME_LOAD,
    FRAME_SIZE,
    GENERATORS_PER_DIRECTION,
    UNPACED_LOAD,
    VLAN_TAGS,
)
from vnetbench.study.factors.frame_sizes import parse_frame_mix, parse_throughput_share
from vnetbench.study.factors.load_factors import (
    BIT_RATE,
    CONNECTIONS,
    DATAGRAM_SIZE,
    REQUEST_OR_DATAGRAM_RATE,
    THREAD_CPUS,
    TRANSPORT,
    VSOCK,
)
from vnetbench.study.factors.registry import FACTORS
from vnetbench.study.factors.stream_counts import count_streams_per_direction
from vnetbench.study.model import Level, Study, Timing
from vnetbench.study.workloads import WORKLOADS

MIN_REQUESTS_FOR_P99 = 1000
"""Requests needed for a 99th percentile: ten of them are above it."""
VLAN_IDS = (100, 200)
"""VLAN IDs of tagged frames, outermost first."""
MIN_IDLE_S, MAX_IDLE_S = 0.5, 5.0


def list_streams(
    workload: str, factors: Mapping[str, Level], side: PairSideOrEmpty = "a"
) -> list[dict[str, object]]:
    """Return the streams of one pair with their roles at one of its endpoints (`side`: a or b).

    In a stream of requests, the source sends requests and the sink responds. In `mixed`, endpoint a sends
    the requests, and the factor `direction` applies to the transfers.
    """
    forward, reverse = count_streams_per_direction(factors)
    roles = ["source"] * forward + ["sink"] * reverse
    parts = [""] * len(roles)
    if WORKLOADS[workload].has_requests_and_transfers:
        connections = int(factors[CONNECTIONS.name])
        roles = ["source"] * connections + roles
        parts = ["requests"] * connections + ["transfers"] * len(parts)
    if side == "b":
        roles = [{"source": "sink", "sink": "source"}[role] for role in roles]
    return [
        {"id": i, "role": role, **({"part": part} if part else {})}
        for i, (role, part) in enumerate(zip(roles, parts, strict=True))
    ]


def find_endpoint_role(streams: Sequence[Mapping[str, object]]) -> str:
    """Return an endpoint's role: `source`, `sink` or `both`. In `mixed`, its transfers decide."""
    roles = {str(stream["role"]) for stream in streams if stream.get("part") != "requests"}
    return "both" if len(roles) == 2 else roles.pop()


def common_prepare_parameters(workload: str, factors: Mapping[str, Level]) -> dict[str, object]:
    """Return the parameters of trial.prepare that are the same for both endpoints."""
    if WORKLOADS[workload].carries_frames:
        return _prepare_frame_parameters(workload, factors)
    parameters: dict[str, object] = {
        "workload": WORKLOADS[workload].agent_workload,
        "threads": None,
        "socket_buffer_bytes": None,
        "congestion_control": None,
        **WORKLOADS[workload].agent_defaults,
        **_collect_factor_parameters(workload, factors),
    }
    parameters["threads"] = parameters["threads"] or 0
    if TRANSPORT.is_at(factors, VSOCK):
        del parameters["transport"]
        del parameters["source_ports"]
        parameters["congestion_control"] = None
        if "receive" in parameters:
            parameters["receive"] = "copy"
    if BIT_RATE.read_level(factors) != "none":
        parameters["rate_per_s"] = float(factors[BIT_RATE.name]) / (8 * int(factors[DATAGRAM_SIZE.name]))
    return parameters


def _collect_factor_parameters(workload: str, factors: Mapping[str, Level]) -> dict[str, object]:
    """Return the levels that one parameter of trial.prepare carries alone (`Factor.agent_parameter`)."""
    known = ((FACTORS[name], level) for name, level in factors.items() if name in FACTORS)
    return {
        factor.agent_parameter: factor.to_agent_value(level)
        for factor, level in known
        if factor.agent_parameter and factor.has_workload(workload)
    }


def needs_throughput_search(study: Study, factors: Mapping[str, Level]) -> bool:
    """Return whether a trial of these levels searches its load. With a load in frames/s it does not."""
    if study.search is None:
        return False
    can_hold_share = WORKLOADS[study.workload].can_hold_throughput_share
    return not can_hold_share or parse_throughput_share(factors[FRAME_LOAD.name]) is not None


def compute_idle_duration_s(workload: str, factors: Mapping[str, Level], timing: Timing) -> float:
    """Return how long `mixed` sends only requests before its load, in whole intervals; else 0."""
    if not WORKLOADS[workload].has_idle_phase:
        return 0.0
    wanted_s = timing.idle_phase_s
    if wanted_s is None:
        per_s = (
            0.0
            if factors[REQUEST_OR_DATAGRAM_RATE.name] == "none"
            else float(factors[REQUEST_OR_DATAGRAM_RATE.name]) * int(factors[CONNECTIONS.name])
        )
        wanted_s = MIN_REQUESTS_FOR_P99 / per_s if per_s else MIN_IDLE_S
        # The first and the last interval are not evaluated.
        wanted_s = min(MAX_IDLE_S, max(MIN_IDLE_S, wanted_s)) + 2 * timing.interval_s
    return math.ceil(wanted_s / timing.interval_s - 1e-9) * timing.interval_s


def _prepare_frame_parameters(workload: str, factors: Mapping[str, Level]) -> dict[str, object]:
    load, generators = FRAME_LOAD.read_level(factors), int(factors[GENERATORS_PER_DIRECTION.name])
    return {
        "workload": WORKLOADS[workload].agent_workload,
        "threads": 0,
        "frame_bytes": [
            {"bytes": size, "weight": weight} for size, weight in parse_frame_mix(factors[FRAME_SIZE.name])
        ],
        "frames_per_s": None if load == UNPACED_LOAD else float(load) / generators,
        "vlan_tags": list(VLAN_IDS[: int(factors[VLAN_TAGS.name])]),
        "generator": "auto",
        "pacing": "auto",
        **_collect_factor_parameters(workload, factors),
    }


def choose_thread_cpus(
    workload: str, factors: Mapping[str, Level], testbed: Testbed, parameters: Mapping[str, object]
) -> dict[str, list[str]]:
    """Return the CPU list of each thread, by endpoint.

    Args:
        workload: The workload.
        factors: The treatment's levels.
        testbed: The testbed.
        parameters: The result of `common_prepare_parameters`.

    Raises:
        BenchError: The factor `thread_cpus` names CPUs that the endpoint does not have.
    """
    if WORKLOADS[workload].carries_frames:
        return _choose_frame_thread_cpus(workload, factors, testbed)
    streams = len(list_streams(workload, factors))
    # In `mixed`, `threads` applies to requests. Each transfer has its own thread.
    transfers = (
        streams - int(factors[CONNECTIONS.name]) if WORKLOADS[workload].has_requests_and_transfers else 0
    )
    shared = streams - transfers
    count = min(int(str(parameters["threads"])) or shared, shared) + transfers
    vms = testbed.load_cpus_in_endpoint_numbering(factors)
    counts = dict.fromkeys(vms, count)
    return assign_thread_cpus(str(THREAD_CPUS.read_level(factors)), counts, testbed.endpoints, vms)


def _choose_frame_thread_cpus(
    workload: str, factors: Mapping[str, Level], testbed: Testbed
) -> dict[str, list[str]]:
    """Return the CPU lists for workloads of frames. Only sources have CPUs of their own."""
    vms, level = testbed.load_cpus_in_endpoint_numbering(factors), str(THREAD_CPUS.read_level(factors))
    roles = {end.name: _list_endpoint_roles(end, workload, factors) for end in testbed.endpoints}
    counts = {name: own.count("source") for name, own in roles.items()}
    sources = {
        name: iter(cpus) for name, cpus in assign_thread_cpus(level, counts, testbed.endpoints, vms).items()
    }
    return {
        name: [next(sources[name]) if role == "source" else format_cpu_list(vms[name]) for role in own]
        for name, own in roles.items()
    }


def frame_sources_share_cpu(
    workload: str,
    factors: Mapping[str, Level],
    testbed: Testbed,
    thread_cpus_by_endpoint: Mapping[str, list[str]],
) -> bool:
    """Return whether two sources of frames share a CPU in this result of `choose_thread_cpus`."""
    sources = Counter(
        cpus
        for end in testbed.endpoints
        for role, cpus in zip(
            _list_endpoint_roles(end, workload, factors), thread_cpus_by_endpoint[end.name], strict=True
        )
        if role == "source"
    )
    return any(count > len(parse_cpu_set(cpus)) for cpus, count in sources.items())


def _list_endpoint_roles(endpoint: Endpoint, workload: str, factors: Mapping[str, Level]) -> list[str]:
    return [str(stream["role"]) for stream in list_streams(workload, factors, endpoint.side)]


def max_threads_per_endpoint_with_own_cpus(factors: Mapping[str, Level], testbed: Testbed) -> int:
    """Return the number of threads per endpoint such that each has a CPU.

    A spinning thread without its own CPU would take the time slices of another.
    """
    if any(endpoint.has_own_kernel for endpoint in testbed.endpoints):
        return min(len(own) for own in testbed.load_cpus_in_endpoint_numbering(factors).values())
    return max(1, len(testbed.online_cpus) // len(testbed.endpoints))
