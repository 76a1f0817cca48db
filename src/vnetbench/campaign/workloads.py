"""What each workload asks of the agents for a treatment's levels, in the parameters of trial.prepare."""

from __future__ import annotations

import os
from collections.abc import Mapping

from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, STREAM


def stream_roles(factors: Mapping[str, Level]) -> list[dict[str, object]]:
    """The streams of one pair and their roles on side a; with direction both, as many each way.

    A stream of requests has a source that asks and a sink that answers.
    """
    count = int(factors.get("streams", factors.get("connections", 1)))
    direction = factors.get("direction", "forward")
    roles = {"forward": ["source"], "reverse": ["sink"], "both": ["source", "sink"]}[str(direction)]
    return [{"id": i, "role": role} for i, role in enumerate(r for r in roles for _ in range(count))]


def parameters(workload: str, factors: Mapping[str, Level]) -> dict[str, object]:
    """What of trial.prepare is the workload's, the same for both sides."""
    buffer = factors.get("socket_buffer", "auto")
    asked: dict[str, object] = {
        "workload": workload,
        "threads": 0,
        "socket_buffer_bytes": None if buffer == "auto" else int(buffer),
        "congestion_control": factors.get("congestion_control"),
    }
    if workload == STREAM:
        return {**asked, "receive": "discard", "message_bytes": int(factors.get("message_size", 1 << 20))}
    if workload == DATAGRAMS:
        return {**asked, **_of_datagrams(factors)}
    asked["request_bytes"] = int(factors["request_size"])
    asked["response_bytes"] = int(factors["response_size"])
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
