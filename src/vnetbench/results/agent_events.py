"""What the agent's events say of a sample (docs/protocol.md), as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.results.records import Histogram, StreamSample, Watched

_COLUMNS = ("rtt_us", "cwnd", "retransmits", "id", "role", "part", "bytes")
"""Of a stream's sample: what the results file has a column for."""


def histogram_of(raw: list[list[int]]) -> Histogram:
    """The buckets of a distribution of the agent's events."""
    return tuple((int(value_ns), int(count)) for value_ns, count in raw)


def watched_of(raw: Mapping[str, Any]) -> Watched | None:
    """What an observer that was told to watch has in its trial.sample event; None of any other."""
    if "threads" not in raw:
        return None
    threads = {thread["name"]: float(thread["cpu_s"]) for thread in raw["threads"]}
    waited = {each["name"]: float(each["waited_s"]) for each in raw["threads"] if "waited_s" in each}
    interfaces = {
        each["name"]: {kind: count for kind, count in each.items() if kind not in ("name", "gone")}
        for each in raw["interfaces"]
    }
    return Watched(threads, interfaces, raw["kvm_exits"], waited)


def stream_sample(raw: Mapping[str, object]) -> StreamSample:
    """One element of `streams` of the agent's trial.sample event."""
    rest = {key: value for key, value in raw.items() if key not in _COLUMNS}
    rtt, cwnd, retransmits = (raw.get(key) for key in ("rtt_us", "cwnd", "retransmits"))
    return StreamSample(
        stream=int(str(raw["id"])),
        role=str(raw["role"]),
        bytes=int(str(raw["bytes"])),
        rtt_us=None if rtt is None else float(str(rtt)),
        cwnd=None if cwnd is None else int(str(cwnd)),
        retransmits=None if retransmits is None else int(str(retransmits)),
        info=rest,
        part=str(raw.get("part", "")),
    )
