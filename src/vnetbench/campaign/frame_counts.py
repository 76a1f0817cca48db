"""What became of a trial's frames, by direction, from what every side counted at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vnetbench.campaign.load_checks import streams_of
from vnetbench.estimate.latency import PERCENTILES, merged, percentile_us
from vnetbench.results.records import OBSERVE, Histogram, SideRecord, StepRecord
from vnetbench.study.factors.directions import streams_each_way
from vnetbench.study.model import Level

FORWARD, REVERSE = "forward", "reverse"


@dataclass(frozen=True)
class Foreign:
    """What came to one endpoint's port and was none of its sinks'."""

    others: int = 0
    own: int = 0
    """Frames that it had sent itself."""
    other_trial: int = 0
    """Of our making, but of another pair or an earlier trial."""
    example: str = ""

    def __add__(self, more: Foreign) -> Foreign:
        return Foreign(
            self.others + more.others,
            self.own + more.own,
            self.other_trial + more.other_trial,
            self.example or more.example,
        )


@dataclass(frozen=True)
class FrameCounts:
    """Counts over all pairs of endpoints."""

    sent: Mapping[str, int]
    """By direction."""
    received: Mapping[str, int]
    """Distinct frames, by direction; with those that a sink's own ring had no room for, which did arrive."""
    ways: int
    """Directions of all pairs together: the load is offered in each of them."""
    refused: int = 0
    """By the ports that they were to leave by; none of those is sent."""
    duplicates: int = 0
    out_of_order: int = 0
    foreign: Mapping[str, Foreign] = field(default_factory=dict)
    """By endpoint."""
    sink_dropped: Mapping[str, int] = field(default_factory=dict)
    """Frames that an endpoint's receive ring had no room for: lost by the instrument, not by the device."""
    delay: Histogram = ()

    @property
    def all_sent(self) -> int:
        """In both directions."""
        return sum(self.sent.values())

    @property
    def all_received(self) -> int:
        """In both directions."""
        return sum(self.received.values())

    def as_json(self) -> dict[str, object]:
        """As the details of a step are kept."""
        delays = {name: percentile_us(self.delay, share) for name, share in PERCENTILES.items()}
        return {
            "ways": self.ways,
            "sent": dict(self.sent),
            "received": dict(self.received),
            "refused": self.refused,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
            "foreign": {name: vars(each) for name, each in self.foreign.items() if each != Foreign()},
            "sink_dropped": dict(self.sink_dropped),
            "delay_us": {name: value for name, value in delays.items() if value is not None},
        }


def counts_of(sides: Sequence[SideRecord], factors: Mapping[str, Level]) -> FrameCounts:
    """The frames of a trial, or of a step of one. Streams that go forward are numbered first."""
    ends = [side for side in sides if side.role != OBSERVE]
    forward, reverse = streams_each_way(factors)
    ways = [name for name, count in ((FORWARD, forward), (REVERSE, reverse)) if count]

    def total(name: str, direction: str) -> int:
        return sum(
            int(stream.get(name, 0))
            for side in ends
            for stream in streams_of(side.totals)
            if (int(stream["id"]) < forward) == (direction == FORWARD)
        )

    dropped = {side.endpoint: int(str(side.totals.get("sink_dropped", 0))) for side in ends}

    def dropped_of(direction: str) -> int:
        sinks = {
            side.endpoint
            for side in ends
            for stream in streams_of(side.totals)
            if stream["role"] == "sink" and (int(stream["id"]) < forward) == (direction == FORWARD)
        }
        return sum(dropped[name] for name in sinks)

    sent = {way: total("frames_sent", way) for way in ways}
    received = {way: total("frames_received", way) for way in ways}
    # Foreign frames may be among those dropped.
    arrived = {way: max(received[way], min(sent[way], received[way] + dropped_of(way))) for way in ways}
    return FrameCounts(
        sent=sent,
        received=arrived,
        ways=len(ways) * len(ends) // 2,
        refused=sum(total("refused", way) for way in ways),
        duplicates=sum(total("duplicates", way) for way in ways),
        out_of_order=sum(total("out_of_order", way) for way in ways),
        foreign=dict(_foreign(ends)),
        sink_dropped={name: count for name, count in dropped.items() if count},
        delay=merged(sample.histograms.get("delay", ()) for side in ends for sample in side.samples),
    )


def total_of(steps: Sequence[StepRecord]) -> FrameCounts:
    """What all these steps counted together, but for their delays."""
    sent, received, beside = Counter[str](), Counter[str](), Counter[str]()
    foreign: dict[str, Foreign] = {}
    dropped = Counter[str]()
    ways = 0
    for step in steps:
        details: Mapping[str, Any] = step.details
        ways = details["ways"]
        sent.update(details["sent"])
        received.update(details["received"])
        beside.update({name: details[name] for name in ("refused", "duplicates", "out_of_order")})
        for name, told in details["foreign"].items():
            foreign[name] = foreign.get(name, Foreign()) + Foreign(**told)
        dropped.update(details["sink_dropped"])
    return FrameCounts(
        sent,
        received,
        ways,
        refused=beside["refused"],
        duplicates=beside["duplicates"],
        out_of_order=beside["out_of_order"],
        foreign=foreign,
        sink_dropped=dropped,
    )


def _foreign(ends: Sequence[SideRecord]) -> Iterator[tuple[str, Foreign]]:
    for side in ends:
        told: Mapping[str, Any] | None = side.totals.get("foreign")  # type: ignore[assignment]
        if told:
            yield (
                side.endpoint,
                Foreign(
                    int(told["others"]), int(told["own"]), int(told["other_trial"]), told.get("example") or ""
                ),
            )
