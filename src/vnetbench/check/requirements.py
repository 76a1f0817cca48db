"""Requirements of a check (`--require`): an expression, judged on the interval of a measurement."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vnetbench.check.ends import CheckedPath
from vnetbench.check.measurements import Measurement
from vnetbench.check.value_text import format_measurement
from vnetbench.errors import BenchError
from vnetbench.quantity import (
    QuantityError,
    parse_bit_rate,
    parse_bytes,
    parse_count_per_s,
    parse_duration,
    parse_share,
)
from vnetbench.study.problems import suggest_fix

Verdict = Literal["met", "missed", "undecided"]
MET: Verdict = "met"
MISSED: Verdict = "missed"
UNDECIDED: Verdict = "undecided"

_PATTERN = re.compile(r"\s*(?P<name>[a-z_0-9]+)\s*(?P<operator><=|>=|<|>)\s*(?P<bound>\S.*?)\s*")
_PARSER_BY_NAME: Mapping[str, Callable[[str], float]] = {
    "goodput": parse_bit_rate,
    "single_stream_goodput": parse_bit_rate,
    "tcp_round_trip": lambda text: 1e6 * parse_duration(text),
    "idle_latency": lambda text: 1e6 * parse_duration(text),
    "loaded_latency": lambda text: 1e6 * parse_duration(text),
    "packet_rate": parse_count_per_s,
    "loss": lambda text: 100 * parse_share(text),
    "path_mtu": parse_bytes,
}
_EXAMPLE = "write a measurement, a comparison and a value with its unit, such as 'goodput >= 9 Gbit/s'"
_NAMES_ONLY_WITH_IPERF3 = ("tcp_round_trip",)
_NAMES_WITH_IPERF3 = ("goodput", "single_stream_goodput", *_NAMES_ONLY_WITH_IPERF3)


@dataclass(frozen=True)
class Requirement:
    """One parsed expression."""

    text: str
    name: str
    """Name of the measurement."""
    operator: str
    bound: float
    """In the unit of the measurement."""


@dataclass(frozen=True)
class JudgedRequirement:
    """A requirement with its verdict."""

    requirement: Requirement
    verdict: Verdict
    reason: str
    """Why it is undecided, or the direction that decides; empty if it is met."""


def parse_requirement(text: str, path: CheckedPath) -> Requirement:
    """Parse an expression such as `goodput >= 9 Gbit/s`.

    Raises:
        BenchError: The expression is wrong, or these ends cannot measure its value.
    """
    match = _PATTERN.fullmatch(text)
    where = f"--require {text!r}"
    if match is None:
        raise BenchError("this is no requirement", where=where, fix=_EXAMPLE)
    name = match["name"]
    if name not in _PARSER_BY_NAME:
        otherwise = f"use one of {', '.join(_PARSER_BY_NAME)}"
        raise BenchError(
            f"no measurement has the name {name}",
            where=where,
            fix=suggest_fix(name, _PARSER_BY_NAME, otherwise=otherwise),
        )
    try:
        bound = _PARSER_BY_NAME[name](match["bound"])
    except QuantityError as error:
        raise BenchError(error.what, where=where, fix=error.fix) from error
    measurable = (
        [each for each in _PARSER_BY_NAME if each not in _NAMES_ONLY_WITH_IPERF3]
        if path.has_both_agents
        else _NAMES_WITH_IPERF3
    )
    if name not in measurable:
        raise BenchError(
            f"these ends cannot measure {name}", where=where, fix=f"use one of {', '.join(measurable)}"
        )
    return Requirement(text.strip(), name, match["operator"], bound)


def judge_requirement(
    requirement: Requirement, measurements: Sequence[Measurement], path: CheckedPath
) -> JudgedRequirement:
    """Judge a requirement on the intervals of all directions.

    Several stream counts give the best value of a direction: `goodput` is that of the best number of streams.
    The requirement is missed if one direction misses it, and met if every direction meets it.
    """
    own = [each for each in measurements if each.name == requirement.name]
    if not own:
        return JudgedRequirement(requirement, UNDECIDED, f"{requirement.name} was not measured")
    best_by_direction: dict[str, Measurement] = {}
    for each in own:
        known = best_by_direction.get(each.direction)
        if known is None or _is_better(requirement, each, known):
            best_by_direction[each.direction] = each
    verdicts = {direction: _judge(requirement, each) for direction, each in best_by_direction.items()}
    for verdict in (MISSED, UNDECIDED):
        for direction, own_verdict in verdicts.items():
            if own_verdict == verdict:
                reason = _reason(best_by_direction[direction], verdict, path)
                return JudgedRequirement(requirement, own_verdict, reason)
    return JudgedRequirement(requirement, MET, "")


def _is_better(requirement: Requirement, new: Measurement, known: Measurement) -> bool:
    return new.value > known.value if requirement.operator.startswith(">") else new.value < known.value


def _judge(requirement: Requirement, measurement: Measurement) -> Verdict:
    """Return the verdict of one measurement; without an interval it is undecided."""
    low, high = measurement.low, measurement.high
    if low is None or high is None:
        return UNDECIDED
    ends = [_holds(requirement, end) for end in (low, high)]
    return MET if all(ends) else UNDECIDED if any(ends) else MISSED


def _holds(requirement: Requirement, value: float) -> bool:
    bound = requirement.bound
    return {
        ">=": value >= bound,
        ">": value > bound,
        "<=": value <= bound,
        "<": value < bound,
    }[requirement.operator]


def _reason(measurement: Measurement, verdict: str, path: CheckedPath) -> str:
    """Return the value that decides, with its direction."""
    value = format_measurement(measurement)
    where = "" if measurement.direction == "none" else f" ({path.direction_name(measurement.direction)})"
    if verdict == UNDECIDED and measurement.low is None:
        return f"measured {value}{where}, too few trials for an interval"
    return f"measured {value}{where}"
