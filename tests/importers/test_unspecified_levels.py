"""Read results whose logs leave levels unspecified: no stage may take that word for a level."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from vnetbench.cli import cli
from vnetbench.importers.results_writer import write_results
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.study.factors.factor import Factor
from vnetbench.study.factors.registry import FACTORS, parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS

pytestmark = pytest.mark.pure

IMPORTED_WORKLOADS = ("tcp_stream", "tcp_rr", "tcp_crr", "udp_stream")


def example_levels(workload: str) -> dict[str, Level]:
    """Return a level of each factor of the workload that an imported result can have."""
    factors = [each for each in FACTORS.values() if each.has_workload(workload)]
    return {each.name: first_example(each) for each in factors}


def first_example(factor: Factor) -> Level:
    """Return the first level among the examples of a factor."""
    example = tomllib.loads(f"x = {factor.examples[0]}")["x"]
    first = example[0] if isinstance(example, list) else example
    return parse_level(factor.name, first.partition(",")[0] if isinstance(first, str) else first)


def make_run(workload: str, levels: dict[str, Level], number: int) -> Run:
    """Return a run with every deciding metric of its workload and the rates that `explain` compares."""
    load = WORKLOADS[workload]
    names = {*load.deciding_metrics, load.achieved_rate_metric, "goodput_bps"} - {""}
    metrics = {name: RoundedValue.exact(1000.0 + number) for name in names}
    return Run("a tool", "", number, number, workload, levels, metrics, measured_duration_s=1.0)


@pytest.mark.parametrize("workload", IMPORTED_WORKLOADS)
def test_a_factor_that_one_log_has_and_another_lacks_stops_no_command(workload: str, tmp_path: Path) -> None:
    complete = example_levels(workload)
    without_one = [{n: level for n, level in complete.items() if n != each} for each in complete]
    store, path = RunStore(), tmp_path / "a.vnb"
    store.start_log("a.log")
    for number, levels in enumerate((complete, *without_one)):
        store.add_item("a.log", make_run(workload, levels, number + 1))
    imported = write_results(store, workload, path, "unspecified levels")

    assert imported.run_count_by_missing_factor == dict.fromkeys(complete, 1)
    for command in (["show"], ["explain"], ["report", "-o", str(tmp_path / "a.html")]):
        assert not cli.main([command[0], str(path), *command[1:]], standalone_mode=False)
    assert not cli.main(["compare", str(path), str(path)], standalone_mode=False)
