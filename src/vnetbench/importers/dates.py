"""Lines of a log that are a date and nothing else, as scripts write them before they start a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONGEST = 80

_WEEKDAY = r"(?:(?P<weekday>[A-Za-z]{3})[a-z]*,?\s+)?"
_MONTH = r"(?P<month>[A-Za-z]{3})[a-z]*\.?"
_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_ZONE = r"(?:\s*(?P<zone>Z|[A-Z]{3,5}|[+-]\d\d:?\d\d))?"
_YEAR, _DAY = r"(?P<year>\d{4})", r"(?P<day>\d{1,2})"
_FORMS = tuple(
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
_FRAME = " \t=-#*[]:"
"""What stands around a date in a log: `===== 2025-11-05 12:00:03 =====`."""

NEAR = 8
"""Lines before a run within which a date is that of its beginning."""


@dataclass
class Clock:
    """The last date and time that a log told between its runs; on one line, or each on one of its own."""

    _day: date | None = None
    _at: time | None = None
    _line: int = 0

    def hears(self, number: int, line: str) -> bool:
        """Whether the line of that number is a date, a time, or both; it is then known."""
        told = _told_by(line)
        if told is None:
            return False
        day, at = told
        if day is not None:
            self._day, self._at = day, at
        elif self._day is not None and self._at is None and number - self._line <= NEAR:
            self._at = at
        else:
            return False  # a time of no day
        self._line = number
        return True

    def told_for(self, first_line: int) -> datetime | None:
        """When a run began that stands on this line; None where no date stands close before it."""
        is_near = 0 < first_line - self._line <= NEAR
        day, at, self._day, self._at = self._day, self._at, None, None
        return datetime.combine(day, at) if is_near and day and at else None


def _told_by(line: str) -> tuple[date | None, time | None] | None:
    """What a line tells where it is nothing but a date, a time, or both; None where it is something else."""
    text = line.strip(_FRAME)
    if not 4 < len(text) <= _LONGEST or not any(mark in text for mark in ":./-"):
        return None
    found = next((match.groupdict() for form in _FORMS if (match := form.fullmatch(text))), None)
    if found is None:
        return None
    try:
        day = _day(found) if "year" in found else None
        return None if "year" in found and day is None else (day, _time(found))
    except ValueError:
        return None


def _day(found: Mapping[str, str | None]) -> date | None:
    """The day; None where it can be two: `05/11/2025` is one in Berlin and another in Boston."""
    year = int(found["year"] or 0)
    if "first" not in found:
        return date(year, _month(found), int(found["day"] or 0))
    first, other = int(found["first"] or 0), int(found["other"] or 0)
    orders = [(month, day) for month, day in ((first, other), (other, first)) if month <= 12]
    days = {date(year, month, day) for month, day in orders}
    weekday = (found["weekday"] or "").lower()
    if weekday in _WEEKDAYS:
        days = {day for day in days if day.weekday() == _WEEKDAYS.index(weekday)}
    return days.pop() if len(days) == 1 else None


def _month(found: Mapping[str, str | None]) -> int:
    if number := found.get("month_number"):
        return int(number)
    return _MONTHS.index((found["month"] or "").lower()) + 1


def _time(found: Mapping[str, str | None]) -> time | None:
    if not found.get("hour"):
        return None
    hour = int(found["hour"] or 0)
    if half := found.get("half"):
        hour = hour % 12 + (12 if half in "Pp" else 0)
    return time(hour, int(found["minute"] or 0), int(found["second"] or 0), tzinfo=_zone(found.get("zone")))


def _zone(text: str | None) -> tzinfo | None:
    """Of a number of hours, or of UTC; the letters of other zones stand for several."""
    if text in ("Z", "UTC", "GMT"):
        return UTC
    if text is None or text[0] not in "+-":
        return None
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))
