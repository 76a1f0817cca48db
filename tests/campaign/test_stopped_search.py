"""A search that is stopped or killed: its steps give the throughput so far, and `resume` continues it."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests import fixtures
from tests.campaign.simulated_frames import SimulatedPorts
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import ImmediateExit, SignalHandler
from vnetbench.commands.throughput import DEFAULT_STUDY_TOML
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.tables.throughput_table import throughput_table
from vnetbench.report.text.answer import answer_question
from vnetbench.results.file import ResultsFile
from vnetbench.search.methods import SEARCH_BY_METHOD
from vnetbench.study.file.load import parse_study
from vnetbench.study.plan import make_plan

LIMIT_FPS = 100_000.0
STOPS: dict[str, Callable[[], object]] = {
    "Ctrl-C": lambda: signal.raise_signal(signal.SIGINT),
    "second Ctrl-C": lambda: raise_(ImmediateExit()),
    "kill": lambda: raise_(KeyboardInterrupt()),
}


def raise_(error: BaseException) -> None:
    raise error


def run(
    path: Path, *overrides: str, stop: Callable[[], object] = lambda: None, before_step: int = 10**9
) -> CampaignSummary:
    """Run or resume a default search that stops before the step of this number; return its summary."""
    study = parse_study(DEFAULT_STUDY_TOML, None, overrides)
    plan = make_plan(study, 7)
    file = ResultsFile.open_to_write(path) if path.exists() else ResultsFile.create(path, study, plan)

    def stop_before(number: int) -> None:
        if number == before_step:
            stop()

    ports = SimulatedPorts(
        SimulatedDevice(DeviceModel(LIMIT_FPS, noise=0.003), 1),
        before=stop_before,
    )
    try:
        campaign = CampaignSession(file, study, plan, ports, lambda *_: None, lambda: None)
        with SignalHandler() as signal_handler:
            campaign.run(signal_handler)
    except KeyboardInterrupt:
        pass
    finally:
        file.close("interrupted")
    return fixtures.read_summary(path)


def format_table(summary: CampaignSummary) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(throughput_table(summary))
    return console.export_text()


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("method", SEARCH_BY_METHOD)
def test_a_stopped_search_has_a_throughput_with_its_range(tmp_path: Path, method: str, stop: str) -> None:
    summary = run(tmp_path / "r.vnb", f"search.method={method}", stop=STOPS[stop], before_step=6)

    (treatment,) = summary.treatments
    assert treatment.stop_reason == "interrupted" and treatment.trial_count == 0
    estimate = treatment.metrics["throughput_fps"]
    assert estimate.low is not None and estimate.high is not None
    assert estimate.low <= LIMIT_FPS <= estimate.high and estimate.low < estimate.high < 2e6
    assert any("the throughput so far is between" in note for note in treatment.notes)


def test_the_range_of_a_stopped_search_is_shown_in_every_output(tmp_path: Path) -> None:
    summary = run(tmp_path / "r.vnb", stop=STOPS["Ctrl-C"], before_step=12)
    estimate = summary.treatments[0].metrics["throughput_fps"]

    text = format_table(summary)
    assert "stopped early" in text and "kframe/s" in text and "(95 %)" in text
    assert "between" in text and "with 95 % confidence" in text
    document = json.loads(campaign_json(summary))
    (fields,) = document["treatments"]
    assert fields["metrics"]["throughput_fps"]["low"] == estimate.low
    (goal_result,) = fields["stopped_search"]["goal_results"]
    assert (goal_result["low_fps"], goal_result["high_fps"]) == (estimate.low, estimate.high)
    assert "kframe/s" in " ".join(answer_question(summary).sentences)


def test_more_steps_of_a_resumed_search_narrow_the_range_until_it_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    few = run(path, stop=STOPS["kill"], before_step=5).treatments[0].metrics["throughput_fps"]
    many = run(path, stop=STOPS["kill"], before_step=12).treatments[0].metrics["throughput_fps"]
    (finished,) = run(path).treatments

    assert few.low and few.high and many.low and many.high
    assert many.high / many.low < few.high / few.low
    assert finished.trial_count == 1 and not finished.stopped_search_result


def test_a_search_that_is_stopped_before_its_first_step_has_no_throughput(tmp_path: Path) -> None:
    (treatment,) = run(tmp_path / "r.vnb", stop=STOPS["kill"], before_step=1).treatments

    assert "throughput_fps" not in treatment.metrics and not treatment.stopped_search_result


def test_the_default_time_limit_includes_the_time_beside_the_load(tmp_path: Path) -> None:
    summary = run(tmp_path / "r.vnb", "search.width=0.2 %")

    (point,) = summary.treatments[0].points
    assert point.search_result["parameters"]["time_limit_s"] == 60
    assert sum(step.duration_s + 0.1 for step in point.steps if step.purpose == "search") <= 60
