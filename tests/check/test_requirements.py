"""Requirements: expressions, and verdicts on intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.check.examples import MEASUREMENTS, PATH, measurement
from vnetbench.check.ends import parse_path
from vnetbench.check.requirements import judge_requirement, parse_requirement
from vnetbench.errors import BenchError

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("goodput >= 400 Mbit/s", "met"),
        ("goodput >= 470 Mbit/s", "undecided"),
        ("goodput >= 900 Mbit/s", "missed"),
        ("goodput<1 Gbit/s", "met"),
        ("single_stream_goodput > 880 Mbit/s", "met"),
        ("idle_latency <= 250 us", "met"),
        ("idle_latency <= 0.21 ms", "undecided"),
        ("loaded_latency < 3 ms", "missed"),
        ("path_mtu >= 1500 B", "met"),
        ("path_mtu >= 9000 B", "missed"),
        ("packet_rate >= 100 k/s", "undecided"),
    ],
)
def test_the_interval_of_the_worst_direction_decides(text: str, verdict: str) -> None:
    judged = judge_requirement(parse_requirement(text, PATH), MEASUREMENTS, PATH)
    assert judged.verdict == verdict
    assert bool(judged.reason) == (verdict != "met")


def test_a_value_without_an_interval_is_undecided() -> None:
    requirement = parse_requirement("goodput >= 1 Mbit/s", PATH)
    few = measurement("goodput", 9e8, low=None, high=None)
    judged = judge_requirement(requirement, [few], PATH)
    assert judged.verdict == "undecided"
    assert "too few trials" in judged.reason


def test_the_best_number_of_streams_counts() -> None:
    requirement = parse_requirement("goodput >= 800 Mbit/s", PATH)
    two = measurement("goodput", 5e8)
    eight = replace(measurement("goodput", 9e8), label="Goodput, 8 streams")
    assert judge_requirement(requirement, [two, eight], PATH).verdict == "met"
    assert judge_requirement(requirement, [two], PATH).verdict == "missed"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("goodput", "such as 'goodput >= 9 Gbit/s'"),
        ("goodput = 9 Gbit/s", "such as"),
        ("godput >= 9 Gbit/s", 'did you mean "goodput"?'),
        ("goodput >= 9", '"9 Gbit/s"'),
        ("goodput >= 9 ms", "units"),
        ("loss <= -1 %", "zero or more"),
    ],
)
def test_a_wrong_expression_has_a_fix(text: str, fix: str) -> None:
    with pytest.raises(BenchError) as refused:
        parse_requirement(text, PATH)
    assert fix in str(refused.value)


def test_a_value_that_the_ends_cannot_measure_is_refused_before_the_load() -> None:
    with pytest.raises(BenchError, match="cannot measure loss"):
        parse_requirement("loss <= 1 %", parse_path(["iperf3://esx-07"]))
    assert parse_requirement("tcp_round_trip < 1 ms", parse_path(["iperf3://esx-07"])).bound == 1000
