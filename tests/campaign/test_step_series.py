"""Trials with several steps: searches and their results, failed steps, interruptions and resuming."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests.campaign.simulated_frames import SimulatedPorts
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import ImmediateExit, SignalHandler
from vnetbench.campaign.step_runner import StepRunner
from vnetbench.campaign.trial import StepSeries, TrialLoad
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import BURST_STEP, GENERATOR_STEP, LOSS_CURVE_STEP, SEARCH_STEP, StepRecord
from vnetbench.search.interface import SentAndReceivedFrames
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import SearchSpec, Study
from vnetbench.study.plan import make_plan

ONE_TRIAL = "[precision]\nmin_trials = 1\nmax_trials = 1\n"
SEARCH_SECTION = '[search]\nmethod = "rfc2544"\ntrial = "1 s"\nmin_load = "100 frame/s"\n'


def make_study(workload: str = "frames", factors: str = "frame_size = 64", more: str = "") -> Study:
    text = f'title = "x"\nworkload = "{workload}"\n[factors]\n{factors}\n{SEARCH_SECTION}{ONE_TRIAL}{more}'
    return parse_study(text, None)


class Killed(BaseException):
    """Simulates a signal that ends the process at once."""


def run(path: Path, study: Study, ports: SimulatedPorts) -> tuple[CampaignSummary, list[str]]:
    """Run a campaign, or resume it if the file exists; return its summary and messages."""
    plan = make_plan(study, 7)
    file = ResultsFile.open_to_write(path) if path.exists() else ResultsFile.create(path, study, plan)
    messages: list[str] = []
    try:
        campaign = CampaignSession(
            file, study, plan, ports, lambda text, _: messages.append(text), lambda: None
        )
        with SignalHandler() as signal_handler:
            campaign.run(signal_handler)
        return summarize(file), messages
    finally:
        file.close("interrupted")


def test_a_search_finds_a_sharp_limit_and_ends_with_a_run_at_that_load(tmp_path: Path) -> None:
    ports = SimulatedPorts()
    campaign, _ = run(tmp_path / "x.vnb", make_study(), ports)
    (treatment,) = campaign.treatments
    throughput = treatment.metrics["throughput_fps"]
    assert throughput.value == pytest.approx(100_000, rel=0.01)
    assert throughput.is_from_single_search
    assert throughput.low is not None and throughput.high is not None
    assert throughput.low <= 100_000 <= throughput.high
    assert treatment.metrics["throughput_bps"].value == pytest.approx(8 * 64 * throughput.value)
    assert treatment.metrics["forwarding_rate_fps"].value == pytest.approx(throughput.value, rel=0.001)
    assert treatment.metrics["frame_loss_percent"].value == 0
    assert treatment.metrics["delay_p99_us"].value == pytest.approx(20)
    assert "goodput_bps" not in treatment.metrics
    (point,) = treatment.points
    assert [step.purpose for step in point.steps] == [GENERATOR_STEP] + [SEARCH_STEP] * (len(point.steps) - 1)
    assert len(ports.loads) == len(point.steps) + 1
    assert point.search_result["final_load_fps"] == throughput.value


def test_a_killed_search_loses_only_the_running_step(tmp_path: Path) -> None:
    uninterrupted = SimulatedPorts()
    expected, _ = run(tmp_path / "uninterrupted.vnb", make_study(), uninterrupted)
    path = tmp_path / "killed.vnb"

    def kill(number: int) -> None:
        if number == 6:
            raise Killed

    with pytest.raises(Killed):
        run(path, make_study(), SimulatedPorts(before=kill))
    resumed = SimulatedPorts()
    campaign, _ = run(path, make_study(), resumed)
    assert len(resumed.loads) == len(uninterrupted.loads) - 6
    expected_steps, steps = (
        [
            (step.number, step.load_fps, step.duration_s, step.sent, step.received)
            for step in summary.treatments[0].points[0].steps
        ]
        for summary in (expected, campaign)
    )
    assert steps == expected_steps
    metric = "throughput_fps"
    assert campaign.treatments[0].metrics[metric] == expected.treatments[0].metrics[metric]


def test_only_the_failed_step_of_a_search_is_repeated(tmp_path: Path) -> None:
    def fail(number: int) -> None:
        if number == 4:
            raise TrialFailed("an agent died")

    ports = SimulatedPorts(before=fail)
    campaign, messages = run(tmp_path / "x.vnb", make_study(), ports)
    assert messages == ["a trial failed: an agent died"]
    loads = [load.factors["frame_load"] for load in ports.loads[:-1]]
    assert len(set(map(str, loads))) == len(loads) - 1 == len(campaign.treatments[0].points[0].steps)


def test_each_goal_has_its_own_throughput(tmp_path: Path) -> None:
    # The device loses single frames above 80 kframe/s, and 0.4 % of them at the limit.
    device = SimulatedDevice(DeviceModel(100_000.0, early_from=0.8, early_ratio=0.004), 1)
    study = make_study(more="")
    text = study.text.replace("[search]\n", '[search]\nloss = ["0 %", "0.5 %"]\n')
    campaign, _ = run(tmp_path / "x.vnb", parse_study(text, None), SimulatedPorts(device))
    metrics = campaign.treatments[0].metrics
    assert metrics["throughput_fps"].value == pytest.approx(80_000, rel=0.1)
    assert metrics["throughput_goal2_fps"].value == pytest.approx(100_000, rel=0.02)


def test_a_device_without_loss_is_limited_by_the_generator(tmp_path: Path) -> None:
    device = SimulatedDevice(DeviceModel(limit_fps=1e9), 1)
    campaign, _ = run(tmp_path / "x.vnb", make_study(), SimulatedPorts(device))
    (treatment,) = campaign.treatments
    throughput = treatment.metrics["throughput_fps"]
    assert throughput.value == pytest.approx(0.97e6, rel=0.001)
    assert throughput.high is None
    assert any("at least 970 kframe/s" in note for note in treatment.notes)


@dataclass
class SlowingGenerator:
    """A device that forwards every frame, behind a generator that slows down after the first step."""

    sustained_fps: float
    loads_fps: list[float] = field(default_factory=list)

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        self.loads_fps.append(load_fps)
        sent = round(
            (min(load_fps, self.sustained_fps) if len(self.loads_fps) > 1 else load_fps) * duration_s
        )
        return SentAndReceivedFrames(sent, sent)


def test_a_slow_generator_is_reported_as_the_limit(tmp_path: Path) -> None:
    campaign, _ = run(tmp_path / "x.vnb", make_study(), SimulatedPorts(SlowingGenerator(300_000.0)))
    (treatment,) = campaign.treatments
    assert treatment.metrics["throughput_fps"].value == pytest.approx(300_000, rel=0.03)
    (goal_result,) = treatment.points[0].search_result["goal_results"]
    assert goal_result["limited_by"] == "generator"
    assert any("at least" in note for note in treatment.notes)


def test_a_generator_that_misses_the_minimum_load_fails_the_trial(tmp_path: Path) -> None:
    class StarvedGenerator(SlowingGenerator):
        def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
            sent = round(load_fps * duration_s) if load_fps == 1e6 else 5
            return SentAndReceivedFrames(sent, sent)

    campaign, messages = run(tmp_path / "x.vnb", make_study(), SimulatedPorts(StarvedGenerator(50.0)))
    assert campaign.treatments[0].stop_reason == "failed"
    assert all(
        "the generator did not reach the smallest load, 100 frame/s" in message for message in messages
    )
    file = ResultsFile.open_to_read(tmp_path / "x.vnb")
    assert file.steps(0, 0) == ()
    file.close()


def test_a_step_with_a_late_generator_is_repeated(tmp_path: Path) -> None:
    class IrregularGenerator(SlowingGenerator):
        def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
            self.loads_fps.append(load_fps)
            sent = round(load_fps * duration_s / (2 if len(self.loads_fps) % 5 == 0 else 1))
            return SentAndReceivedFrames(sent, min(sent, round(100_000 * duration_s)))

    campaign, _ = run(tmp_path / "x.vnb", make_study(), SimulatedPorts(IrregularGenerator(1e9)))
    (treatment,) = campaign.treatments
    assert treatment.metrics["throughput_fps"].value == pytest.approx(100_000, rel=0.01)
    assert treatment.points[0].goal_results[0].limited_by == "device"


@dataclass
class BlockedDevice:
    """A device that forwards nothing in its first steps."""

    blocked_steps: int = 10**9
    step_count: int = 0

    def measure(self, load_fps: float, duration_s: float) -> SentAndReceivedFrames:
        self.step_count += 1
        sent = round(load_fps * duration_s)
        return SentAndReceivedFrames(
            sent, min(sent, round(100_000 * duration_s)) if self.step_count > self.blocked_steps else 0
        )


def test_two_steps_without_a_received_frame_refuse_the_treatment(tmp_path: Path) -> None:
    ports = SimulatedPorts(BlockedDevice())
    campaign, messages = run(tmp_path / "x.vnb", make_study(), ports)
    assert campaign.treatments[0].stop_reason == "refused"
    assert messages[0].startswith("refused: none of 500050 frames of the load arrived")
    assert [load.factors["frame_load"] for load in ports.loads] == ["max", 100.0]


def test_resuming_measures_a_refused_device_again(tmp_path: Path) -> None:
    path, device = tmp_path / "x.vnb", BlockedDevice(blocked_steps=2)
    run(path, make_study(), SimulatedPorts(device))
    campaign, _ = run(path, make_study(), SimulatedPorts(device))
    assert campaign.treatments[0].metrics["throughput_fps"].value == pytest.approx(100_000, rel=0.02)


def test_a_device_that_loses_frames_at_every_load_has_no_throughput(tmp_path: Path) -> None:
    device = SimulatedDevice(DeviceModel(1e5, early_from=1e-4, early_ratio=0.3, early_power=0.01), 1)
    campaign, _ = run(tmp_path / "x.vnb", make_study(), SimulatedPorts(device))
    assert campaign.treatments[0].metrics["throughput_fps"].value == 0
    assert any(
        "no throughput: it lost more at the lowest load, 100 frame/s" in note
        for note in campaign.treatments[0].notes
    )


def test_a_generator_below_the_minimum_load_is_an_error_with_a_fix(tmp_path: Path) -> None:
    campaign, _ = run(tmp_path / "x.vnb", make_study(), SimulatedPorts(max_fps=90.0))
    (reason,) = campaign.treatments[0].failures
    assert "the generator sends at most 90.0 frame/s" in reason and "search.min_load" in reason


def test_latency_is_measured_at_the_requested_share_of_the_throughput(tmp_path: Path) -> None:
    study = make_study(
        "frame_latency", 'frame_load = ["50 %", "20 kframe/s"]', '[timing]\nduration = "2 s"\n'
    )
    ports = SimulatedPorts()
    campaign, _ = run(tmp_path / "x.vnb", study, ports)
    rates = {t.factors["frame_load"]: t.metrics["forwarding_rate_fps"].value for t in campaign.treatments}
    assert rates["50 %"] == pytest.approx(50_000, rel=0.01)
    assert rates[20_000.0] == pytest.approx(20_000, rel=0.001)
    assert sorted(len(t.points[0].steps) > 0 for t in campaign.treatments) == [False, True]
    assert [load.duration_s for load in ports.loads].count(2.0) == 2


def test_the_loss_curve_ends_after_two_steps_without_loss(tmp_path: Path) -> None:
    ports = SimulatedPorts(max_fps=200_000.0)
    campaign, _ = run(tmp_path / "x.vnb", make_study("frame_loss"), ports)
    (treatment,) = campaign.treatments
    loss_curve = [step for step in treatment.points[0].steps if step.purpose == LOSS_CURVE_STEP]
    loads = [step.load_fps for step in loss_curve]
    assert loads == pytest.approx([194_000 * (1 - 0.05 * n) for n in range(len(loss_curve))])
    assert [step.loss_ratio > 0 for step in loss_curve] == [True] * (len(loss_curve) - 2) + [False, False]
    assert loss_curve[0].loss_ratio == pytest.approx(1 - 100 / 194, abs=0.001)
    assert treatment.metrics["max_forwarding_rate_fps"].value == pytest.approx(100_000, rel=0.001)
    assert treatment.metrics["throughput_fps"].value == loads[-2]


def test_the_longest_burst_fills_the_buffer_of_the_device(tmp_path: Path) -> None:
    # The buffer holds 2000 frames (20 ms at the limit), and the device forwards a tenth of each burst.
    device = SimulatedDevice(DeviceModel(100_000.0, buffer_s=0.02), 1)
    campaign, _ = run(tmp_path / "x.vnb", make_study("back_to_back"), SimulatedPorts(device))
    (treatment,) = campaign.treatments
    longest = treatment.metrics["back_to_back_frames"].value
    assert longest == pytest.approx(2000 / 0.9, rel=0.02)
    assert treatment.metrics["buffer_s"].value == pytest.approx(0.9 * longest / 1e6, rel=0.05)
    assert {step.purpose for step in treatment.points[0].steps} == {GENERATOR_STEP, SEARCH_STEP, BURST_STEP}


def test_a_series_that_differs_from_its_stored_steps_drops_them() -> None:
    new_steps: list[StepRecord] = []
    stored_steps = tuple(
        StepRecord(n, SEARCH_STEP, load, None, 1.0, 0.0, 1.0, 10, 10, {"direction_count": 1})
        for n, load in enumerate((4e3, 2e3, 3e3))
    )
    series = StepSeries(SearchSpec(), 1, lambda: stored_steps, new_steps.append, new_steps.clear)
    ports = SimulatedPorts()
    load = TrialLoad(complete_levels({}, "frames"), 1.0, 0.05, "frames", step_series=series)
    runner = StepRunner(load, series, ports.run_once)
    for load_fps in (4e3, 5e3, 3e3):
        runner.run(SEARCH_STEP, load_fps, 1.0)
    assert [step.load_fps for step in new_steps] == [5e3, 3e3]
    assert [run.factors["frame_load"] for run in ports.loads] == [5e3, 3e3]


def test_an_aborted_search_keeps_its_finished_steps(tmp_path: Path) -> None:
    path = tmp_path / "x.vnb"

    def abort(number: int) -> None:
        if number == 3:
            raise ImmediateExit

    run(path, make_study(), SimulatedPorts(before=abort))
    file = ResultsFile.open_to_read(path)
    assert [step.number for step in file.steps(0, 0)] == [0, 1, 2]
    file.close()


def test_ctrl_c_waits_for_the_running_step_and_not_for_the_search(tmp_path: Path) -> None:
    path = tmp_path / "x.vnb"

    def interrupt(number: int) -> None:
        if number == 3:
            signal.raise_signal(signal.SIGINT)

    ports = SimulatedPorts(before=interrupt)
    campaign, _ = run(path, make_study(), ports)
    assert len(ports.loads) == 4 and campaign.treatments[0].trial_count == 0
    file = ResultsFile.open_to_read(path)
    assert [step.number for step in file.steps(0, 0)] == [0, 1, 2, 3]
    file.close()


def test_a_time_limit_too_short_for_the_searches_is_reported(tmp_path: Path) -> None:
    study = parse_study(make_study().text, None, ["precision.time_limit=5s"])
    _, messages = run(tmp_path / "x.vnb", study, SimulatedPorts())
    assert "so some treatments will have no interval. Searches take about" in messages[0]


def test_the_progress_contains_the_steps_of_the_running_search(tmp_path: Path) -> None:
    study = make_study()
    plan = make_plan(study, 7)
    file = ResultsFile.create(tmp_path / "x.vnb", study, plan)
    updates: list[tuple[int, float]] = []

    def record_progress() -> None:
        updates.append(
            (len(campaign.progress.running_trial_steps), campaign.progress.estimate_remaining()[1])
        )

    campaign = CampaignSession(file, study, plan, SimulatedPorts(), lambda *_: None, record_progress)
    with SignalHandler() as signal_handler:
        campaign.run(signal_handler)
    file.close()
    assert [step_count for step_count, _ in updates[:-1]] == list(range(1, len(updates)))
    assert all(remaining_s >= 0 for _, remaining_s in updates)


def test_a_refused_step_ends_the_treatment(tmp_path: Path) -> None:
    def refuse(number: int) -> None:
        raise TreatmentRefused("the port is down", where="a1", fix="set it up")

    campaign, messages = run(tmp_path / "x.vnb", make_study(), SimulatedPorts(before=refuse))
    assert campaign.treatments[0].stop_reason == "refused" and "the port is down" in messages[0]
