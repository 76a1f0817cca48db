"""The outage that an event made, from the arrivals of a trial of `disruption` or `tcp_disruption`.

A sink reports its longest gaps between two arrivals, and its arrivals in short intervals. The bench reports
when the event began and ended, on the same clock. A gap that overlaps the event, or begins shortly after it,
belongs to the event; all others are background. The longest background gap of any trial is the floor of the
measurement: this machine makes gaps of that length without any event. A gap in which only the source paused
is neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.results.records import HOST, EndpointRecord, TrialRecord, mapping_or_empty
from vnetbench.study.factors.disruption_factors import MIN_DATAGRAMS

ATTRIBUTION_S = 0.1
"""A gap that begins up to this long after the end of the event, or of its outage, belongs to the event."""
RECOVERED_RATE_SHARE = 0.9
"""Share of the old rate at which it counts as back."""
RATE_WINDOW_S = 0.02
"""The rate is back when the arrivals of this time, or of `MIN_DATAGRAMS` spacings if longer, reach it."""

MAX_SOURCE_DELAY_S, MAX_SOURCE_DELAY_SHARE = 0.02, 0.1
"""A source that is later than the larger of both at the end of a gap did not send at its rate in the gap."""


@dataclass(frozen=True)
class Gap:
    """A time between two arrivals in succession; all times in nanoseconds of CLOCK_MONOTONIC."""

    start_ns: int
    length_ns: int
    missing: int
    """Sequence numbers between the two arrivals."""
    sent_apart_ns: int

    @property
    def end_ns(self) -> int:
        """The arrival after the gap."""
        return self.start_ns + self.length_ns

    def length_by_numbers_ns(self, spacing_ns: float) -> float | None:
        """Return the length by the missing datagrams; None if none is missing, or if the source stopped.

        A host that waits for a neighbour's address, for example, stops its source. The source then numbers
        fewer datagrams than the outage should have, and only the clock measures it.
        """
        by_numbers_ns = (self.missing + 1) * spacing_ns
        tolerance_ns = max(1e9 * MAX_SOURCE_DELAY_S, MAX_SOURCE_DELAY_SHARE * by_numbers_ns)
        if not self.missing or self.sent_apart_ns - by_numbers_ns > tolerance_ns:
            return None
        return by_numbers_ns

    @property
    def is_pause_of_source(self) -> bool:
        """Whether the source sent nothing for at least half of the gap: the network is not the reason."""
        return self.missing == 0 and 2 * self.sent_apart_ns >= self.length_ns


@dataclass(frozen=True)
class ArrivalRate:
    """Arrivals in intervals of equal width from `start_ns` on."""

    start_ns: int
    interval_ns: int
    counts: Sequence[int]


@dataclass(frozen=True)
class EventWindow:
    """An event: before its first system call, and after its last."""

    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Outage:
    """The effect of one event on one stream."""

    longest_ns: int
    """Length of the longest gap of the event; without one, of the shortest gap that the sink reported."""
    longest: Gap | None
    """The longest gap of the event; None if it is shorter than every gap that the sink reported."""
    window_end_ns: int
    """Gaps that begin later are background."""
    recovered_ns: int | None
    """When the old rate was back; None if not before the end of the arrivals."""
    background_ns: int
    """Length of the longest gap that is not of the event; without one, of the shortest reported one."""


def find_outage(gaps: Sequence[Gap], rate: ArrivalRate, event: EventWindow) -> Outage:
    """Attribute the gaps of a stream to its event or to the background.

    Args:
        gaps: The longest gaps of the stream.
        rate: Its arrivals.
        event: The event.
    """
    margin_ns = round(1e9 * ATTRIBUTION_S)
    window_end_ns = event.end_ns + margin_ns
    own: list[Gap] = []
    others: list[Gap] = []
    for gap in sorted(gaps, key=lambda each: each.start_ns):
        if gap.is_pause_of_source:
            continue
        if not (gap.end_ns > event.begin_ns and gap.start_ns < window_end_ns):
            others.append(gap)
            continue
        own.append(gap)
        if gap.start_ns <= event.end_ns:
            window_end_ns = max(window_end_ns, gap.end_ns + margin_ns)
    # A gap that was not reported is shorter than each one that was.
    shortest_ns = min((each.length_ns for each in gaps), default=0)
    longest = max(own, key=lambda each: each.length_ns, default=None)
    return Outage(
        longest.length_ns if longest else shortest_ns,
        longest,
        window_end_ns,
        find_recovery(rate, event.begin_ns, longest.end_ns if longest else event.begin_ns),
        max((each.length_ns for each in others), default=shortest_ns),
    )


def find_recovery(rate: ArrivalRate, event_begin_ns: int, outage_end_ns: int) -> int | None:
    """Return when the rate before the event was back, CLOCK_MONOTONIC in nanoseconds; None if never.

    It is the end of the outage if the arrivals right after it reach the old rate, else the begin of the first
    interval from which they do. The old rate is the mean of the intervals before the event.
    """
    for number, (start_ns, share) in enumerate(_rate_shares_after(rate, event_begin_ns, outage_end_ns)):
        if share >= RECOVERED_RATE_SHARE:
            return start_ns if number else outage_end_ns
    return None


def highest_rate_share(rate: ArrivalRate, event_begin_ns: int, outage_end_ns: int) -> float:
    """Return the highest rate after the outage as a share of the old rate; 0 if nothing shows it."""
    return max((share for _, share in _rate_shares_after(rate, event_begin_ns, outage_end_ns)), default=0.0)


def _rate_shares_after(
    rate: ArrivalRate, event_begin_ns: int, outage_end_ns: int
) -> Iterator[tuple[int, float]]:
    """Yield the begin of each window after the outage, and its arrivals as a share of the old rate."""
    before = rate.counts[: max(0, (event_begin_ns - rate.start_ns) // rate.interval_ns)]
    if not sum(before):
        return
    # A median would round the old rate to whole datagrams in an interval.
    old_count = sum(before) / len(before)
    width = max(math.ceil(1e9 * RATE_WINDOW_S / rate.interval_ns), math.ceil(MIN_DATAGRAMS / old_count))
    # The interval in which the outage ends is only partly filled.
    first = max(0, (outage_end_ns - rate.start_ns) // rate.interval_ns + 1)
    for index in range(first, len(rate.counts) - width + 1):
        arrived = sum(rate.counts[index : index + width])
        yield rate.start_ns + index * rate.interval_ns, arrived / (old_count * width)


def find_outages(endpoints: Sequence[EndpointRecord], event: EventWindow) -> list[Outage]:
    """Return the outage of each stream whose sink recorded arrivals."""
    return [
        find_outage(read_gaps(stream), read_rate(stream), event) for stream in _recording_sinks(endpoints)
    ]


def has_tcp_sinks(endpoints: Sequence[EndpointRecord]) -> bool:
    """Return whether the sinks that recorded arrivals are those of TCP streams, and not of datagrams."""
    return not any("datagrams" in stream for stream in _recording_sinks(endpoints))


def read_rates(endpoints: Sequence[EndpointRecord]) -> list[ArrivalRate]:
    """Return the arrivals of each stream whose sink recorded them, in the order of `find_outages`."""
    return [read_rate(stream) for stream in _recording_sinks(endpoints)]


def _recording_sinks(endpoints: Sequence[EndpointRecord]) -> list[Mapping[str, Any]]:
    return [
        stream
        for endpoint in endpoints
        for stream in _list_of_mappings(endpoint.totals.get("streams"))
        if _has_readable_arrivals(stream)
    ]


def _has_readable_arrivals(stream: Mapping[str, Any]) -> bool:
    """Return whether a stream has arrivals in the form of an agent; a file from someone else may not."""
    try:
        read_gaps(stream)
        read_rate(stream)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return True


def read_event_record(trial: TrialRecord) -> Mapping[str, Any]:
    """Return the record of a trial's event (docs/results-file.md, `network_event`); empty without one."""
    host = next((each for each in trial.endpoints if each.name == HOST), None)
    return mapping_or_empty(host.totals.get("network_event")) if host else {}


def read_event_window(record: Mapping[str, Any]) -> EventWindow | None:
    """Return when an event began and ended; None without an event."""
    try:
        if not float(record["datagrams_per_s"]) > 0 or int(record["load_started_monotonic_ns"]) < 0:
            return None
        begin_ns, end_ns = (
            [int(each) for each in record[f"{name}_monotonic_ns"]] for name in ("begin", "end")
        )
        return EventWindow(begin_ns[0], end_ns[1]) if len(begin_ns) == 2 else None
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def read_gaps(stream: Mapping[str, Any]) -> list[Gap]:
    """Return the gaps of a sink's totals."""
    return [
        Gap(
            int(each["started_monotonic_ns"]),
            int(each["length_ns"]),
            max(0, int(each["number_after"]) - int(each["number_before"]) - 1),
            int(each["sent_apart_ns"]),
        )
        for each in stream["arrivals"]["gaps"]
    ]


def read_rate(stream: Mapping[str, Any]) -> ArrivalRate:
    """Return the arrivals over time of a sink's totals."""
    counts = stream["arrivals"]["counts"]
    interval_ns = int(counts["interval_ns"])
    if interval_ns <= 0:
        raise ValueError("interval_ns is not positive")
    return ArrivalRate(
        int(counts["started_monotonic_ns"]), interval_ns, [int(each) for each in counts["datagrams"]]
    )


def _list_of_mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
