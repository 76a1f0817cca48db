"""What each workload asks of the agents for a treatment's levels, in the parameters of trial.prepare."""

from __future__ import annotations

import os
from collections.abc import Mapping

from vnetbench.lab.cpus import thread_cpus, vm_cpus
from vnetbench.lab.description import Testbed
from vnetbench.study.direction import streams_each_way
from vnetbench.study.model import Level
from vnetbench.study.workloads import STREAM


def stream_roles(factors: Mapping[str, Level]) -> list[dict[str, object]]:
    """The streams of one pair and their roles on side a.

    A stream of requests has a source that asks and a sink that answers.
    """
    forward, reverse = streams_each_way(factors)
    return [{"id": i, "role": role} for i, role in enumerate(["source"] * forward + ["sink"] * reverse)]


def parameters(workload: str, factors: Mapping[str, Level]) -> dict[str, object]:
    """What of trial.prepare is the workload's, the same for both sides."""
    buffer, threads = factors.get("socket_buffer", "auto"), factors.get("threads", "auto")
    asked: dict[str, object] = {
        "workload": workload,
        "threads": 0 if threads == "auto" else int(threads),
        "socket_buffer_bytes": None if buffer == "auto" else int(buffer),
        "congestion_control": factors.get("congestion_control"),
    }
    if "transport" in factors:
        asked["transport"] = factors["transport"]
    if workload == STREAM:
        pacing = factors.get("pacing_rate", "none")
        asked["pacing_rate_bps"] = None if pacing == "none" else int(pacing)
        return {**asked, "receive": "discard", "message_bytes": int(factors.get("message_size", 1 << 20))}
    asked["request_bytes"] = int(factors["request_size"])
    asked["response_bytes"] = int(factors["response_size"])
    if "waiting" in factors:
        asked["waiting"] = factors["waiting"]
    if "rate" in factors:
        asked["rate_per_s"] = None if factors["rate"] == "none" else float(factors["rate"])
    if factors.get("waiting") == "spin" and threads == "auto":
        asked["threads"] = _spinning_threads(int(factors["pairs"]))
    return asked


def thread_placement(
    factors: Mapping[str, Level], testbed: Testbed, asked: Mapping[str, object]
) -> dict[str, list[str]]:
    """The CPU list of each endpoint's every thread; `asked` are its `parameters`. Raises BenchError."""
    streams = len(stream_roles(factors))
    count = min(int(str(asked["threads"])) or streams, streams)
    vms = vm_cpus(str(factors.get("cpus", "any")), testbed, frozenset(os.sched_getaffinity(0)))
    counts = dict.fromkeys(vms, count)
    return thread_cpus(str(factors.get("thread_cpus", "any")), counts, testbed, vms)


def _spinning_threads(pairs: int) -> int:
    """So many of each VM that each has a CPU: one that spins without takes another's for whole slices."""
    return max(1, len(os.sched_getaffinity(0)) // (2 * pairs))
