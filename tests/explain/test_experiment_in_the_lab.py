"""Experiments in the lab confirm or refute candidate causes."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests import fixtures
from tests.report.explanations import RECEIVER
from vnetbench.commands import proof
from vnetbench.commands.summaries import (
    proof_file_path,
    read_summary_with_experiments,
    read_summary_without_experiments,
)
from vnetbench.explain.interventions import series
from vnetbench.explain.interventions.planner import analysis_block_counts
from vnetbench.explain.model import CandidateCause, Explanation, Finding
from vnetbench.study.factors.registry import parse_level
from vnetbench.study.model import Level


@pytest.mark.lab
def test_an_experiment_confirms_a_shaper_and_refutes_a_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = fixtures.make_study(
        fixtures.STUDY_TEXT.replace("streams = [1, 4]", 'streams = 1\nlink_rate = "50 Mbit/s"')
    )
    results = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(results, study)
    for block in range(6):
        file.add_trial(fixtures.make_trial(0, block), block)
    file.close("finished")
    settings: dict[str, dict[str, Level]] = {
        "link_full": {"link_rate": "none"},
        "send_buffer": {"socket_buffer": parse_level("socket_buffer", "1 MiB")},
    }
    candidates = tuple(
        CandidateCause(replace(RECEIVER, name=name, experiment_levels=setting), 0.9, "likely", ())
        for name, setting in settings.items()
    )
    finding = Finding("limit", "", (0,), candidates, details={"representative": 0})
    # On a busy machine, the limit of a series leaves time for fewer trials than an analysis needs.
    monkeypatch.setattr(series, "MAX_SERIES_DURATION_S", 600.0)
    monkeypatch.setattr(proof, "explain", lambda _: Explanation((), (finding,)))

    out = io.StringIO()
    assert (
        proof.run_proof(results, read_summary_with_experiments(results), (), Console(file=out, width=200))
        == "finished"
    )
    assert "Comparing link rate none, 1 MiB socket buffer, " in out.getvalue()
    recorded = read_summary_without_experiments(proof_file_path(results))
    first_analysis, _ = analysis_block_counts(recorded.required_precision.confidence)
    assert all(each.trial_count >= first_analysis for each in recorded.treatments[:3])

    shaper, buffer, *_ = read_summary_with_experiments(results).experiments
    assert (
        shaper.changed_levels == {"link_rate": "none"}
        and shaper.ratio.low is not None
        and shaper.ratio.low > 2
    )
    assert buffer.ratio.high is not None and buffer.ratio.high < 2

    # A second call does not run it again.
    assert (
        proof.run_proof(results, read_summary_with_experiments(results), (), Console(file=out, width=200))
        == "finished"
    )
    assert "already has the proof" in out.getvalue()
