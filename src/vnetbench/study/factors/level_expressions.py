"""Level expressions: one value, a list, a range "1..16", or a progression "1, 2, 4 .. 64"."""

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
"""Maximum levels of one factor; more are a typing error such as "1..65535"."""

MAX_EXPRESSION_CHARACTERS = 10_000
"""Maximum length of one expression."""


@dataclass(frozen=True)
class ParsedLevels:
    """Valid levels of an expression, and the errors of the others.

    The first entry of each pair is the position in the TOML list; None outside of a list.
    """

    levels_with_positions: tuple[tuple[int | None, Level], ...]
    errors_with_positions: tuple[tuple[int | None, BenchError], ...]


def parse_levels(value_type: ValueType, raw: object) -> ParsedLevels:
    """Return the canonical levels of a raw TOML value in order, with all errors; raises nothing."""
    levels: list[tuple[int | None, Level]] = []
    problems: list[tuple[int | None, BenchError]] = []
    if isinstance(raw, list):
        items: list[tuple[int | None, object]] = list(enumerate(raw[: MAX_LEVELS + 1]))
    else:
        items = [(None, raw)]
    for position, item in items:
        try:
            levels += [(position, level) for level in _parse_item(value_type, item)]
        except BenchError as error:
            problems.append((position, error))
        if len(levels) > MAX_LEVELS:
            break
    if not levels and not problems:
        problems.append((None, WrongValue("no level is given", fix=f"write {value_type.expected_form}")))
    if len(levels) > MAX_LEVELS:
        problems.append((None, _too_many_levels_error()))
    return ParsedLevels(tuple(levels[:MAX_LEVELS]), tuple(problems))


def _too_many_levels_error() -> WrongValue:
    return WrongValue(f"more than {MAX_LEVELS} levels", fix="name fewer levels, such as 1, 2, 4 .. 64")


def _parse_item(value_type: ValueType, raw: object) -> list[Level]:
    if not isinstance(raw, str) or len(raw) > MAX_EXPRESSION_CHARACTERS:
        if isinstance(raw, str):
            raise WrongValue(f"{len(raw)} characters are too many", fix=f"write {value_type.expected_form}")
        return [value_type.parse(raw)]
    if value_type.is_free_text:
        return [value_type.parse(raw)]
    if value_type.has_commas:
        return [value_type.parse(part) for part in _split_cpu_levels(raw)]
    if not raw.strip():
        raise WrongValue("no level is given", fix=f"write {value_type.expected_form}")
    terms: list[Level] = []
    # A progression continues only the terms that are written after the previous progression.
    begin = 0
    for part in raw.split(","):
        if not part.strip():
            raise WrongValue(
                f"{format_raw_value(raw)} has a comma without a level next to it",
                fix="remove the comma, or write a level next to it",
            )
        first, dots, last = part.partition("..")
        if not dots:
            terms.append(value_type.parse(part))
            continue
        if ".." in last or last.startswith(".") or not first.strip() or not last.strip():
            raise WrongValue(
                f"{format_raw_value(part.strip())} is not a range", fix='write both ends, such as "1..16"'
            )
        terms.append(value_type.parse(first))
        terms += _continue_progression(value_type, terms[begin:], value_type.parse(last))
        begin = len(terms)
        if begin > MAX_LEVELS:
            raise _too_many_levels_error()
    return terms


def _split_cpu_levels(raw: str) -> list[str]:
    """Split CPU levels: "own, apart" are two, "0,2" is one, and a mixture must be a TOML list."""
    parts = raw.split(",")
    has_letters = [bool(re.search(r"[a-z]", part)) for part in parts]
    if all(has_letters):
        return parts
    if any(has_letters):
        raise WrongValue(
            f"{format_raw_value(raw)} mixes keywords and CPU lists",
            fix='write a TOML list, such as ["own", "0,2"]',
        )
    return [raw]


def _continue_progression(value_type: ValueType, first_terms: list[Level], end: Level) -> Iterator[Level]:
    """Return the levels after the last of `first_terms`, up to and including `end`."""
    if isinstance(end, str) or any(isinstance(term, str) for term in first_terms[-3:]):
        raise WrongValue("a range needs a number at both ends", fix="write every level, separated by commas")
    terms = [Fraction(str(term)) for term in first_terms[-3:]]
    last, stop = terms[-1], Fraction(str(end))
    if stop <= last:
        first, second = value_type.format(first_terms[-1]), value_type.format(end)
        raise WrongValue(
            f'a range from "{first}" to "{second}" goes down', fix="write the smaller number first"
        )
    if len(terms) == 1:
        if not value_type.is_integer:
            raise WrongValue(
                "a range of quantities needs its first three terms",
                fix="write three terms first, such as "
                f'"{_format_example_terms(value_type, first_terms[-1])}"',
            )
        add, times = Fraction(1), Fraction(1)
    elif len(terms) == 2:
        one, two = (value_type.format(term) for term in first_terms[-2:])
        raise WrongValue(
            f'"{one}, {two} .." is ambiguous',
            fix='write three terms: "1, 2, 3 .. 8" adds 1 to each term, "1, 2, 4 .. 8" doubles it',
        )
    else:
        add, times = _find_increment_and_multiplier(terms)
    levels: list[Level] = []
    while last < stop:
        last = last * times + add
        if len(levels) > MAX_LEVELS:
            raise _too_many_levels_error()
        if last.denominator != 1 and isinstance(end, int):
            break
        levels.append(int(last) if last.denominator == 1 else float(last))
    if last != stop:
        below = [level for level in levels if Fraction(str(level)) < stop]
        raise WrongValue(
            f'the range does not reach its end "{value_type.format(end)}"',
            fix=f'end the range at "{value_type.format(below[-1])}"'
            if below
            else "write every level instead",
        )
    return iter(levels)


def _find_increment_and_multiplier(terms: list[Fraction]) -> tuple[Fraction, Fraction]:
    """Return the increment and the factor that lead from each of three terms to the next."""
    a, b, c = terms
    if b - a == c - b and c > b:
        return c - b, Fraction(1)
    if a > 0 and b * b == a * c and c > b:
        return Fraction(0), c / b
    raise WrongValue(
        "the three terms before .. are not a progression",
        fix='write terms with equal differences or equal ratios, such as "1, 2, 4 .. 64"',
    )


def _format_example_terms(value_type: ValueType, start: Level) -> str:
    if isinstance(start, str) or start <= 0:
        return "1, 2, 4 .. 64"
    terms = ", ".join(value_type.format(start * factor) for factor in (1, 2, 4))
    return f"{terms} .. {value_type.format(start * 16)}"
