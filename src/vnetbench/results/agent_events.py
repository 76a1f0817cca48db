"""Parse samples in the agents' events (docs/protocol.md) into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.results.records import Histogram, Observation, StreamSample

_STREAM_SAMPLE_COLUMN_KEYS = frozenset(("rtt_us", "cwnd", "retransmits", "id", "role", "part", "bytes"))
"""Keys of a stream's sample that have a column of their own in the results file."""


def parse_histogram(raw: list[list[int]]) -> Histogram:
    """Return the histogram from its buckets in an event."""
    return tuple((int(value_ns), int(count)) for value_ns, count in raw)


def parse_observation(raw: Mapping[str, Any]) -> Observation | None:
    """Return an observer's data in a trial.sample event; None if the agent does not observe anything."""
    if "threads" not in raw:
        return None
    threads = {thread["name"]: float(thread["cpu_s"]) for thread in raw["threads"]}
    waited = {each["name"]: float(each["waited_s"]) for each in raw["threads"] if "waited_s" in each}
    interfaces = {
        each["name"]: {kind: count for kind, count in each.items() if kind not in ("name", "is_gone")}
        for each in raw["interfaces"]
    }
    return Observation(threads, interfaces, raw["kvm_exits"], waited)


def parse_stream_sample(raw: Mapping[str, object]) -> StreamSample:
    """Return an element of `streams` in a trial.sample event."""
    details = {key: value for key, value in raw.items() if key not in _STREAM_SAMPLE_COLUMN_KEYS}
    rtt, cwnd, retransmits = raw.get("rtt_us"), raw.get("cwnd"), raw.get("retransmits")
    return StreamSample(
        stream_id=_to_int(raw["id"]),
        role=str(raw["role"]),
        bytes=_to_int(raw["bytes"]),
        rtt_us=None if rtt is None else float(str(rtt)),
        cwnd=None if cwnd is None else _to_int(cwnd),
        retransmits=None if retransmits is None else _to_int(retransmits),
        details=details,
        load_part=str(raw.get("part", "")),
    )


def _to_int(value: object) -> int:
    """Return an integer of an event, also one that is a text."""
    return value if type(value) is int else int(str(value))
