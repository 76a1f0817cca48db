"""Frame counts of a trial or a step, summed over all endpoints by direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vnetbench.campaign.load_checks import stream_totals
from vnetbench.estimate.latency import (
    QUANTILE_BY_PERCENTILE_NAME,
    histogram_quantile_us_if_resolved,
    merge_histograms,
)
from vnetbench.results.records import OBSERVE, EndpointRecord, Histogram, StepRecord
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.factors.stream_counts import count_streams_per_direction
from vnetbench.study.model import Level


@dataclass(frozen=True)
class ForeignFrames:
    """Frames that arrived at an endpoint's port and do not belong to its sinks."""

    from_other_senders: int = 0
    own_returned: int = 0
    """Frames that the endpoint itself sent."""
    from_other_trials: int = 0
    """Frames of vnetbench from another pair or an earlier trial."""
    example: str = ""

    def __add__(self, other: ForeignFrames) -> ForeignFrames:
        return ForeignFrames(
            self.from_other_senders + other.from_other_senders,
            self.own_returned + other.own_returned,
            self.from_other_trials + other.from_other_trials,
            self.example or other.example,
        )

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> ForeignFrames:
        """Return the counts of an agent's totals, or of a step in a results file."""
        return cls(
            int(counts["other_senders"]),
            int(counts["own_returned"]),
            int(counts["other_trial"]),
            counts.get("example") or "",
        )

    def to_json(self) -> dict[str, object]:
        """Return the counts in the form that results files store."""
        return {
            "other_senders": self.from_other_senders,
            "own_returned": self.own_returned,
            "other_trial": self.from_other_trials,
            "example": self.example,
        }


@dataclass(frozen=True)
class FrameTotals:
    """Frame counts over all pairs of endpoints."""

    sent_by_direction: Mapping[str, int]
    """By direction."""
    received_by_direction: Mapping[str, int]
    """Distinct frames by direction. Frames that a sink's full ring dropped count as received."""
    pair_direction_count: int
    """Number of directions of all pairs together. The load is offered in each of them."""
    rejected_by_source_ports: int = 0
    """Frames that the sending ports refused. They do not count as sent."""
    duplicates: int = 0
    out_of_order: int = 0
    foreign_frames_by_endpoint: Mapping[str, ForeignFrames] = field(default_factory=dict)
    """By endpoint."""
    sink_drops_by_endpoint: Mapping[str, int] = field(default_factory=dict)
    """Frames that an endpoint's full receive ring dropped: the instrument lost them, not the device."""
    delay_histogram: Histogram = ()

    @property
    def total_sent(self) -> int:
        """Frames sent in both directions."""
        return sum(self.sent_by_direction.values())

    @property
    def total_received(self) -> int:
        """Frames received in both directions."""
        return sum(self.received_by_direction.values())

    def to_json(self) -> dict[str, object]:
        """Return the counts in the form stored in a step's `details`."""
        delays = {
            name: histogram_quantile_us_if_resolved(self.delay_histogram, share)
            for name, share in QUANTILE_BY_PERCENTILE_NAME.items()
        }
        return {
            "direction_count": self.pair_direction_count,
            "sent": dict(self.sent_by_direction),
            "received": dict(self.received_by_direction),
            "rejected": self.rejected_by_source_ports,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
            "foreign_frames": {
                name: each.to_json()
                for name, each in self.foreign_frames_by_endpoint.items()
                if each != ForeignFrames()
            },
            "sink_dropped": dict(self.sink_drops_by_endpoint),
            "delay_us": {name: value for name, value in delays.items() if value is not None},
        }


def sum_endpoint_counts(endpoints: Sequence[EndpointRecord], factors: Mapping[str, Level]) -> FrameTotals:
    """Return the frame counts of a trial or a step. Forward streams have the lowest numbers."""
    load_endpoints = [endpoint for endpoint in endpoints if endpoint.role != OBSERVE]
    forward, reverse = count_streams_per_direction(factors)
    directions = [name for name, count in ((FORWARD, forward), (REVERSE, reverse)) if count]

    def total(counter: str, direction: str) -> int:
        return sum(
            int(stream.get(counter, 0))
            for endpoint in load_endpoints
            for stream in stream_totals(endpoint.totals)
            if (int(stream["id"]) < forward) == (direction == FORWARD)
        )

    dropped = {endpoint.name: int(str(endpoint.totals.get("sink_dropped", 0))) for endpoint in load_endpoints}

    def sink_drops(direction: str) -> int:
        sinks = {
            endpoint.name
            for endpoint in load_endpoints
            for stream in stream_totals(endpoint.totals)
            if stream["role"] == "sink" and (int(stream["id"]) < forward) == (direction == FORWARD)
        }
        return sum(dropped[name] for name in sinks)

    sent = {direction: total("frames_sent", direction) for direction in directions}
    received = {direction: total("frames_received", direction) for direction in directions}
    # The dropped frames may include foreign frames, so the sum is limited to the frames sent.
    arrived = {
        direction: max(received[direction], min(sent[direction], received[direction] + sink_drops(direction)))
        for direction in directions
    }
    return FrameTotals(
        sent_by_direction=sent,
        received_by_direction=arrived,
        pair_direction_count=len(directions) * len(load_endpoints) // 2,
        rejected_by_source_ports=sum(total("rejected", direction) for direction in directions),
        duplicates=sum(total("duplicates", direction) for direction in directions),
        out_of_order=sum(total("out_of_order", direction) for direction in directions),
        foreign_frames_by_endpoint=dict(_iterate_foreign_frames(load_endpoints)),
        sink_drops_by_endpoint={name: count for name, count in dropped.items() if count},
        delay_histogram=merge_histograms(
            sample.histograms.get("delay", ()) for endpoint in load_endpoints for sample in endpoint.samples
        ),
    )


def sum_step_counts(steps: Sequence[StepRecord]) -> FrameTotals:
    """Return the sum of the counts of these steps, without their delays."""
    sent, received, other_counts = Counter[str](), Counter[str](), Counter[str]()
    foreign: dict[str, ForeignFrames] = {}
    dropped = Counter[str]()
    direction_count = 0
    for step in steps:
        details: Mapping[str, Any] = step.details
        direction_count = details["direction_count"]
        sent.update(details["sent"])
        received.update(details["received"])
        other_counts.update({name: details[name] for name in ("rejected", "duplicates", "out_of_order")})
        for name, counts in details["foreign_frames"].items():
            foreign[name] = foreign.get(name, ForeignFrames()) + ForeignFrames.from_json(counts)
        dropped.update(details["sink_dropped"])
    return FrameTotals(
        sent,
        received,
        direction_count,
        rejected_by_source_ports=other_counts["rejected"],
        duplicates=other_counts["duplicates"],
        out_of_order=other_counts["out_of_order"],
        foreign_frames_by_endpoint=foreign,
        sink_drops_by_endpoint=dropped,
    )


def _iterate_foreign_frames(load_endpoints: Sequence[EndpointRecord]) -> Iterator[tuple[str, ForeignFrames]]:
    for endpoint in load_endpoints:
        counts: Mapping[str, Any] | None = endpoint.totals.get("foreign_frames")  # type: ignore[assignment]
        if counts:
            yield (
                endpoint.name,
                ForeignFrames.from_json(counts),
            )
