"""What each workload asks of the agents for a treatment's levels, in the parameters of trial.prepare."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from vnetbench.lab.testbed import Bed
from vnetbench.lab.cpus import cpus_in, thread_cpus
from vnetbench.lab.endpoint import Endpoint
from vnetbench.study.factors.cpu_lists import spell_cpu_list
from vnetbench.study.factors.directions import streams_each_way
from vnetbench.study.factors.frame_factors import AS_FAST_AS_IT_GOES
from vnetbench.study.factors.frame_sizes import mix_of, share_of_throughput
from vnetbench.study.factors.load_factors import VSOCK
from vnetbench.study.model import Level, Study, Timing
from vnetbench.study.workloads import (
    DATAGRAMS,
    FRAME_LATENCY,
    FRAMES,
    MIXED,
    OF_FRAMES,
    SOAK,
    STREAM,
)

REQUESTS_FOR_P99 = 1000
"""Ten of them are beyond the 99th percentile."""
VLAN_IDS = (100, 200)
"""Of tagged frames, outermost first."""
SHORTEST_IDLE_S, LONGEST_IDLE_S = 0.5, 5.0


def stream_roles(workload: str, factors: Mapping[str, Level], side: str = "a") -> list[dict[str, object]]:
    """The streams of one pair and their roles on one side of it.

    A stream of requests has a source that asks and a sink that answers. Of `mixed` side a asks, and the
    direction is that of the transfers.
    """
    forward, reverse = streams_each_way(factors)
    roles = ["source"] * forward + ["sink"] * reverse
    parts = [""] * len(roles)
    if workload == MIXED:
        connections = int(factors["connections"])
        roles = ["source"] * connections + roles
        parts = ["requests"] * connections + ["transfers"] * len(parts)
    if side == "b":
        roles = [{"source": "sink", "sink": "source"}[role] for role in roles]
    return [
        {"id": i, "role": role, **({"part": part} if part else {})}
        for i, (role, part) in enumerate(zip(roles, parts, strict=True))
    ]


def side_role(streams: Sequence[Mapping[str, object]]) -> str:
    """What a side with these streams is: `source`, `sink` or `both`; of `mixed` by its transfers."""
    roles = {str(stream["role"]) for stream in streams if stream.get("part") != "requests"}
    return "both" if len(roles) == 2 else roles.pop()


def parameters(workload: str, factors: Mapping[str, Level]) -> dict[str, object]:
    """What of trial.prepare is the workload's, the same for both sides."""
    if workload in OF_FRAMES:
        return _of_frames(factors)
    buffer, threads = factors.get("socket_buffer", "auto"), factors.get("threads", "auto")
    asked: dict[str, object] = {
        "workload": workload,
        "threads": 0 if threads == "auto" else int(threads),
        "socket_buffer_bytes": None if buffer == "auto" else int(buffer),
        "congestion_control": factors.get("congestion_control"),
    }
    is_vsock = factors.get("transport") == VSOCK
    if is_vsock:
        asked["congestion_control"] = None
    elif "transport" in factors:
        asked["transport"] = factors["transport"]
    if workload in (STREAM, MIXED):
        pacing = factors.get("pacing_rate", "none")
        asked["pacing_rate_bps"] = None if pacing == "none" else int(pacing)
        asked |= {
            "message_bytes": int(factors["message_size"]),
            "send": factors.get("send_mode", "copy"),
            "send_batch": int(factors.get("send_batch", 1)),
            "receive": "copy" if is_vsock else factors.get("receive_mode", "discard"),
        }
    if workload == DATAGRAMS:
        asked |= _of_datagrams(factors)
    elif workload != STREAM:
        asked |= _of_requests(factors)
    return asked


def is_series(study: Study, factors: Mapping[str, Level]) -> bool:
    """Whether a trial of these levels finds its load by steps; one of a load that is a rate need not."""
    if study.search is None:
        return False
    of_load = study.workload in (FRAME_LATENCY, SOAK)
    return not of_load or share_of_throughput(factors["frame_load"]) is not None


def idle_s(workload: str, factors: Mapping[str, Level], timing: Timing) -> float:
    """How long `mixed` has only requests before its load: whole intervals. 0 for other workloads."""
    if workload != MIXED:
        return 0.0
    wanted_s = timing.idle_s
    if wanted_s is None:
        per_s = 0.0 if factors["rate"] == "none" else float(factors["rate"]) * int(factors["connections"])
        wanted_s = REQUESTS_FOR_P99 / per_s if per_s else SHORTEST_IDLE_S
        # Its first and its last interval are not counted.
        wanted_s = min(LONGEST_IDLE_S, max(SHORTEST_IDLE_S, wanted_s)) + 2 * timing.interval_s
    return math.ceil(wanted_s / timing.interval_s - 1e-9) * timing.interval_s


def _of_requests(factors: Mapping[str, Level]) -> dict[str, object]:
    asked: dict[str, object] = {
        "request_bytes": int(factors["request_size"]),
        "response_bytes": int(factors["response_size"]),
    }
    if "waiting" in factors:
        asked["waiting"] = factors["waiting"]
    if "rate" in factors:
        asked["rate_per_s"] = None if factors["rate"] == "none" else float(factors["rate"])
    return asked


def _of_datagrams(factors: Mapping[str, Level]) -> dict[str, object]:
    size, rate, bit_rate = int(factors["datagram_size"]), factors["rate"], factors["bit_rate"]
    if bit_rate != "none":
        rate = float(bit_rate) / (8 * size)
    return {
        "datagram_bytes": size,
        "rate_per_s": None if rate == "none" else float(rate),
        "pacing": factors["pacing"],
        "gso": factors["udp_gso"] == "on",
        "gro": factors["udp_gro"] == "on",
        "fragments": factors["fragments"] == "on",
    }


def _of_frames(factors: Mapping[str, Level]) -> dict[str, object]:
    load, generators = factors.get("frame_load", AS_FAST_AS_IT_GOES), int(factors["generators"])
    return {
        "workload": FRAMES,
        "threads": 0,
        "frame_bytes": [{"bytes": size, "weight": weight} for size, weight in mix_of(factors["frame_size"])],
        "frames_per_s": None if load == AS_FAST_AS_IT_GOES else float(load) / generators,
        "flows": int(factors["flows"]),
        "vlan_tags": list(VLAN_IDS[: int(factors["vlan_tags"])]),
        "generator": "auto",
        "pacing": "auto",
    }


def thread_placement(
    workload: str, factors: Mapping[str, Level], bed: Bed, asked: Mapping[str, object]
) -> dict[str, list[str]]:
    """The CPU list of each endpoint's every thread; `asked` are its `parameters`. Raises BenchError."""
    if workload in OF_FRAMES:
        return _generators(workload, factors, bed)
    streams = len(stream_roles(workload, factors))
    # The threads of `mixed` are those of its requests; each of its transfers has one of its own.
    transfers = streams - int(factors["connections"]) if workload == MIXED else 0
    shared = streams - transfers
    count = min(int(str(asked["threads"])) or shared, shared) + transfers
    vms = bed.cpus(factors)
    counts = dict.fromkeys(vms, count)
    return thread_cpus(str(factors.get("thread_cpus", "any")), counts, bed.endpoints, vms)


def _generators(workload: str, factors: Mapping[str, Level], bed: Bed) -> dict[str, list[str]]:
    """The same of frames, where only the sources take CPUs in turn: what a sink counts it is told."""
    vms, level = bed.cpus(factors), str(factors.get("thread_cpus", "any"))
    roles = {end.name: _roles_at(end, workload, factors) for end in bed.endpoints}
    counts = {name: own.count("source") for name, own in roles.items()}
    sources = {name: iter(cpus) for name, cpus in thread_cpus(level, counts, bed.endpoints, vms).items()}
    return {
        name: [next(sources[name]) if role == "source" else spell_cpu_list(vms[name]) for role in own]
        for name, own in roles.items()
    }


def share_cpus(
    workload: str, factors: Mapping[str, Level], bed: Bed, placed: Mapping[str, list[str]]
) -> bool:
    """Whether two sources of frames have one CPU, by the `thread_placement`."""
    sources = Counter(
        cpus
        for end in bed.endpoints
        for role, cpus in zip(_roles_at(end, workload, factors), placed[end.name], strict=True)
        if role == "source"
    )
    return any(count > len(cpus_in(cpus)) for cpus, count in sources.items())


def _roles_at(end: Endpoint, workload: str, factors: Mapping[str, Level]) -> list[str]:
    return [str(stream["role"]) for stream in stream_roles(workload, factors, end.side)]


def spinning_threads(factors: Mapping[str, Level], bed: Bed) -> int:
    """So many of each endpoint that each has a CPU: one that spins without takes another's time slices."""
    if any(endpoint.has_own_kernel for endpoint in bed.endpoints):
        return min(len(own) for own in bed.cpus(factors).values())
    return max(1, len(bed.online) // len(bed.endpoints))
