"""Paths, measurements, limits and results for the tests of a check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vnetbench.audit.settings import SettingsAudit
from vnetbench.check.ends import parse_path
from vnetbench.check.limits import PathLimit
from vnetbench.check.measurements import Measurement, MissingMeasurement
from vnetbench.check.requirements import judge_requirement, parse_requirement
from vnetbench.check.result import CheckResult
from vnetbench.check.verdict import build_verdict

PATH = parse_path(["web-01", "db-01"])
LINK_FULL = PathLimit(
    cause="link_full",
    description="a link or shaper on the path is full",
    confidence="very likely",
    prevents_measurement=False,
    is_fault=True,
    part="goodput",
    slowdown=1.0,
    treatment_count=4,
    measured_treatment_count=4,
    evidence="All 4 treatments: 11 ms of backlog (very likely).",
    advice="Raise the rate.",
    fix_command="tc -s qdisc show",
    can_be_tested=True,
)


def measurement(name: str, value: float, **fields: Any) -> Measurement:
    """Return a measurement with an interval of ± 1 %, unless the fields say otherwise."""
    units = {"path_mtu": "B", "loss": "%", "packet_rate": "1/s"}
    unit = units.get(name, "bit/s" if "goodput" in name else "µs")
    made = Measurement(name, name, "forward", value, 0.99 * value, 1.01 * value, unit, 7, "")
    return replace(made, **fields)


MEASUREMENTS = (
    measurement("single_stream_goodput", 9e8, label="Goodput, 1 stream"),
    measurement("goodput", 9.41e8, label="Goodput, 4 streams"),
    measurement("goodput", 4.7e8, label="Goodput, 4 streams", direction="reverse"),
    measurement("idle_latency", 210.0, label="Idle latency, median", direction="none"),
    measurement("loaded_latency", 3400.0, label="Loaded latency, 99 %"),
    measurement("path_mtu", 1500, label="Path MTU", direction="none", low=1500, high=1500),
)


def make_result(**fields: Any) -> CheckResult:
    """Return the result of a normal check of PATH."""
    result = CheckResult(
        path=PATH,
        depth="normal",
        max_rate_bps=None,
        is_complete=True,
        verdict=build_verdict(PATH, MEASUREMENTS, [LINK_FULL]),
        limits=(LINK_FULL,),
        audit=SettingsAudit(None, {"db-01": "The settings of db-01 were not audited."}),
        measurements=MEASUREMENTS,
        missing=(MissingMeasurement("Packet rate, 64 B", "the part of the check did not finish"),),
        requirements=(
            judge_requirement(parse_requirement("goodput >= 500 Mbit/s", PATH), MEASUREMENTS, PATH),
        ),
        results_files={"goodput": "web.vnb", "latency": "web.latency.vnb"},
    )
    return replace(result, **fields)
