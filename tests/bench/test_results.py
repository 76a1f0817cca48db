"""Results of comparisons as Markdown and JSON."""

from __future__ import annotations

import json
from pathlib import Path

from bench.comparison import Aim, ComparisonResult, CompetitorResult, Measure
from bench.machine import Machine
from bench.results import format_markdown, save_results

MACHINE = Machine({"CPU": "made up, 4 CPUs"}, "20261121-1200-made-up-4-cpus")
RESULT = ComparisonResult(
    "goodput-1",
    "TCP goodput, 1 stream",
    (Measure("Gbit/s", 1, aim=Aim(1.3)), Measure("cycles/byte", 2, higher_is_better=False)),
    7,
    (
        CompetitorResult("vnetbench", "", True, {"Gbit/s": (30.0,) * 7, "cycles/byte": (0.5,) * 7}),
        CompetitorResult(
            "iperf3 3.12", "-l 1M", False, {"Gbit/s": (20.0,) * 6 + (25.0,), "cycles/byte": (1.0,) * 7}
        ),
        CompetitorResult(
            "neper 1.1.0",
            "-B 64",
            False,
            {"Gbit/s": (1.0,) * 7, "cycles/byte": (1.0,) * 7},
            exclusion="too slow",
        ),
    ),
    {"iperf3 3.12": {"-l 1M": ({"Gbit/s": 20.0},)}},
    ("nuttcp 6.1.2 -l64: timeout",),
)


def test_the_page_contains_every_value_with_its_range_and_the_verdict() -> None:
    page = format_markdown(MACHINE, [RESULT], ["netperf is not installed"], 1)
    assert "| iperf3 3.12 -l 1M | 20.0 (20.0 to 25.0) | 1.00 (1.00 to 1.00) | 1.50 [1.42 to 1.50] |" in page
    assert "| neper 1.1.0 -B 64 | 1.0 (1.0 to 1.0) | 1.00 (1.00 to 1.00) | too slow |" in page
    assert "at least 1.3 × the best peer | 1.50 [1.42 to 1.50] | iperf3 3.12 |" in page
    for text in ("made up, 4 CPUs", "netperf is not installed", "nuttcp 6.1.2 -l64: timeout"):
        assert text in page


def test_the_values_of_every_run_are_stored_as_json(tmp_path: Path) -> None:
    path = save_results(tmp_path / "results", MACHINE, [RESULT], [], 1)
    assert path.name == "20261121-1200-made-up-4-cpus.md"
    document = json.loads(path.with_suffix(".json").read_text())
    assert document["rows"][0]["results"][1]["values"]["Gbit/s"] == [20.0] * 6 + [25.0]
    assert document["rows"][0]["calibration"]["iperf3 3.12"]["-l 1M"] == [{"Gbit/s": 20.0}]
