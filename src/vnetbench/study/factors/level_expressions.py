"""How levels of a factor are written: one value, a list, a range "1..16", a progression "1, 2, 4 .. 64"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from vnetbench.errors import BenchError
from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, format_raw_value

MAX_LEVELS = 1000
"""Levels of one factor; a factor with more is a slip of the pen ("1..65535")."""

MAX_EXPRESSION_CHARACTERS = 10_000
"""Characters of one expression."""


@dataclass(frozen=True)
class ParsedLevels:
    """Levels as read: the good ones, and what was wrong with the others.

    The first entry of each pair is the position in the TOML list that it came from; None outside of a list.
    """

    levels: tuple[tuple[int | None, Level], ...]
    problems: tuple[tuple[int | None, BenchError], ...]


def parse_levels(kind: ValueType, raw: object) -> ParsedLevels:
    """The canonical levels of a raw TOML value, in order; problems are collected, not raised."""
    levels: list[tuple[int | None, Level]] = []
    problems: list[tuple[int | None, BenchError]] = []
    if isinstance(raw, list):
        items: list[tuple[int | None, object]] = list(enumerate(raw[: MAX_LEVELS + 1]))
    else:
        items = [(None, raw)]
    for position, item in items:
        try:
            levels += [(position, level) for level in _parse_item(kind, item)]
        except BenchError as error:
            problems.append((position, error))
        if len(levels) > MAX_LEVELS:
            break
    if not levels and not problems:
        problems.append((None, WrongValue("there is no level", fix=f"write {kind.expected_form}")))
    if len(levels) > MAX_LEVELS:
        problems.append((None, _too_many_levels()))
    return ParsedLevels(tuple(levels[:MAX_LEVELS]), tuple(problems))


def _too_many_levels() -> WrongValue:
    return WrongValue(
        f"more than {MAX_LEVELS} levels", fix="name fewer levels, such as doublings: 1, 2, 4 .. 64"
    )


def _parse_item(kind: ValueType, raw: object) -> list[Level]:
    if not isinstance(raw, str) or len(raw) > MAX_EXPRESSION_CHARACTERS:
        if isinstance(raw, str):
            raise WrongValue(f"{len(raw)} characters are too many", fix=f"write {kind.expected_form}")
        return [kind.parse(raw)]
    if kind.is_free_text:
        return [kind.parse(raw)]
    if kind.has_commas:
        return [kind.parse(part) for part in _split_cpu_levels(raw)]
    if not raw.strip():
        raise WrongValue("there is no level", fix=f"write {kind.expected_form}")
    terms: list[Level] = []
    # A progression continues the terms written just before it, never those that an earlier one ended with.
    begin = 0
    for part in raw.split(","):
        if not part.strip():
            raise WrongValue(
                f"{format_raw_value(raw)} has a comma with no level at one side", fix="take that comma away"
            )
        first, dots, last = part.partition("..")
        if not dots:
            terms.append(kind.parse(part))
            continue
        if ".." in last or last.startswith(".") or not first.strip() or not last.strip():
            raise WrongValue(
                f"{format_raw_value(part.strip())} is no range", fix='write both of its ends, such as "1..16"'
            )
        terms.append(kind.parse(first))
        terms += _continue_progression(kind, terms[begin:], kind.parse(last))
        begin = len(terms)
        if begin > MAX_LEVELS:
            raise _too_many_levels()
    return terms


def _split_cpu_levels(raw: str) -> list[str]:
    """Levels of a kind with commas: "own, apart" are two; "0,2" is one; a mixture must be a TOML list."""
    parts = raw.split(",")
    words = [bool(re.search(r"[a-z]", part)) for part in parts]
    if all(words):
        return parts
    if any(words):
        raise WrongValue(
            f"{format_raw_value(raw)} mixes words and CPU lists",
            fix='write a list of strings, such as ["own", "0,2"]',
        )
    return [raw]


def _continue_progression(kind: ValueType, shown_terms: list[Level], end: Level) -> Iterator[Level]:
    """The levels after the last of `shown_terms` up to and with `end`."""
    if isinstance(end, str) or any(isinstance(term, str) for term in shown_terms[-3:]):
        raise WrongValue(
            "a range goes between numbers only", fix="write every level, with commas between them"
        )
    terms = [Fraction(str(term)) for term in shown_terms[-3:]]
    last, stop = terms[-1], Fraction(str(end))
    if stop <= last:
        first, second = kind.format(shown_terms[-1]), kind.format(end)
        raise WrongValue(
            f'a range from "{first}" to "{second}" goes down', fix="write the smaller number first"
        )
    if len(terms) == 1:
        if not kind.is_integer:
            raise WrongValue(
                "a range of quantities needs its steps shown",
                fix=f'begin it with three terms, such as "{_example_progression(kind, shown_terms[-1])}"',
            )
        add, times = Fraction(1), Fraction(1)
    elif len(terms) == 2:
        one, two = (kind.format(term) for term in shown_terms[-2:])
        raise WrongValue(
            f'"{one}, {two} .." may go on in steps or in doublings',
            fix='show three terms: "1, 2, 3 .. 8" goes on in steps, "1, 2, 4 .. 8" in doublings',
        )
    else:
        add, times = _find_progression(terms)
    levels: list[Level] = []
    while last < stop:
        last = last * times + add
        if len(levels) > MAX_LEVELS:
            raise _too_many_levels()
        if last.denominator != 1 and isinstance(end, int):
            break
        levels.append(int(last) if last.denominator == 1 else float(last))
    if last != stop:
        below = [level for level in levels if Fraction(str(level)) < stop]
        raise WrongValue(
            f'the range does not meet its end "{kind.format(end)}"',
            fix=f'end it at "{kind.format(below[-1])}"' if below else "write every level instead",
        )
    return iter(levels)


def _find_progression(terms: list[Fraction]) -> tuple[Fraction, Fraction]:
    """What is added and multiplied to get from each of three terms to the next."""
    a, b, c = terms
    if b - a == c - b and c > b:
        return c - b, Fraction(1)
    if a > 0 and b * b == a * c and c > b:
        return Fraction(0), c / b
    raise WrongValue(
        "the three terms before .. show no progression",
        fix='show equal steps or equal factors: "1, 2, 4 .. 64"',
    )


def _example_progression(kind: ValueType, start: Level) -> str:
    if isinstance(start, str) or start <= 0:
        return "1, 2, 4 .. 64"
    terms = ", ".join(kind.format(start * factor) for factor in (1, 2, 4))
    return f"{terms} .. {kind.format(start * 16)}"
