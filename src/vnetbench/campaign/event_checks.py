"""The times of a trial's event, and whether its arrivals can show the outage: failures and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.campaign.load_checks import stream_totals
from vnetbench.estimate.disruption import (
    ArrivalRate,
    EventWindow,
    Outage,
    find_outages,
    highest_rate_share,
    read_rates,
)
from vnetbench.lab.errors import TrialFailed
from vnetbench.quantity import format_value
from vnetbench.results.records import EndpointRecord
from vnetbench.study.factors.disruption_factors import EVENT_DURATION, EVENTS_THAT_CUT_PATH

RESOLUTION_S = 200e-6
"""Resolution of the length of a gap that docs/protocol.md states, at 10,000 datagrams a second."""
MAX_CLOCK_ERROR_NS = 100_000
"""Accepted error of the times of arrivals: half of the resolution that docs/protocol.md states."""
NOTED_EXCESS_S, NOTED_EXCESS_SHARE = 0.001, 0.02
"""An event that lasts longer than its level by more than the larger of both is noted."""
MAX_EXCESS_SHARE = 1.0
"""An event that lasts longer than its level by more than this share is another one, and fails its trial.

Any other length counts as it was measured (`event_s`)."""
MIN_CUT_SHARE = 0.8
"""An outage that is shorter than this share of an event that cuts the only path contradicts the event."""


@dataclass(frozen=True)
class EventTimes:
    """When an event began and ended: before and after the system calls, CLOCK_MONOTONIC in nanoseconds."""

    load_started_ns: int
    begin_ns: tuple[int, int]
    end_ns: tuple[int, int]

    @property
    def length_s(self) -> float:
        """How long the event was in force for certain: from the end of its begin to the begin of its end."""
        return (self.end_ns[0] - self.begin_ns[1]) / 1e9

    def to_json(self) -> dict[str, Any]:
        """Return the times for the results file."""
        return {
            "load_started_monotonic_ns": self.load_started_ns,
            "begin_monotonic_ns": list(self.begin_ns),
            "end_monotonic_ns": list(self.end_ns),
        }


def event_length_notes(times: EventTimes, requested_s: float) -> tuple[str, ...]:
    """Return a note if an event lasted longer than requested; raises TrialFailed if by too much."""
    excess_s = times.length_s - requested_s
    level = EVENT_DURATION.format_as_assignment(requested_s)
    text = f"the event lasted {format_value(excess_s, 's')} longer than {level}"
    if excess_s > MAX_EXCESS_SHARE * requested_s:
        raise TrialFailed(
            f"{level} did not take effect: {text}, because this machine was too busy to end it in time. "
            "Leave a CPU free for the bench, or choose a longer event_duration"
        )
    if excess_s > max(NOTED_EXCESS_S, NOTED_EXCESS_SHARE * requested_s):
        return (f"{text}, because this machine was busy: event_s has its measured length",)
    return ()


def check_arrivals(endpoints: Sequence[EndpointRecord], times: EventTimes, duration_s: float) -> None:
    """Raise TrialFailed if the arrivals cannot show how long an outage was, or the old rate is not back."""
    for endpoint in endpoints:
        for stream in stream_totals(endpoint.totals):
            if stream.get("role") == "sink":
                _check_arrivals_of_stream(
                    f"{endpoint.name}, stream {stream['id']}", stream, times, duration_s
                )

    window = EventWindow(times.begin_ns[0], times.end_ns[1])
    pairs = zip(find_outages(endpoints, window), read_rates(endpoints), strict=True)
    shares = [_highest_share(outage, rate, window) for outage, rate in pairs if outage.recovered_ns is None]
    if shares:
        raise TrialFailed(
            f"the old rate was not back before the end of the trial ({duration_s:g} s): after the outage, at "
            f"most {min(shares):.0%} of it arrived. The network did not recover, or needs longer: choose a "
            "longer duration to see which"
        )


def check_cut(event: str, endpoints: Sequence[EndpointRecord], times: EventTimes) -> None:
    """Raise TrialFailed if data arrived while an event cut the only path of its stream."""
    if event not in EVENTS_THAT_CUT_PATH:
        return
    shortest_ns = min(
        each.longest_ns for each in find_outages(endpoints, EventWindow(times.begin_ns[0], times.end_ns[1]))
    )
    if shortest_ns < 1e9 * MIN_CUT_SHARE * times.length_s:
        raise TrialFailed(
            f"data arrived while event {event} cut the path: the longest gap of a stream was "
            f"{format_value(shortest_ns / 1e9, 's')}, and the event lasted "
            f"{format_value(times.length_s, 's')}. Another path carries the stream"
        )


def _highest_share(outage: Outage, rate: ArrivalRate, event: EventWindow) -> float:
    outage_end_ns = outage.longest.end_ns if outage.longest else event.begin_ns
    return highest_rate_share(rate, event.begin_ns, outage_end_ns)


def _check_arrivals_of_stream(
    name: str, stream: Mapping[str, Any], times: EventTimes, duration_s: float
) -> None:
    arrivals = stream.get("arrivals")
    if not arrivals:
        raise TrialFailed(f"{name}: no data arrived")
    if dropped := int(stream.get("socket_drops", 0)):
        raise TrialFailed(
            f"{name}: its socket dropped {dropped} datagrams, because this machine is too busy to read them. "
            "They would count as an outage. Lower the rate"
        )
    if (error_ns := arrivals["clock_step_ns"] + arrivals["clock_error_ns"]) > MAX_CLOCK_ERROR_NS:
        raise TrialFailed(
            f"{name}: the clock was set by {error_ns / 1e3:.0f} µs during the trial, so gaps are not exact"
        )
    if arrivals["counts"]["started_monotonic_ns"] >= times.begin_ns[0]:
        raise TrialFailed(f"{name}: no data arrived before the event began")
    last_s = (arrivals["last_monotonic_ns"] - times.load_started_ns) / 1e9
    if arrivals["last_monotonic_ns"] <= times.end_ns[1]:
        raise TrialFailed(
            f"{name}: no data arrived after {last_s:.2f} s, so the flow did not come back before the end "
            f"of the trial ({duration_s:g} s). The network did not recover, or needs longer: choose a longer "
            "duration to see which"
        )


def measure_disagreement_notes(
    endpoints: Sequence[EndpointRecord], times: EventTimes, datagrams_per_s: float
) -> tuple[str, ...]:
    """Return a note for each outage whose length by the clock differs from that by the lost numbers.

    If the source pauses at the end of an outage, the gap is too long, and the numbers are right. If the
    source was on time, something held the datagrams after the lost ones back.
    """
    notes = []
    for outage in find_outages(endpoints, EventWindow(times.begin_ns[0], times.end_ns[1])):
        if outage.longest is None or not outage.longest.missing:
            continue
        by_clock_s = outage.longest_ns / 1e9
        by_numbers_ns = outage.longest.length_by_numbers_ns(1e9 / datagrams_per_s)
        if by_numbers_ns is None:
            notes.append(
                "the source stopped during the outage, for example to resolve its neighbour's address, so "
                "only the clock measures the outage"
            )
            continue
        difference_s = by_clock_s - by_numbers_ns / 1e9
        if abs(difference_s) > max(RESOLUTION_S, 2 / datagrams_per_s):
            lateness_s = (outage.longest.sent_apart_ns - by_numbers_ns) / 1e9
            is_source_late = abs(lateness_s) >= abs(difference_s) / 2
            reason = "the source was late" if is_source_late else "the datagrams after it were held back"
            notes.append(
                f"the outage is {format_value(abs(difference_s), 's')} "
                f"{'longer' if difference_s > 0 else 'shorter'} by the clock than by the numbers of its "
                f"datagrams: {reason}"
            )
    return tuple(notes)
