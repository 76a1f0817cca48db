"""Recognize lines of a log that are only a date or a time, as scripts write them before they start a tool.

dateutil accepts numbers and words that are no dates, and resolves `05/11/2025` silently. So this module has
its own strict patterns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MAX_LENGTH = 80

_WEEKDAY = r"(?:(?P<weekday>[A-Za-z]{3})[a-z]*,?\s+)?"
_MONTH = r"(?P<month>[A-Za-z]{3})[a-z]*\.?"
_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_ZONE = r"(?:\s*(?P<zone>Z|[A-Z]{3,5}|[+-]\d\d:?\d\d))?"
_YEAR, _DAY = r"(?P<year>\d{4})", r"(?P<day>\d{1,2})"
_DATE_PATTERNS = tuple(
    re.compile(form)
    for form in (
        # 2025-11-05 12:00
        rf"{_YEAR}[-/.](?P<month_number>\d\d)[-/.](?P<day>\d\d)(?:[T\s]\s*{_TIME}{_ZONE})?",
        # 05.11.2025 12:00
        rf"{_WEEKDAY}{_DAY}\.(?P<month_number>\d{{1,2}})\.{_YEAR}(?:[\s,]+{_TIME}{_ZONE})?",
        # Wed 11/05/2025 12:00, of echo %date% %time%
        rf"{_WEEKDAY}(?P<first>\d{{1,2}})/(?P<other>\d{{1,2}})/{_YEAR}(?:[\s,]+{_TIME}{_ZONE})?",
        # Wed Nov  5 12:00:03 UTC 2025, of date
        rf"{_WEEKDAY}{_MONTH}\s+{_DAY}\s+{_TIME}{_ZONE}\s+{_YEAR}",
        # Wed, 05 Nov 2025 12:00:03 +0100, of date -R
        rf"{_WEEKDAY}{_DAY}\s+{_MONTH}\s+{_YEAR}[\s,]+{_TIME}{_ZONE}",
        # Wednesday, November 5, 2025 12:00:03 PM, of Get-Date
        rf"{_WEEKDAY}{_MONTH}\s+{_DAY},\s+{_YEAR}\s+{_TIME}",
        # 12:00 PM, of time /t behind date /t
        _TIME,
    )
)
_DECORATION = " \t=-#*[]:"
"""Characters around a date in a log: `===== 2025-11-05 12:00:03 =====`."""

MAX_DISTANCE_LINES = 8
"""Maximum lines between a date and the run that started then."""


@dataclass
class RunDateTracker:
    """Remembers the last date and time between the runs of a log. They may be on one line or on two."""

    _day: date | None = None
    _time: time | None = None
    _line: int = 0

    def take_date_line(self, number: int, line: str) -> bool:
        """Return whether the line is a date, a time, or both, and remember it if so."""
        parsed = _parse_date_line(line)
        if parsed is None:
            return False
        day, time_of_day = parsed
        if day is not None:
            self._day, self._time = day, time_of_day
        elif self._day is not None and self._time is None and number - self._line <= MAX_DISTANCE_LINES:
            self._time = time_of_day
        else:
            return False  # a time without a day
        self._line = number
        return True

    def start_time(self, first_line: int) -> datetime | None:
        """Return when the run on this line started, and forget the date.

        None if no date precedes it closely.
        """
        is_near = 0 < first_line - self._line <= MAX_DISTANCE_LINES
        day, time_of_day, self._day, self._time = self._day, self._time, None, None
        return datetime.combine(day, time_of_day) if is_near and day and time_of_day else None


def _parse_date_line(line: str) -> tuple[date | None, time | None] | None:
    """Return the date and the time of a line that has nothing else; None for any other line."""
    text = line.strip(_DECORATION)
    if not 4 < len(text) <= _MAX_LENGTH or not any(mark in text for mark in ":./-"):
        return None
    fields = next(
        (match.groupdict() for pattern in _DATE_PATTERNS if (match := pattern.fullmatch(text))), None
    )
    if fields is None:
        return None
    try:
        day = _parse_day(fields) if "year" in fields else None
        return None if "year" in fields and day is None else (day, _parse_time(fields))
    except ValueError:
        return None


def _parse_day(fields: Mapping[str, str | None]) -> date | None:
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
    if weekday in _WEEKDAYS:
        days = {day for day in days if day.weekday() == _WEEKDAYS.index(weekday)}
    return days.pop() if len(days) == 1 else None


def _parse_month(fields: Mapping[str, str | None]) -> int:
    if number := fields.get("month_number"):
        return int(number)
    return _MONTHS.index((fields["month"] or "").lower()) + 1


def _parse_time(fields: Mapping[str, str | None]) -> time | None:
    if not fields.get("hour"):
        return None
    hour = int(fields["hour"] or 0)
    if meridiem := fields.get("half"):
        hour = hour % 12 + (12 if meridiem in "Pp" else 0)
    return time(
        hour, int(fields["minute"] or 0), int(fields["second"] or 0), tzinfo=_parse_zone(fields.get("zone"))
    )


def _parse_zone(text: str | None) -> tzinfo | None:
    """Return the zone of a numeric offset or of UTC. The letters of other zones are ambiguous."""
    if text in ("Z", "UTC", "GMT"):
        return UTC
    if text is None or text[0] not in "+-":
        return None
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))
