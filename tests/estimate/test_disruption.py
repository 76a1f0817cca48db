"""The outage of an event: which gap belongs to it, when the old rate is back, and what was lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from vnetbench.estimate.disruption import (
    ArrivalRate,
    EventWindow,
    Gap,
    find_outage,
    find_outages,
    find_recovery,
    highest_rate_share,
)
from vnetbench.estimate.event_timeline import MAX_POINTS, arrivals_between, event_length_s, event_timeline
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.outage_metrics import outage_metrics
from vnetbench.estimate.time_series import metric_time_series
from vnetbench.results.records import HOST, OBSERVE, EndpointRecord, Sample, StreamSample, TrialRecord
from vnetbench.study.workloads import WORKLOADS

pytestmark = pytest.mark.pure

MS = 1_000_000
START = 50_000 * MS
EVENT = EventWindow(START + 500 * MS, START + 600 * MS)
SPACING_NS = MS // 10


def lossy_gap(at_ms: float, length_ms: float) -> Gap:
    """Return a gap whose datagrams were lost, after the start of the flow."""
    length_ns = round(length_ms * MS)
    return Gap(START + round(at_ms * MS), length_ns, length_ns // SPACING_NS - 1, length_ns)


def held_gap(at_ms: float, length_ms: float) -> Gap:
    """Return a gap whose datagrams arrived after it."""
    return Gap(START + round(at_ms * MS), round(length_ms * MS), 0, SPACING_NS)


def arrivals(total_ms: int, silent_ms: Sequence[range], count: int = 10) -> ArrivalRate:
    """Return arrivals of `count` datagrams a millisecond, none in the silent times."""
    silent = {at for part in silent_ms for at in part}
    return ArrivalRate(START, MS, [0 if at in silent else count for at in range(total_ms)])


RATE = arrivals(1500, [range(500, 600)])


def test_the_gap_that_overlaps_the_event_is_its_outage_and_others_are_background() -> None:
    gaps = [lossy_gap(499.9, 100.2), held_gap(120, 0.7), held_gap(1300, 0.9)]
    outage = find_outage(gaps, RATE, EVENT)
    assert outage.longest == gaps[0]
    assert outage.longest_ns == round(100.2 * MS)
    assert outage.background_ns == round(0.9 * MS)
    assert outage.recovered_ns == gaps[0].end_ns


def test_a_longer_gap_far_from_the_event_is_not_its_outage() -> None:
    gaps = [lossy_gap(499.9, 100.2), held_gap(1000, 300)]
    outage = find_outage(gaps, RATE, EVENT)
    assert outage.longest == gaps[0]
    assert outage.background_ns == 300 * MS


def test_a_gap_shortly_after_the_outage_belongs_to_the_event() -> None:
    # A spanning tree: the outage lasts long after the end of the event, and a second gap follows it.
    gaps = [lossy_gap(500, 400), lossy_gap(950, 30), held_gap(1300, 5)]
    outage = find_outage(gaps, arrivals(1500, [range(500, 900), range(950, 980)]), EVENT)
    assert outage.longest == gaps[0]
    assert outage.window_end_ns == gaps[0].end_ns + 100 * MS
    assert outage.background_ns == 5 * MS


def test_a_pause_of_the_source_is_neither_outage_nor_background() -> None:
    pause = Gap(START + 540 * MS, 8 * MS, 0, 8 * MS)
    outage = find_outage([pause, held_gap(100, 0.3)], arrivals(1500, []), EVENT)
    assert outage.longest is None
    assert outage.background_ns == round(0.3 * MS)


def test_without_a_gap_at_the_event_the_shortest_reported_gap_is_the_bound() -> None:
    outage = find_outage([held_gap(100, 0.7), held_gap(200, 0.4)], arrivals(1500, []), EVENT)
    assert outage.longest is None
    assert outage.longest_ns == round(0.4 * MS)


def test_the_rate_is_back_only_when_enough_datagrams_arrive() -> None:
    # After the gap, single datagrams arrive for 50 ms before the old rate is back.
    rate = arrivals(1500, [range(500, 600)])
    counts = [*rate.counts[:600], *[1] * 50, *rate.counts[650:]]
    recovered = find_recovery(replace(rate, counts=counts), EVENT.begin_ns, EVENT.end_ns)
    assert recovered is not None
    # The first 20 ms with 90 % of the old rate have 18 of 20 intervals after 650 ms.
    assert recovered == START + 648 * MS
    assert find_recovery(arrivals(1500, [range(500, 1500)]), EVENT.begin_ns, EVENT.end_ns) is None


def paced_arrivals(
    rate_per_s: float, total_s: float, interval_ms: int, rate_after_per_s: float
) -> ArrivalRate:
    """Return arrivals at equal distances, none while the event lasts, and then at another rate."""
    counts = [0] * math.ceil(1000 * total_s / interval_ms)
    for at_rate, first_ms, last_ms in ((rate_per_s, 0, 500), (rate_after_per_s, 600, 1000 * total_s)):
        for number in range(math.ceil((last_ms - first_ms) / 1000 * at_rate)):
            counts[int((first_ms + 1000 * number / at_rate) / interval_ms)] += 1
    return ArrivalRate(START, interval_ms * MS, counts)


@pytest.mark.parametrize("rate_per_s", [250, 400, 600, 800, 1500, 1700, 2600, 3550, 10_000])
@pytest.mark.parametrize(("total_s", "interval_ms"), [(1.5, 1), (10, 2), (40, 8)])
def test_a_flow_is_back_at_the_end_of_its_outage_at_any_rate(
    rate_per_s: int, total_s: float, interval_ms: int
) -> None:
    back = paced_arrivals(rate_per_s, total_s, interval_ms, rate_per_s)
    assert find_recovery(back, EVENT.begin_ns, EVENT.end_ns) == EVENT.end_ns
    # A share of the old rate is not the old rate, however few datagrams an interval has.
    slow = paced_arrivals(rate_per_s, total_s, interval_ms, rate_per_s / 2)
    assert find_recovery(slow, EVENT.begin_ns, EVENT.end_ns) is None
    assert highest_rate_share(slow, EVENT.begin_ns, EVENT.end_ns) == pytest.approx(0.5, abs=0.1)


def test_the_recovery_in_a_trial_of_ten_minutes_is_the_begin_of_an_interval() -> None:
    event_ns, interval_ns = START + 150_000 * MS, 128 * MS
    end_ns = event_ns + 100 * MS
    first = (end_ns - START) // interval_ns + 1
    counts = [1280] * 4688
    back = ArrivalRate(START, interval_ns, counts)
    assert find_recovery(back, event_ns, end_ns) == end_ns
    late = replace(back, counts=[*counts[:first], 300, 300, *counts[first + 2 :]])
    assert find_recovery(late, event_ns, end_ns) == START + (first + 2) * interval_ns


def totals(gaps: Sequence[Gap], rate: ArrivalRate) -> dict[str, Any]:
    return {
        "streams": [
            {
                "id": 0,
                "role": "sink",
                "datagrams": sum(rate.counts),
                "arrivals": {
                    "gaps": [
                        {
                            "started_monotonic_ns": gap.start_ns,
                            "length_ns": gap.length_ns,
                            "number_before": 7,
                            "number_after": 8 + gap.missing,
                            "sent_apart_ns": gap.sent_apart_ns,
                        }
                        for gap in gaps
                    ],
                    "counts": {
                        "started_monotonic_ns": rate.start_ns,
                        "interval_ns": rate.interval_ns,
                        "datagrams": list(rate.counts),
                    },
                },
            }
        ]
    }


def sample(end_s: float, lost: int) -> Sample:
    counts = {"datagrams": 1000, "lost": lost, "duplicates": 0, "reordered": 0}
    stream = StreamSample(0, "sink", 64, None, None, None, counts)
    return Sample(round(end_s * 10), end_s, 0.1, 0, 64_000, {}, streams=(stream,))


def trial(record: dict[str, Any], gaps: Sequence[Gap]) -> TrialRecord:
    samples = tuple(sample(end / 10, {7: 1001, 13: 5}.get(end, 0)) for end in range(1, 16))
    endpoints = (
        EndpointRecord("b1", "sink", totals(gaps, RATE), samples),
        EndpointRecord(HOST, OBSERVE, {"network_event": record} if record else {}, ()),
    )
    return TrialRecord(0, 0, None, 0.0, 1.5, 0.0, {}, endpoints)


RECORD = {
    "datagrams_per_s": 10_000.0,
    "load_started_monotonic_ns": START,
    "begin_monotonic_ns": [EVENT.begin_ns, EVENT.begin_ns + MS // 20],
    "end_monotonic_ns": [EVENT.end_ns - MS // 20, EVENT.end_ns],
}


def test_the_metrics_of_an_outage_are_those_of_its_gap_and_of_the_samples_it_touches() -> None:
    metrics = dict(outage_metrics(trial(RECORD, [lossy_gap(499.9, 100.2), held_gap(1300, 0.9)])))
    assert metrics == {
        "outage_s": pytest.approx(0.1002),
        # From the end of the calls that began the event to the begin of those that ended it.
        "event_s": pytest.approx(0.0999),
        "outage_by_numbers_s": pytest.approx(0.1002),
        "background_gap_s": pytest.approx(0.0009),
        "recovery_s": pytest.approx(0.1001),
        # The loss of the sample at 1.3 s is far from the outage.
        "outage_lost_datagrams": 1001.0,
        "outage_duplicated_datagrams": 0.0,
        "outage_reordered_datagrams": 0.0,
    }
    assert set(metrics) <= set(METRICS)
    assert set(WORKLOADS["disruption"].deciding_metrics) <= set(metrics)


def test_a_source_that_stopped_in_the_outage_leaves_only_the_clock() -> None:
    # The host of the source waited for its neighbour's address: few datagrams are missing in a long gap.
    stopped = Gap(START + 500 * MS, 77_000 * MS, 198_000, 77_000 * MS)
    assert stopped.length_by_numbers_ns(SPACING_NS) is None
    metrics = dict(outage_metrics(trial(RECORD, [stopped])))
    assert metrics["outage_s"] == 77.0 and "outage_by_numbers_s" not in metrics
    # A source that is only late at the end of the gap has numbered all datagrams in it.
    late = Gap(START + 500 * MS, 104 * MS, 999, 104 * MS)
    assert late.length_by_numbers_ns(SPACING_NS) == 100 * MS


def tcp_trial(stalls_ms: Sequence[float], timeouts: int | None) -> TrialRecord:
    """Return a trial of one TCP stream for each stall, with a timeout and a retransmission per sample."""
    streams = [
        {key: value for key, value in totals([held_gap(500, stall_ms)], RATE)["streams"][0].items()
         if key != "datagrams"}
        for stall_ms in stalls_ms
    ]  # fmt: skip
    details = {} if timeouts is None else {"timeouts": timeouts}
    sources = tuple(
        StreamSample(number, "source", 64, 50.0, 10, 3, details) for number in range(len(stalls_ms))
    )
    samples = tuple(
        Sample(end, end / 10, 0.1, 640, 0, {"tcp_timeouts": 5}, streams=sources) for end in range(1, 16)
    )
    endpoints = (
        EndpointRecord("a1", "source", {}, samples),
        EndpointRecord("b1", "sink", {"streams": streams}, ()),
        EndpointRecord(HOST, OBSERVE, {"network_event": RECORD}, ()),
    )
    return TrialRecord(0, 0, None, 0.0, 1.5, 0.0, {}, endpoints)


@pytest.mark.parametrize(("timeouts", "expected"), [(2, 12.0), (None, 15.0)])
def test_the_stall_of_tcp_has_its_streams_timeouts_and_retransmissions(
    timeouts: int | None, expected: float
) -> None:
    metrics = dict(outage_metrics(tcp_trial([210, 120], timeouts)))
    assert (metrics["stall_s"], metrics["stall_shortest_s"]) == (0.21, 0.12)
    # Three samples overlap the event and the stall; before Linux 6.7 only the endpoint counts timeouts.
    touched = 5 if timeouts is None else 2 * timeouts
    assert metrics["stall_timeouts"] % touched == 0 and metrics["stall_timeouts"] >= expected
    assert metrics["stall_retransmits"] / (2 * 3) == metrics["stall_timeouts"] / touched
    assert "outage_s" not in metrics and "outage_lost_datagrams" not in metrics
    assert set(WORKLOADS["tcp_disruption"].deciding_metrics) <= set(metrics) <= set(METRICS)


def test_a_trial_without_an_event_or_with_a_broken_record_has_no_outage() -> None:
    for record in (
        {},
        {"event": "none"},
        {**RECORD, "end_monotonic_ns": []},
        {**RECORD, "begin_monotonic_ns": [EVENT.begin_ns]},
        {**RECORD, "datagrams_per_s": 0},
    ):
        assert dict(outage_metrics(trial(record, [lossy_gap(500, 100)]))) == {}


def test_the_timeline_shows_the_gap_between_margins_with_bounded_points() -> None:
    points = event_timeline(trial(RECORD, [lossy_gap(499.9, 100.2)]))
    assert 0 < len(points) <= MAX_POINTS
    times_s = [at_s for at_s, _ in points]
    assert times_s[0] == pytest.approx(-0.026, abs=0.002) and times_s[-1] == pytest.approx(0.126, abs=0.003)
    rates = {round(at_s, 3): rate for at_s, rate in points}
    assert rates[0.05] == 0 and rates[-0.02] == rates[0.12] == 10_000
    long_event = replace(EVENT, end_ns=EVENT.begin_ns + 900 * MS)
    assert len(arrivals_between(RATE, long_event, long_event.end_ns)) <= MAX_POINTS
    assert event_timeline(trial({}, [])) == ()
    assert event_length_s(trial(RECORD, [])) == pytest.approx(0.1)


def test_arrivals_of_a_file_from_someone_else_are_ignored_unless_readable() -> None:
    gap = {
        "started_monotonic_ns": 1,
        "length_ns": 2,
        "number_before": 3,
        "number_after": 4,
        "sent_apart_ns": 5,
    }
    counts = {"started_monotonic_ns": 1, "interval_ns": MS, "datagrams": [1]}
    unreadable: tuple[Any, ...] = (
        None,
        [],
        {},
        {"gaps": [{}], "counts": counts},
        {"gaps": [gap], "counts": {**counts, "interval_ns": 0}},
        {"gaps": [gap], "counts": {**counts, "datagrams": ["x"]}},
        {"gaps": 7, "counts": counts},
    )
    for arrivals in unreadable:
        foreign = EndpointRecord("b1", "sink", {"streams": [{"role": "sink", "arrivals": arrivals}]}, ())
        assert find_outages([foreign], EVENT) == []
    readable = {"streams": [{"role": "sink", "arrivals": {"gaps": [gap], "counts": counts}}]}
    assert len(find_outages([EndpointRecord("b1", "sink", readable, ())], EVENT)) == 1
    with pytest.raises(ValueError, match="no event"):
        metric_time_series(trial({}, []), "outage_s")
