"""The schedule of an event, and the trials whose outage cannot be measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from vnetbench.campaign.event_checks import (
    EventTimes,
    check_arrivals,
    check_cut,
    event_length_notes,
    measure_disagreement_notes,
)
from vnetbench.campaign.network_event import OnStart, ScheduledEvent, run_with_network_event
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.campaign.trial_failure import TrialFailedUnderLoad
from vnetbench.errors import BenchError
from vnetbench.lab.disruption.event import NetworkEvent
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.records import HOST, OBSERVE, EndpointRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level
from vnetbench.study.workloads import DISRUPTION

pytestmark = pytest.mark.pure

MS = 1_000_000
START = 9_000 * MS
TIMES = EventTimes(START, (START + 500 * MS, START + 501 * MS), (START + 600 * MS, START + 601 * MS))


class RecordingEvent:
    """An event that records its calls and the threads that make them."""

    target = "port b1"

    def __init__(self, failing_call: str = "", error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.threads: set[int] = set()
        self._failing_call, self._error = failing_call, error

    def _record(self, call: str) -> None:
        self.calls.append(call)
        self.threads.add(threading.get_ident())
        if call == self._failing_call and self._error:
            raise self._error

    def prepare(self) -> None:
        self._record("prepare")

    def observe_before(self) -> None:
        self._record("observe_before")

    def begin(self) -> None:
        self._record("begin")

    def observe_during(self) -> None:
        self._record("observe_during")

    def end(self) -> None:
        self._record("end")

    def observe_after(self) -> None:
        self._record("observe_after")

    def prove(self) -> Mapping[str, object]:
        self._record("prove")
        return {"dropped_packets": 3}

    def restore(self) -> None:
        self._record("restore")


ALL_CALLS = [
    "prepare", "observe_before", "begin", "observe_during", "end", "observe_after", "prove", "restore"
]  # fmt: skip


def test_an_event_happens_in_order_in_one_thread_and_not_before_its_time() -> None:
    event = RecordingEvent()
    with ScheduledEvent(event, 0.02, 0.03) as scheduled:
        started_ns = time.monotonic_ns()
        scheduled.start(started_ns)
        times = scheduled.wait_until_ended()
        assert scheduled.prove() == {"dropped_packets": 3}
    assert event.calls == ALL_CALLS
    assert len(event.threads) == 1 and threading.get_ident() not in event.threads
    assert started_ns + 20 * MS <= times.begin_ns[0] <= times.begin_ns[1]
    assert times.begin_ns[1] + 30 * MS <= times.end_ns[0] <= times.end_ns[1]


def test_an_event_of_an_abandoned_trial_is_undone_without_its_end() -> None:
    event = RecordingEvent()
    with pytest.raises(KeyboardInterrupt), ScheduledEvent(event, 0.0, 3600.0) as scheduled:
        scheduled.start(time.monotonic_ns())
        while "begin" not in event.calls:
            time.sleep(0.001)
        raise KeyboardInterrupt
    assert event.calls == ["prepare", "observe_before", "begin", "restore"]


def test_an_event_that_cannot_be_prepared_is_undone_and_refuses_its_treatment() -> None:
    event = RecordingEvent("prepare", TreatmentRefused("no queueing discipline"))
    with pytest.raises(TreatmentRefused, match="no queueing discipline"), ScheduledEvent(event, 0.0, 0.1):
        raise AssertionError("not reached")
    assert event.calls == ["prepare", "restore"]


def test_an_event_that_fails_fails_the_trial_with_its_target() -> None:
    event = RecordingEvent("begin", BenchError("the kernel refused"))
    with (
        pytest.raises(TrialFailed, match="event on port b1 failed: the kernel refused"),
        ScheduledEvent(event, 0.0, 0.1) as scheduled,
    ):
        scheduled.start(time.monotonic_ns())
        scheduled.wait_until_ended()
    assert event.calls == ["prepare", "observe_before", "begin", "restore"]


def test_a_trial_without_its_event_fails() -> None:
    with (
        pytest.raises(TrialFailed, match="ended before its event did"),
        ScheduledEvent(RecordingEvent(), 0.0, 0.1) as scheduled,
    ):
        scheduled.wait_until_ended()


class SelfEndingRecordingEvent(RecordingEvent):
    """A recording event that is done at the third look, or never."""

    def __init__(self, *, is_endless: bool = False, error: TrialFailed | None = None) -> None:
        super().__init__("has_ended", error)
        self._is_endless = is_endless

    def has_ended(self) -> bool:
        self._record("has_ended")
        return not self._is_endless and self.calls.count("has_ended") == 3

    def describe_progress(self) -> str:
        return "240 MiB to go"


def test_an_event_that_ends_by_itself_ends_when_it_is_done() -> None:
    event = SelfEndingRecordingEvent()
    with ScheduledEvent(event, 0.0, 3600.0) as scheduled:
        assert scheduled.ends_by_itself
        scheduled.start(time.monotonic_ns())
        scheduled.wait_until_ended()
    looks = ["has_ended"] * 3
    assert event.calls == [
        "prepare", "observe_before", "begin", *looks, "observe_during", "end", "observe_after", "restore",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            SelfEndingRecordingEvent(is_endless=True),
            r"port b1 did not end within event_duration = 20 ms \(240 MiB to go\)\. Choose a longer",
        ),
        (SelfEndingRecordingEvent(error=TrialFailed("the disk is full")), "the disk is full"),
    ],
)
def test_an_event_that_does_not_end_is_undone_while_the_load_runs(
    event: SelfEndingRecordingEvent, message: str
) -> None:
    with ScheduledEvent(event, 0.0, 0.02) as scheduled:
        scheduled.start(time.monotonic_ns())
        with pytest.raises(TrialFailed, match=message):
            scheduled.wait_until_ended()
        assert event.calls[-2:] == ["has_ended", "restore"]


def sink(silent_ms: range = range(500, 600), length_ms: float = 100.0, **changes: Any) -> EndpointRecord:
    """Return a sink of 10,000 datagrams a second for 1.5 s, with a gap of these lost datagrams."""
    gap = {
        "length_ns": round(length_ms * MS),
        "started_monotonic_ns": START + 500 * MS,
        "number_before": 4999,
        "number_after": 5999,
        "sent_apart_ns": 100 * MS,
    }
    arrivals = {
        "gaps": [gap],
        "counts": {
            "started_monotonic_ns": START,
            "interval_ns": MS,
            "datagrams": [0 if at in silent_ms else 10 for at in range(1500)],
        },
        "last_monotonic_ns": START + 1499 * MS,
        "clock_step_ns": 0,
        "clock_error_ns": 30,
        **changes,
    }
    stream = {
        "id": 0,
        "role": "sink",
        "datagrams": 14_000,
        "duplicates": 0,
        "lost": 1000,
        "arrivals": arrivals,
    }
    return EndpointRecord("b1", "sink", {"streams": [stream]}, ())


def with_stream(**changes: Any) -> EndpointRecord:
    streams: Any = sink().totals["streams"]
    return EndpointRecord("b1", "sink", {"streams": [{**streams[0], **changes}]}, ())


def test_an_outage_that_the_arrivals_show_passes() -> None:
    check_arrivals([sink()], TIMES, 1.5)
    assert measure_disagreement_notes([sink()], TIMES, 10_000.0) == ()


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (with_stream(arrivals=None), "b1, stream 0: no data arrived"),
        (with_stream(socket_drops=12), "its socket dropped 12 datagrams"),
        (sink(clock_step_ns=250_000), "the clock was set by 250 µs"),
        (sink(last_monotonic_ns=START + 499 * MS), "no data arrived after 0.50 s"),
        (
            sink(silent_ms=range(500, 1495)),
            r"not back before the end .*: after the outage, at most \d+% of it",
        ),
    ],
)
def test_a_trial_whose_outage_cannot_be_measured_fails(endpoint: EndpointRecord, message: str) -> None:
    with pytest.raises(TrialFailed, match=message):
        check_arrivals([endpoint], TIMES, 1.5)


@pytest.mark.parametrize(
    ("sent_apart_ms", "reason"),
    [(104, "the source was late"), (100, "the datagrams after it were held back")],
)
def test_an_outage_that_is_longer_than_its_numbers_is_noted(sent_apart_ms: int, reason: str) -> None:
    late = sink(length_ms=104.0)
    streams: Any = late.totals["streams"]
    streams[0]["arrivals"]["gaps"][0]["sent_apart_ns"] = sent_apart_ms * MS
    (note,) = measure_disagreement_notes([late], TIMES, 10_000.0)
    assert note.startswith("the outage is 4.00 ms longer by the clock than by the numbers")
    assert note.endswith(reason)


def test_a_source_that_stopped_in_an_outage_makes_its_numbers_useless_and_is_noted() -> None:
    # 1000 datagrams are missing, 100 ms of them, but the source sent the next one 400 ms later.
    late = sink(length_ms=400.0)
    streams: Any = late.totals["streams"]
    streams[0]["arrivals"]["gaps"][0]["sent_apart_ns"] = 400 * MS
    (note,) = measure_disagreement_notes([late], TIMES, 10_000.0)
    assert "the source stopped during the outage" in note


@pytest.mark.parametrize("event", ["link-flap", "silent-drop", "bridge-port-stp"])
def test_data_that_arrives_while_the_only_path_is_cut_contradicts_the_event(event: str) -> None:
    check_cut(event, [sink()], TIMES)
    with pytest.raises(TrialFailed, match=f"data arrived while event {event} cut the path: .* 60.0 ms"):
        check_cut(event, [sink(length_ms=60.0)], TIMES)
    check_cut("team-link-down", [sink(length_ms=60.0)], TIMES)


class TestbedWithEvent:
    """A testbed that only makes this event."""

    def __init__(self, event: RecordingEvent) -> None:
        self._event = event

    def make_network_event(self, factors: Mapping[str, Level]) -> NetworkEvent:
        return self._event


@pytest.mark.parametrize("failing_call", ["end", "prove"])
def test_a_trial_that_fails_after_its_load_keeps_its_records_and_its_event(failing_call: str) -> None:
    event = RecordingEvent(failing_call, TrialFailed("still down"))
    levels = complete_levels({"event_duration": 0.02}, DISRUPTION)
    host = EndpointRecord(HOST, OBSERVE, {"bench_cpu_s": 0.1}, ())

    def run(on_start: OnStart) -> TrialMeasurement:
        on_start(time.monotonic_ns())
        # The load ends after its event.
        while failing_call not in event.calls and "observe_after" not in event.calls:
            time.sleep(0.001)
        return TrialMeasurement((sink(), host), {}, ())

    testbed: Any = TestbedWithEvent(event)
    with pytest.raises(TrialFailedUnderLoad, match="still down") as caught:
        run_with_network_event(testbed, TrialLoad(levels, 0.01, 0.1, DISRUPTION), run)
    kept_sink, kept_host = caught.value.endpoints
    assert kept_sink == sink() and kept_host.totals["bench_cpu_s"] == 0.1
    record: Any = kept_host.totals["network_event"]
    assert (record["event"], record["target"]) == ("link-flap", "port b1")
    assert ("end_monotonic_ns" in record) == (failing_call == "prove") and "proof" not in record
    assert event.calls[-1] == "restore"


def event_of_length(length_ms: float) -> EventTimes:
    begin_ns = START + 501 * MS
    end_ns = begin_ns + round(length_ms * MS)
    return EventTimes(START, (START + 500 * MS, begin_ns), (end_ns, end_ns + MS))


@pytest.mark.parametrize(
    ("length_ms", "requested_s"), [(100, 0.1), (101.9, 0.1), (20.9, 0.02), (10_190, 10.0)]
)
def test_an_event_that_lasts_as_long_as_requested_has_no_note(length_ms: float, requested_s: float) -> None:
    assert event_length_notes(event_of_length(length_ms), requested_s) == ()


@pytest.mark.parametrize(
    ("length_ms", "requested_s", "excess"),
    [(119, 0.1, "19.0 ms"), (39.9, 0.02, "19.9 ms"), (1100, 1.0, "100 ms")],
)
def test_an_event_that_ends_late_is_noted(length_ms: float, requested_s: float, excess: str) -> None:
    (note,) = event_length_notes(event_of_length(length_ms), requested_s)
    assert note.startswith(f"the event lasted {excess} longer than event_duration = ")


@pytest.mark.parametrize(("length_ms", "requested_s"), [(201, 0.1), (40.1, 0.02), (2001, 1.0)])
def test_an_event_that_ends_far_too_late_did_not_take_effect(length_ms: float, requested_s: float) -> None:
    with pytest.raises(TrialFailed, match=r"did not take effect: the event lasted .* longer than"):
        event_length_notes(event_of_length(length_ms), requested_s)
