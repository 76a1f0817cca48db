"""Levels of the factor `source_ports`: keywords, and ranges of ports such as "50000-50015"."""

from __future__ import annotations

import re

from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, format_raw_value, suggest_fix

ANY_PORTS, CONSECUTIVE_PORTS, SPREAD_PORTS = "any", "consecutive", "spread"
_KEYWORDS = (ANY_PORTS, CONSECUTIVE_PORTS, SPREAD_PORTS)
FIRST_UNPRIVILEGED_PORT, LAST_PORT = 1024, 65535
_RANGE_PATTERN = r"[0-9]{1,5}\s*-\s*[0-9]{1,5}"


def source_ports() -> ValueType:
    """Make the type of source ports: a keyword, or a range such as "50000-50015"."""
    listed = ", ".join(f'"{word}"' for word in _KEYWORDS)
    expected = f'{listed}, or ports from {FIRST_UNPRIVILEGED_PORT} to {LAST_PORT} such as "50000-50015"'

    def parse(raw: object) -> str:
        text = raw.strip() if isinstance(raw, str) else ""
        if text in _KEYWORDS:
            return text
        if not re.fullmatch(_RANGE_PATTERN, text):
            fix = f"write {expected}" if text[:1].isdigit() else _suggest_keyword(text, expected)
            raise WrongValue(f"{format_raw_value(raw)} is not a range of ports", fix=fix)
        first, last = (int(port) for port in text.split("-"))
        if last < first:
            raise WrongValue(f'the range "{text}" goes down', fix=f'write "{last}-{first}"')
        if not FIRST_UNPRIVILEGED_PORT <= first <= last <= LAST_PORT:
            raise WrongValue(
                f'the range "{text}" has ports that an endpoint cannot use',
                fix=f"use ports from {FIRST_UNPRIVILEGED_PORT} to {LAST_PORT}",
            )
        return f"{first}-{last}"

    return ValueType(expected, parse, str, f"({'|'.join(_KEYWORDS)}|{_RANGE_PATTERN})", keywords=_KEYWORDS)


def _suggest_keyword(text: str, expected: str) -> str:
    return suggest_fix(text, _KEYWORDS, otherwise=f"write {expected}")


def parse_port_range(level: Level) -> range | None:
    """Return the ports of a level such as "50000-50015"; None for a keyword."""
    first, dash, last = str(level).partition("-")
    return range(int(first), int(last) + 1) if dash else None
