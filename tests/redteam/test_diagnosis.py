"""Scores of red-team runs with interventions."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.redteam import diagnosis, effects, runner
from bench.redteam.model import Label
from tests.redteam.test_scoring import LABEL

# Names `sender_cpu` without a file of interventions, and refutes it with one.
EXPLAIN = """
import json, pathlib, sys
path = pathlib.Path(sys.argv[2])
def candidate(cause, confidence, verdict):
    fields = {"cause": cause, "confidence": confidence, "is_fault": cause == "link_full"}
    return fields | {"experiment_result": verdict and {"verdict": verdict}}
if path.with_name(path.stem + ".proof.vnb").exists():
    candidates = [candidate("link_full", "confirmed", None), candidate("sender_cpu", "refuted", "refuted")]
else:
    candidates = [candidate("sender_cpu", "very likely", None), candidate("link_full", "likely", None)]
print(json.dumps({"findings": [{"candidates": candidates}]}))
"""


def _store_run(folder: Path, name: str, has_interventions: bool) -> Label:
    (folder / f"{name}.vnb").write_text("results")
    if has_interventions:
        (folder / f"{name}.proof.vnb").write_text("interventions")
    return replace(LABEL, results=f"{name}.vnb", is_diagnosed=True, effect=effects.EFFECT)


def test_a_diagnosed_run_is_scored_without_and_with_its_interventions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "VNETBENCH", (sys.executable, "-c", EXPLAIN))
    labels = [_store_run(tmp_path, "one", True), _store_run(tmp_path, "two", False)]
    runs = diagnosis.judge_runs(tmp_path, labels)
    assert [run.counters_only.is_confidently_wrong for run in runs] == [True, True]
    assert [run.with_interventions.is_right for run in runs] == [True, False]
    assert [run.counters_advice for run in runs] == [diagnosis.REFUTED, diagnosis.NOT_TRIED]
    assert [run.final_advice for run in runs] == [diagnosis.CONFIRMED, diagnosis.NOT_TRIED]
    lines = list(diagnosis.format_diagnosis(runs, with_details=False))
    assert "Runs with interventions: 1 of 2" in lines
    (advice,) = (line for line in lines if line.startswith("Advice of the counters"))
    assert advice.endswith("the interventions decide 1 of 2 runs")
    misleading = [line for line in lines if "misleading, of all runs" in line]
    assert ["(1 of 2)" in misleading[0], "(0 of 2)" in misleading[1]] == [True, True]


@pytest.mark.parametrize(
    ("candidates", "verdict"),
    [
        ([("very likely", "refuted")], diagnosis.REFUTED),
        ([("confirmed", "refuted")], diagnosis.REFUTED),
        ([("confirmed", None)], diagnosis.CONFIRMED),
        ([("likely", "inconclusive")], diagnosis.UNDECIDED),
        ([("refuted", "inconclusive")], diagnosis.REFUTED),
        ([("likely", None)], diagnosis.NOT_TRIED),
        ([], diagnosis.NOT_TRIED),
    ],
)
def test_the_trial_of_the_advice_decides_before_the_confidence(
    candidates: list[tuple[str, str | None]], verdict: str
) -> None:
    def fields(confidence: str, result: str | None) -> dict[str, Any]:
        return {
            "cause": "sender_cpu",
            "confidence": confidence,
            "experiment_result": None if result is None else {"verdict": result},
        }

    explained = {"findings": [{"candidates": [fields(*each) for each in candidates]}]}
    assert diagnosis.verdict_on(explained, "sender_cpu") == verdict
    assert diagnosis.verdict_on(explained, "another_cause") == diagnosis.NOT_TRIED


def test_an_unreadable_diagnosed_run_is_not_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "VNETBENCH", (sys.executable, "-c", "raise SystemExit('a defect')"))
    (run,) = diagnosis.judge_runs(tmp_path, [_store_run(tmp_path, "one", True)])
    assert not run.counters_only.is_scored_fault
    assert "a defect" in run.with_interventions.read_error
