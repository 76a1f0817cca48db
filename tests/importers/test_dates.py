"""Recognize dates between the runs of a log, and assign them to runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from vnetbench.importers.dates import DateLinesBeforeRun
from vnetbench.importers.log_parser import UnrecognizedSection, parse_log
from vnetbench.importers.runs import Run

pytestmark = pytest.mark.pure

NOON = datetime(2025, 11, 5, 12, 0, 3)


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("2025-11-05 12:00:03", NOON),
        ("===== 2025-11-05T12:00:03Z =====", NOON.replace(tzinfo=UTC)),
        ("[2025/11/05 12:00:03.250]", NOON),
        ("05.11.2025 12:00:03,45", NOON),
        ("05.11.2025  12:00", NOON.replace(second=0)),
        ("Wed 11/05/2025 12:00:03.45", NOON),
        ("Wed 05/11/2025 12:00:03", NOON),
        ("11/25/2025 12:00:03", NOON.replace(day=25)),
        ("25/11/2025 12:00:03", NOON.replace(day=25)),
        ("Wed Nov  5 12:00:03 UTC 2025", NOON.replace(tzinfo=UTC)),
        ("Wed Nov  5 12:00:03 CET 2025", NOON),
        ("Wed 05 Nov 2025 12:00:03 PM CET", NOON),
        ("Wed, 05 Nov 2025 12:00:03 +0130", NOON.replace(tzinfo=timezone(timedelta(minutes=90)))),
        ("Wednesday, November 5, 2025 12:00:03 AM", NOON.replace(hour=0)),
        ("Wednesday, November 5, 2025 1:00:03 PM", NOON.replace(hour=13)),
    ],
)
def test_a_line_with_only_a_date_is_recognized(line: str, time: datetime) -> None:
    tracker = DateLinesBeforeRun()

    assert tracker.record_if_date_line(1, line)
    assert tracker.take_run_start_time(2) == time


@pytest.mark.parametrize(
    "line",
    [
        "05/11/2025 12:00:03",  # November or May
        "Mon 05/11/2025 12:00:03",  # neither is a Monday
        "2025-13-05 12:00:03",
        "2025-11-05 25:00:03",
        "99/99/2025 12:00",
        "12:00:03 INFO: 64 threads created",
        "[  5]   0.00-1.00   sec",
        "192.168.10.2",
        "1.2.2025.4",
        "",
    ],
)
def test_invalid_and_ambiguous_dates_are_rejected(line: str) -> None:
    assert not DateLinesBeforeRun().record_if_date_line(1, line)


def test_a_day_and_a_time_on_separate_lines_belong_together() -> None:
    tracker = DateLinesBeforeRun()
    assert tracker.record_if_date_line(1, "Wed 11/05/2025")
    assert tracker.record_if_date_line(2, "12:00 PM")

    assert tracker.take_run_start_time(4) == datetime(2025, 11, 5, 12, 0)
    assert tracker.take_run_start_time(5) is None


def test_a_day_without_a_time_is_no_start_time() -> None:
    tracker = DateLinesBeforeRun()
    assert tracker.record_if_date_line(1, "05.11.2025")

    assert tracker.take_run_start_time(2) is None


def test_a_date_applies_only_to_the_run_behind_it() -> None:
    output = [
        "Throughput(Mbps)=9853.56 CPU=38.1% Cycles/Byte=1.48 Interrupts/Sec=22318",
        "Throughput(Mbps)=9853.57 CPU=38.1% Cycles/Byte=1.48 Interrupts/Sec=22318",
    ]
    far = ["2025-11-06 12:00:00", *["nothing of a tool"] * 9]

    items = list(parse_log(["2025-11-05 12:00:03", "", *output, *far, output[0]]))

    runs = [item for item in items if isinstance(item, Run)]
    assert [run.started_at for run in runs] == [NOON, None, None]
    assert [item.line_count for item in items if isinstance(item, UnrecognizedSection)] == [9]
