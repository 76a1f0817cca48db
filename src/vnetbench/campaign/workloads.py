"""What each workload asks of the agents for a treatment's levels, in the parameters of trial.prepare."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

from vnetbench.study.model import Level, Timing
from vnetbench.study.workloads import DATAGRAMS, MIXED, STREAM

REQUESTS_FOR_P99 = 1000
"""Ten of them are beyond the 99th percentile."""
SHORTEST_IDLE_S, LONGEST_IDLE_S = 0.5, 5.0


def stream_roles(workload: str, factors: Mapping[str, Level]) -> list[dict[str, object]]:
    """The streams of one pair and their roles on side a; with direction both, as many each way.

    A stream of requests has a source that asks and a sink that answers. Of `mixed` side a asks, and the
    direction is that of the transfers.
    """
    if workload == MIXED:
        asking = [("requests", "source")] * int(factors["connections"])
        moving = [("transfers", role) for role in _roles(factors, int(factors["streams"]))]
        return [{"id": i, "role": role, "part": part} for i, (part, role) in enumerate([*asking, *moving])]
    count = int(factors.get("streams", factors.get("connections", 1)))
    return [{"id": i, "role": role} for i, role in enumerate(_roles(factors, count))]


def side_role(streams: Sequence[Mapping[str, object]]) -> str:
    """What a side with these streams is: `source`, `sink` or `both`; of `mixed` by its transfers."""
    roles = {str(stream["role"]) for stream in streams if stream.get("part") != "requests"}
    return "both" if len(roles) == 2 else roles.pop()


def parameters(workload: str, factors: Mapping[str, Level]) -> dict[str, object]:
    """What of trial.prepare is the workload's, the same for both sides."""
    buffer = factors.get("socket_buffer", "auto")
    asked: dict[str, object] = {
        "workload": workload,
        "threads": 0,
        "socket_buffer_bytes": None if buffer == "auto" else int(buffer),
        "congestion_control": factors.get("congestion_control"),
    }
    if workload in (STREAM, MIXED):
        asked |= {"receive": "discard", "message_bytes": int(factors.get("message_size", 1 << 20))}
    if workload == DATAGRAMS:
        asked |= _of_datagrams(factors)
    elif workload != STREAM:
        asked |= _of_requests(factors)
    return asked


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


def _roles(factors: Mapping[str, Level], count: int) -> list[str]:
    direction = str(factors.get("direction", "forward"))
    roles = {"forward": ["source"], "reverse": ["sink"], "both": ["source", "sink"]}[direction]
    return [role for role in roles for _ in range(count)]


def _of_requests(factors: Mapping[str, Level]) -> dict[str, object]:
    asked: dict[str, object] = {
        "request_bytes": int(factors["request_size"]),
        "response_bytes": int(factors["response_size"]),
    }
    if "waiting" in factors:
        asked["waiting"] = factors["waiting"]
    if "rate" in factors:
        asked["rate_per_s"] = None if factors["rate"] == "none" else float(factors["rate"])
    if factors.get("waiting") == "spin":
        asked["threads"] = _spinning_threads(int(factors["pairs"]))
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


def _spinning_threads(pairs: int) -> int:
    """So many of each VM that each has a CPU: one that spins without takes another's for whole slices."""
    return max(1, len(os.sched_getaffinity(0)) // (2 * pairs))
