"""The event of a trial: begins and ends at planned times, on the clock of the agents.

The bench and the agents of the lab `netns` run on one kernel. So a time of CLOCK_MONOTONIC means the same in
both: the times of an event need no alignment with those of the arrivals. The kernel stamps arrivals with
CLOCK_REALTIME; the agent converts them and reports the error (docs/protocol.md, `arrivals`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vnetbench.campaign.load_checks import stream_totals
from vnetbench.campaign.trial_failure import TrialFailedUnderLoad
from vnetbench.errors import BenchError
from vnetbench.estimate.disruption import (
    ArrivalRate,
    EventWindow,
    Outage,
    find_outages,
    highest_rate_share,
    read_rates,
)
from vnetbench.lab.disruption.event import NOTE, DisruptableTestbed, NetworkEvent
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.testbed import Testbed
from vnetbench.quantity import format_value
from vnetbench.results.records import HOST, EndpointRecord
from vnetbench.study.factors.disruption_factors import (
    EVENT,
    EVENT_DURATION,
    EVENTS_THAT_CUT_PATH,
    event_begin_s,
)
from vnetbench.study.factors.load_factors import REQUEST_OR_DATAGRAM_RATE
from vnetbench.study.workloads import WORKLOADS

if TYPE_CHECKING:
    from vnetbench.campaign.trial import TrialLoad, TrialMeasurement

OnStart = Callable[[int], None]
"""Takes the time at which the load started, CLOCK_MONOTONIC in nanoseconds."""
RESOLUTION_S = 200e-6
"""Resolution of the length of a gap that docs/protocol.md states, at 10,000 datagrams a second."""
MAX_CLOCK_ERROR_NS = 100_000
"""Accepted error of the times of arrivals: half of the resolution that docs/protocol.md states."""

TIME_BEFORE_EVENT_NS = 300_000_000
"""How long before an event the state is read, so that the reading does not delay it."""
MIN_OBSERVATION_TIME_NS, MAX_OBSERVATION_TIME_NS = 10_000_000, 100_000_000
"""How long before the end of an event its state is read back. The shortest event lasts twice as long, so a
reading prolongs an event only if it takes longer than this; `event_length_notes` then shows it."""
OBSERVATION_SHARE = 0.1
"""The same as a share of the event."""
NOTED_EXCESS_S, NOTED_EXCESS_SHARE = 0.001, 0.02
"""An event that lasts longer than its level by more than the larger of both is noted."""
MAX_EXCESS_SHARE = 1.0
"""An event that lasts longer than its level by more than this share is another one, and fails its trial.

Any other length counts as it was measured (`event_s`)."""
MIN_CUT_SHARE = 0.8
"""An outage that is shorter than this share of an event that cuts the only path contradicts the event."""


def ignore_start(started_monotonic_ns: int) -> None:
    """Do nothing at the start of a load without an event."""


def run_with_network_event(
    testbed: Testbed, load: TrialLoad, run: Callable[[OnStart], TrialMeasurement]
) -> TrialMeasurement:
    """Run a trial, and make its event if its workload has one; undo the event in any case.

    Args:
        testbed: The testbed.
        load: The load.
        run: Runs the trial, and calls its argument when the load has started.

    Returns:
        The measurement. The totals of the host have `network_event` (docs/results-file.md).

    Raises:
        TreatmentRefused: The testbed cannot make the event.
        TrialFailedUnderLoad: The event did not happen, or its outage cannot be measured. The records have
            what is known about the event.
    """
    if not WORKLOADS[load.workload].has_network_event:
        return run(ignore_start)
    if not isinstance(testbed, DisruptableTestbed):
        raise TreatmentRefused(
            f"{EVENT.format_as_assignment(load.factors[EVENT.name])} is not possible in this lab",
            fix='write lab = "netns" under [testbed]',
        )
    event = testbed.make_network_event(load.factors)
    duration_s = float(EVENT_DURATION.read_level(load.factors))
    with ScheduledEvent(event, event_begin_s(load.duration_s), duration_s) as scheduled:
        measurement = run(scheduled.start)
        record: dict[str, Any] = {
            "event": str(EVENT.read_level(load.factors)),
            "target": event.target,
            "datagrams_per_s": float(REQUEST_OR_DATAGRAM_RATE.read_level(load.factors)),
        }
        try:
            notes = _complete_record_and_check(record, scheduled, measurement.endpoints, load)
        except TrialFailed as error:
            endpoints = _add_host_totals(measurement.endpoints, record)
            raise TrialFailedUnderLoad(str(error), endpoints, error.kind) from error
    return replace(
        measurement,
        endpoints=_add_host_totals(measurement.endpoints, record),
        notes=(*notes, *measurement.notes),
    )


def _complete_record_and_check(
    record: dict[str, Any],
    scheduled: ScheduledEvent,
    endpoints: Sequence[EndpointRecord],
    load: TrialLoad,
) -> tuple[str, ...]:
    """Add the times and the proof of the event to its record; return notes.

    Raises:
        TrialFailed: The event did not happen, or its outage cannot be measured. The record has what is known.
    """
    times = scheduled.wait_until_ended()
    record |= times.to_json()
    proof = scheduled.prove()
    event_notes = (str(proof.pop(NOTE)),) if NOTE in proof else ()
    record["proof"] = proof
    length_notes = event_length_notes(times, float(EVENT_DURATION.read_level(load.factors)))
    check_arrivals(endpoints, times, load.duration_s)
    check_cut(record["event"], endpoints, times)
    disagreement_notes = measure_disagreement_notes(endpoints, times, record["datagrams_per_s"])
    return (*event_notes, *length_notes, *disagreement_notes)


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


class ScheduledEvent:
    """An event that begins and ends at planned times after the start of the load. Leaving it undoes it.

    One thread makes every call of the event, because the event's netlink sockets belong to that thread.
    """

    def __init__(self, event: NetworkEvent, begin_s: float, duration_s: float) -> None:
        self._event = event
        self._begin_s, self._duration_s = begin_s, duration_s
        self._is_cancelled = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="network-event")
        self._times: Future[EventTimes | None] | None = None

    def __enter__(self) -> ScheduledEvent:
        try:
            self._thread.submit(self._event.prepare).result()
        except BaseException:
            self._cancel_and_restore()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._cancel_and_restore()

    def start(self, started_monotonic_ns: int) -> None:
        """Begin and end the event later, in its thread."""
        self._times = self._thread.submit(self._run, started_monotonic_ns)

    def wait_until_ended(self) -> EventTimes:
        """Return when the event began and ended; raises TrialFailed if it did not."""
        try:
            times = self._times.result() if self._times else None
        except (BenchError, OSError) as error:
            raise TrialFailed(f"the event on {self._event.target} failed: {error}") from error
        if times is None:
            raise TrialFailed("the trial ended before its event did")
        return times

    def prove(self) -> dict[str, object]:
        """Return the proof of the event; raises TrialFailed if it did not happen."""
        return dict(self._thread.submit(self._event.prove).result())

    def _cancel_and_restore(self) -> None:
        """End the thread early. The event may then have begun and not ended."""
        self._is_cancelled.set()
        try:
            self._thread.submit(self._event.restore).result()
        finally:
            self._thread.shutdown()

    def _run(self, started_ns: int) -> EventTimes | None:
        """Make the event; return None if it was cancelled."""
        begin_due_ns = started_ns + round(1e9 * self._begin_s)
        if not self._wait_until(begin_due_ns - TIME_BEFORE_EVENT_NS):
            return None
        self._event.observe_before()
        if not self._wait_until(begin_due_ns):
            return None
        begin_ns = _time_call(self._event.begin)
        end_due_ns = begin_ns[1] + round(1e9 * self._duration_s)
        observation_time_ns = max(MIN_OBSERVATION_TIME_NS, round(1e9 * OBSERVATION_SHARE * self._duration_s))
        if not self._wait_until(end_due_ns - min(MAX_OBSERVATION_TIME_NS, observation_time_ns)):
            return None
        self._event.observe_during()
        if not self._wait_until(end_due_ns):
            return None
        end_ns = _time_call(self._event.end)
        self._event.observe_after()
        return EventTimes(started_ns, begin_ns, end_ns)

    def _wait_until(self, due_ns: int) -> bool:
        """Wait until a time of CLOCK_MONOTONIC; return False if the event was cancelled first."""
        while (remaining_ns := due_ns - time.monotonic_ns()) > 0:
            if self._is_cancelled.wait(remaining_ns / 1e9):
                return False
        return not self._is_cancelled.is_set()


def _time_call(call: Callable[[], None]) -> tuple[int, int]:
    """Return the times before and after a call, CLOCK_MONOTONIC in nanoseconds."""
    before_ns = time.monotonic_ns()
    call()
    return before_ns, time.monotonic_ns()


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

    If the source pauses at the end of an outage, the gap is too long, and the numbers are right.
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
            notes.append(
                f"the outage is {format_value(abs(difference_s), 's')} "
                f"{'longer' if difference_s > 0 else 'shorter'} by the clock than by the numbers of its "
                "datagrams: the source was late"
            )
    return tuple(notes)


def _add_host_totals(
    endpoints: Sequence[EndpointRecord], record: Mapping[str, object]
) -> tuple[EndpointRecord, ...]:
    return tuple(
        replace(each, totals={**each.totals, "network_event": dict(record)}) if each.name == HOST else each
        for each in endpoints
    )
