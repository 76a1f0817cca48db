"""Interventions on a real testbed: an unshaped stream needs CPU time, and one behind a shaper has enough."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.quiet import quiet_machine_required
from vnetbench.commands.campaign import run_plan, run_study
from vnetbench.commands.summaries import read_summary_without_experiments
from vnetbench.estimate.experiments import estimate_experiments
from vnetbench.estimate.model import Experiment
from vnetbench.explain.interventions.elasticity import (
    MAX_PLAUSIBLE_ELASTICITY,
    MIDDLE_ELASTICITY,
    experiment_elasticity,
)
from vnetbench.explain.interventions.measured_cpu_ratios import (
    CPU_RESOURCES,
    replace_cpu_ratios_with_measured,
)
from vnetbench.explain.interventions.series import plan_series
from vnetbench.study.file.load import parse_study

STUDY = """
title = "One stream"
[factors]
streams = 1
link_rate = "{link_rate}"
[timing]
duration = "500 ms"
[precision]
max_trials = 6
"""


def measure_cpu_interventions(folder: Path, link_rate: str) -> tuple[list[Experiment], list[Experiment]]:
    """Measure a stream, then take CPU time from its sender and its receiver, in interleaved blocks.

    Returns:
        One experiment for each side with the ratio of CPU time as planned, and both with the measured ratios.
    """
    console = Console(file=io.StringIO(), width=200)
    name = link_rate.replace("/", "-")
    results, proof = folder / f"{name}.vnb", folder / f"{name}.proof.vnb"
    study = parse_study(STUDY.format(link_rate=link_rate), None)
    assert run_study(study, lambda: results, 1, console) == "finished"
    summary = read_summary_without_experiments(results)
    # Without a time accounting, no share of the time keeps the intervention from being planned.
    points = tuple(replace(each, evidence={name: value for name, value in each.evidence.items()
                                           if not name.startswith("time_")})
                   for each in summary.treatments[0].points)  # fmt: skip
    summary = replace(summary, treatments=(replace(summary.treatments[0], points=points),))
    planned = plan_series(summary, (), (0,), has_root=True)
    assert planned is not None
    only_cpu = tuple(each for each in planned.series.interventions if each.resource in CPU_RESOURCES)
    assert len(only_cpu) == 2
    series = replace(planned.series, interventions=only_cpu)
    assert run_plan(planned.study, planned.plan, lambda: proof, console, series) == "finished"
    recorded = read_summary_without_experiments(proof)
    experiments = list(estimate_experiments(recorded))
    return experiments, list(replace_cpu_ratios_with_measured(experiments, recorded))


@pytest.mark.lab
@pytest.mark.usefixtures("real_root")
def test_cpu_time_has_an_elasticity_only_where_no_shaper_limits(tmp_path: Path) -> None:
    # Other programs on the CPUs widen the intervals, and can limit the load more than the shaper does.
    with quiet_machine_required():
        # Behind the shaper, the VMs hardly use their CPUs: the series cannot measure what they could use.
        shaped = [experiment_elasticity(each) for each in measure_cpu_interventions(tmp_path, "1 Gbit/s")[0]]
        shaped_highs = [each.high for each in shaped if each is not None and each.high is not None]
        assert len(shaped_highs) == 2 and max(shaped_highs) < MIDDLE_ELASTICITY, shaped
        # Which side needs more time for its part of the work depends on the machine, as do the intervals of
        # six trials. Of two sides that share the work, they must not rule out both.
        free = [experiment_elasticity(each) for each in measure_cpu_interventions(tmp_path, "none")[1]]
        intervals = [(each.low, each.high) for each in free if each is not None]
        bounded = [(low, high) for low, high in intervals if low is not None and high is not None]
        # An interval as wide as all plausible values would rule out nothing.
        assert any(
            high > MIDDLE_ELASTICITY and high - low < MAX_PLAUSIBLE_ELASTICITY for low, high in bounded
        ), free
        free_values = [each.value for each in free if each is not None]
        shaped_values = [each.value for each in shaped if each is not None]
        assert max(free_values) > max(shaped_values), (shaped, free)
