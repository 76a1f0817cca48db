"""Interventions on a real testbed: CPU time limits an unshaped stream, and not one behind a shaper."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from vnetbench.commands.campaign import run_plan, run_study
from vnetbench.commands.summaries import read_summary_without_experiments
from vnetbench.estimate.experiments import estimate_experiments
from vnetbench.estimate.model import Experiment
from vnetbench.explain.interventions.elasticity import (
    MIDDLE_ELASTICITY,
    Elasticity,
    experiment_elasticity,
)
from vnetbench.explain.interventions.measured_cpu_ratios import with_measured_cpu_ratios
from vnetbench.explain.interventions.series import plan_series
from vnetbench.study.file.load import parse_study

MAX_INTERVAL_WIDTH = 1.0
"""An elasticity with a wider interval cannot tell a resource that limits (1) from one that does not (0)."""
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


def measure_cpu_intervention(folder: Path, link_rate: str) -> Experiment:
    """Measure a stream, then take CPU time from its sender, in up to eleven interleaved blocks."""
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
    only_cpu = tuple(each for each in planned.series.interventions if each.resource == "sender_cpu_time")
    series = replace(planned.series, interventions=only_cpu)
    assert run_plan(planned.study, planned.plan, lambda: proof, console, series) == "finished"
    recorded = read_summary_without_experiments(proof)
    (experiment,) = with_measured_cpu_ratios(estimate_experiments(recorded), recorded)
    return experiment


def elasticity_of(experiment: Experiment) -> Elasticity:
    elasticity = experiment_elasticity(experiment)
    assert elasticity is not None, experiment
    return elasticity


@pytest.mark.lab
@pytest.mark.usefixtures("real_root")
def test_cpu_time_has_an_elasticity_only_where_no_shaper_limits(tmp_path: Path) -> None:
    shaped = elasticity_of(measure_cpu_intervention(tmp_path, "1 Gbit/s"))
    free = elasticity_of(measure_cpu_intervention(tmp_path, "none"))
    assert shaped.high is not None and shaped.high < MIDDLE_ELASTICITY, shaped
    assert free.low is not None and free.high is not None
    if free.high - free.low > MAX_INTERVAL_WIDTH:
        pytest.skip(
            f"other programs use this machine's CPUs: an interval of {free.low:.1f} to {free.high:.1f}"
        )
    assert free.value > MIDDLE_ELASTICITY and free.low > shaped.value, (shaped, free)
