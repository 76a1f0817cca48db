"""The event of a trial: begins and ends at planned times, on the clock of the agents.

The bench and the sinks run on one kernel: all VMs of the lab `netns`, and the endpoints on the host of the
lab `qemu`. So a time of CLOCK_MONOTONIC means the same in both: the times of an event need no alignment with
those of the arrivals. The kernel stamps arrivals with CLOCK_REALTIME; the agent converts them and reports the
error (docs/protocol.md, `arrivals`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vnetbench.campaign.event_checks import (
    EventTimes,
    check_arrivals,
    check_cut,
    event_length_notes,
    measure_disagreement_notes,
)
from vnetbench.campaign.trial_failure import TrialFailedUnderLoad
from vnetbench.errors import BenchError
from vnetbench.lab.disruption.event import NOTE, DisruptableTestbed, NetworkEvent, SelfEndingEvent
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.testbed import Testbed
from vnetbench.results.records import HOST, EndpointRecord
from vnetbench.study.factors.disruption_factors import (
    EVENT,
    EVENT_DURATION,
    event_begin_s,
)
from vnetbench.study.factors.load_factors import REQUEST_OR_DATAGRAM_RATE
from vnetbench.study.workloads import WORKLOADS

if TYPE_CHECKING:
    from vnetbench.campaign.trial import TrialLoad, TrialMeasurement

OnStart = Callable[[int], None]
"""Takes the time at which the load started, CLOCK_MONOTONIC in nanoseconds."""
TIME_BEFORE_EVENT_NS = 300_000_000
"""How long before an event the state is read, so that the reading does not delay it."""
MIN_OBSERVATION_TIME_NS, MAX_OBSERVATION_TIME_NS = 10_000_000, 100_000_000
"""How long before the end of an event its state is read back. The shortest event lasts twice as long, so a
reading prolongs an event only if it takes longer than this; `event_length_notes` then shows it."""
END_POLL_INTERVAL_S = 0.01
"""How often the bench looks whether an event that ends by itself has ended."""
OBSERVATION_SHARE = 0.1
"""The same as a share of the event."""


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
            fix='write lab = "netns" or "qemu" under [testbed]',
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
    requested_s = float(EVENT_DURATION.read_level(load.factors))
    length_notes = () if scheduled.ends_by_itself else event_length_notes(times, requested_s)
    check_arrivals(endpoints, times, load.duration_s)
    check_cut(record["event"], endpoints, times)
    disagreement_notes = measure_disagreement_notes(endpoints, times, record["datagrams_per_s"])
    return (*event_notes, *length_notes, *disagreement_notes)


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

    @property
    def ends_by_itself(self) -> bool:
        """Whether the event decides when it ends."""
        return isinstance(self._event, SelfEndingEvent)

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
        if isinstance(self._event, SelfEndingEvent):
            has_ended = self._wait_for_own_end(self._event, end_due_ns)
        else:
            has_ended = self._observe_and_wait(end_due_ns)
        if not has_ended:
            return None
        end_ns = _time_call(self._event.end)
        self._event.observe_after()
        return EventTimes(started_ns, begin_ns, end_ns)

    def _observe_and_wait(self, end_due_ns: int) -> bool:
        """Read back the state just before the end, and wait for it; return False if it was cancelled."""
        observation_time_ns = max(MIN_OBSERVATION_TIME_NS, round(1e9 * OBSERVATION_SHARE * self._duration_s))
        if not self._wait_until(end_due_ns - min(MAX_OBSERVATION_TIME_NS, observation_time_ns)):
            return False
        self._event.observe_during()
        return self._wait_until(end_due_ns)

    def _wait_for_own_end(self, event: SelfEndingEvent, end_due_ns: int) -> bool:
        """Wait until an event is done; return False if it was cancelled. Raises TrialFailed.

        An event that fails is undone at once, because it could go on while the load still runs.
        """
        try:
            while not event.has_ended():
                if time.monotonic_ns() > end_due_ns:
                    level = EVENT_DURATION.format_as_assignment(self._duration_s)
                    raise TrialFailed(
                        f"the event on {event.target} did not end within {level} "
                        f"({event.describe_progress()}). Choose a longer event_duration"
                    )
                if self._is_cancelled.wait(END_POLL_INTERVAL_S):
                    return False
            event.observe_during()
        except TrialFailed:
            event.restore()
            raise
        return True

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


def _add_host_totals(
    endpoints: Sequence[EndpointRecord], record: Mapping[str, object]
) -> tuple[EndpointRecord, ...]:
    return tuple(
        replace(each, totals={**each.totals, "network_event": dict(record)}) if each.name == HOST else each
        for each in endpoints
    )
