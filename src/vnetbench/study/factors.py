"""The factors that a study may vary: looked up, their levels read and written, their defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.factor import Factor
from vnetbench.study.load_factors import LOAD_FACTORS
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue, suggest
from vnetbench.study.testbed_factors import TESTBED_FACTORS
from vnetbench.study.workloads import STREAM

FACTORS: Mapping[str, Factor] = {factor.name: factor for factor in (*LOAD_FACTORS, *TESTBED_FACTORS)}
"""Every factor by its name, in the order of the reference."""

_COUNTERPARTS: Mapping[str, tuple[str, ...]] = {
    "streams": ("connections",),
    "connections": ("streams",),
    "message_size": ("request_size", "datagram_size"),
    "request_size": ("message_size", "datagram_size"),
    "datagram_size": ("message_size", "request_size"),
}
"""What stands for a factor in other workloads, however unlike the words are."""


def factor_named(name: str) -> Factor:
    """The factor of that name; raises WrongValue with the nearest name."""
    if name in FACTORS:
        return FACTORS[name]
    fix = suggest(name, FACTORS, otherwise=f"factors: {', '.join(FACTORS)}")
    raise WrongValue(f'"{name[:60]}" is not a factor', fix=fix)


def parse_level(name: str, raw: object) -> Level:
    """The canonical level of factor `name` from a raw TOML value or a text; raises a BenchError."""
    return factor_named(name).kind.parse(raw)


def format_level(name: str, level: Level) -> str:
    """A canonical level as a person writes it: "64 KiB", "10 Gbit/s", "9000"; WrongValue for no factor."""
    return factor_named(name).kind.spell(level)


def complete(levels: Mapping[str, Level], workload: str = STREAM) -> dict[str, Level]:
    """The levels of a treatment together with the workload's defaults of the factors that it lacks."""
    return {**_defaults(workload), **levels}


def _defaults(workload: str) -> dict[str, Level]:
    return {
        factor.name: factor.default
        for factor in FACTORS.values()
        if factor.default is not None and workload in factor.workloads
    }


def check_workload(name: str, workload: str) -> None:
    """Raises WrongValue with the nearest factor where factor `name` does not hold for the workload."""
    if workload in FACTORS[name].workloads:
        return
    here = [factor.name for factor in FACTORS.values() if workload in factor.workloads]
    counterpart = next((other for other in _COUNTERPARTS.get(name, ()) if other in here), None)
    fix = (
        f'did you mean "{counterpart}"?'
        if counterpart
        else suggest(name, here, otherwise=f"its factors: {', '.join(here)}")
    )
    raise WrongValue(f"{name} is not a factor of the workload {workload}", fix=fix)
