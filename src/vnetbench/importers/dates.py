"""Recognize lines of a log that are only a date or a time, as scripts write them before they start a tool.

dateutil accepts numbers and words that are no dates, and resolves `05/11/2025` silently. So this module has
its own strict patterns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

_MONTH_ABBREVIATIONS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_ABBREVIATIONS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MAX_DATE_LINE_CHARACTERS = 80

_WEEKDAY_PATTERN = r"(?:(?P<weekday>[A-Za-z]{3})[a-z]*,?\s+)?"
_MONTH_PATTERN = r"(?P<month>[A-Za-z]{3})[a-z]*\.?"
_TIME_PATTERN = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_TIME_ZONE_PATTERN = r"(?:\s*(?P<zone>Z|[A-Z]{3,5}|[+-]\d\d:?\d\d))?"
_YEAR, _DAY = r"(?P<year>\d{4})", r"(?P<day>\d{1,2})"
_DATE_PATTERNS = tuple(
    re.compile(form)
    for form in (
        # 2025-11-05 12:00
        rf"{_YEAR}[-/.](?P<month_number>\d\d)[-/.](?P<day>\d\d)(?:[T\s]\s*{_TIME_PATTERN}{_TIME_ZONE_PATTERN})?",
        # 05.11.2025 12:00
        rf"{_WEEKDAY_PATTERN}{_DAY}\.(?P<month_number>\d{{1,2}})\.{_YEAR}(?:[\s,]+{_TIME_PATTERN}{_TIME_ZONE_PATTERN})?",
        # Wed 11/05/2025 12:00, of echo %date% %time%
        rf"{_WEEKDAY_PATTERN}(?P<first>\d{{1,2}})/(?P<other>\d{{1,2}})/{_YEAR}(?:[\s,]+{_TIME_PATTERN}{_TIME_ZONE_PATTERN})?",
        # Wed Nov  5 12:00:03 UTC 2025, of date
        rf"{_WEEKDAY_PATTERN}{_MONTH_PATTERN}\s+{_DAY}\s+{_TIME_PATTERN}{_TIME_ZONE_PATTERN}\s+{_YEAR}",
        # Wed, 05 Nov 2025 12:00:03 +0100, of date -R
        rf"{_WEEKDAY_PATTERN}{_DAY}\s+{_MONTH_PATTERN}\s+{_YEAR}[\s,]+{_TIME_PATTERN}{_TIME_ZONE_PATTERN}",
        # Wednesday, November 5, 2025 12:00:03 PM, of Get-Date
        rf"{_WEEKDAY_PATTERN}{_MONTH_PATTERN}\s+{_DAY},\s+{_YEAR}\s+{_TIME_PATTERN}",
        # 12:00 PM, of time /t behind date /t
        _TIME_PATTERN,
    )
)
_DATE_DECORATION_CHARACTERS = " \t=-#*[]:"
"""Characters around a date in a log: `===== 2025-11-05 12:00:03 =====`."""

MAX_LINES_FROM_DATE_TO_RUN = 8
"""Maximum lines between a date and the run that started then."""


@dataclass
class DateLinesBeforeRun:
    """Remembers the last date and time between the runs of a log. They may be on one line or on two."""

    _last_day: date | None = None
    _last_time: time | None = None
    _date_line_number: int = 0

    def record_if_date_line(self, line_number: int, line: str) -> bool:
        """Return whether the line is a date, a time, or both, and remember it if so."""
        parsed = _parse_date_line(line)
        if parsed is None:
            return False
        day, time_of_day = parsed
        if day is not None:
            self._last_day, self._last_time = day, time_of_day
        elif (
            self._last_day is not None
            and self._last_time is None
            and line_number - self._date_line_number <= MAX_LINES_FROM_DATE_TO_RUN
        ):
            self._last_time = time_of_day
        else:
            return False  # a time without a day
        self._date_line_number = line_number
        return True

    def take_run_start_time(self, first_run_line: int) -> datetime | None:
        """Return when the run on this line started, and forget the date.

        None if no date precedes it closely.
        """
        is_near = 0 < first_run_line - self._date_line_number <= MAX_LINES_FROM_DATE_TO_RUN
        day, time_of_day, self._last_day, self._last_time = self._last_day, self._last_time, None, None
        return datetime.combine(day, time_of_day) if is_near and day and time_of_day else None


def _parse_date_line(line: str) -> tuple[date | None, time | None] | None:
    """Return the date and the time of a line that has nothing else; None for any other line."""
    text = line.strip(_DATE_DECORATION_CHARACTERS)
    if not 4 < len(text) <= _MAX_DATE_LINE_CHARACTERS or not any(mark in text for mark in ":./-"):
        return None
    fields = next(
        (match.groupdict() for pattern in _DATE_PATTERNS if (match := pattern.fullmatch(text))), None
    )
    if fields is None:
        return None
    try:
        day = _parse_unambiguous_date(fields) if "year" in fields else None
        return None if "year" in fields and day is None else (day, _parse_time(fields))
    except ValueError:
        return None


def _parse_unambiguous_date(fields: Mapping[str, str | None]) -> date | None:
    """Return the day; None if it is ambiguous.

    `05/11/2025` is in November in Berlin, and in May in Boston.
    """
    year = int(fields["year"] or 0)
    if "first" not in fields:
        return date(year, _parse_month(fields), int(fields["day"] or 0))
    first, other = int(fields["first"] or 0), int(fields["other"] or 0)
    orders = [(month, day) for month, day in ((first, other), (other, first)) if month <= 12]
    days = {date(year, month, day) for month, day in orders}
    weekday = (fields["weekday"] or "").lower()
    if weekday in _WEEKDAY_ABBREVIATIONS:
        days = {day for day in days if day.weekday() == _WEEKDAY_ABBREVIATIONS.index(weekday)}
    return days.pop() if len(days) == 1 else None


def _parse_month(fields: Mapping[str, str | None]) -> int:
    if number := fields.get("month_number"):
        return int(number)
    return _MONTH_ABBREVIATIONS.index((fields["month"] or "").lower()) + 1


def _parse_time(fields: Mapping[str, str | None]) -> time | None:
    if not fields.get("hour"):
        return None
    hour = int(fields["hour"] or 0)
    if meridiem := fields.get("half"):
        hour = hour % 12 + (12 if meridiem in "Pp" else 0)
    return time(
        hour,
        int(fields["minute"] or 0),
        int(fields["second"] or 0),
        tzinfo=parse_time_zone(fields.get("zone")),
    )


def parse_time_zone(text: str | None) -> tzinfo | None:
    """Return the zone of a numeric offset or of UTC. The letters of other zones are ambiguous."""
    if text in ("Z", "UTC", "GMT"):
        return UTC
    if text is None or text[0] not in "+-":
        return None
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))
