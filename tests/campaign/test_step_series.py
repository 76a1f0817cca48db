"""Trials that are a series of steps: searches that find, that are kept, killed and resumed."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.simulated_devices import DeviceModel, SimulatedDevice
from tests.campaign.simulated_frames import SimulatedPorts
from vnetbench.campaign.interrupts import ImmediateExit, Interrupts
from vnetbench.campaign.run import Campaign
from vnetbench.campaign.step_runner import StepRunner
from vnetbench.campaign.trial import StepSeries, TrialLoad
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import BURST_STEP, GENERATOR_STEP, LOSS_CURVE_STEP, SEARCH_STEP, StepRecord
from vnetbench.search.interface import FrameCount
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import SearchSpec, Study
from vnetbench.study.plan import make_plan

ONE_TRIAL = "[precision]\nfewest_trials = 1\nmost_trials = 1\n"
BY_HALVING = '[search]\nmethod = "rfc2544"\ntrial = "1 s"\nleast_load = "100 frame/s"\n'


def study_of(workload: str = "frames", factors: str = "frame_size = 64", more: str = "") -> Study:
    text = f'title = "x"\nworkload = "{workload}"\n[factors]\n{factors}\n{BY_HALVING}{ONE_TRIAL}{more}'
    return parse_study(text, None)


class Killed(BaseException):
    """Stands for a signal that nothing can be done about."""


def run(path: Path, study: Study, ports: SimulatedPorts) -> tuple[CampaignSummary, list[str]]:
    """Run a campaign, or resume it if the file exists; return its summary and messages."""
    plan = make_plan(study, 7)
    file = ResultsFile.open_to_write(path) if path.exists() else ResultsFile.create(path, study, plan)
    said: list[str] = []
    try:
        campaign = Campaign(file, study, plan, ports, lambda text, _: said.append(text), lambda: None)
        with Interrupts() as interrupts:
            campaign.run(interrupts)
        return summarize(file), said
    finally:
        file.close("interrupted")


def test_a_search_finds_the_limit_of_a_sharp_device_and_ends_with_a_run_at_it(tmp_path: Path) -> None:
    ports = SimulatedPorts()
    found, _ = run(tmp_path / "x.vnb", study_of(), ports)
    (treatment,) = found.treatments
    throughput = treatment.metrics["throughput_fps"]
    assert throughput.value == pytest.approx(100_000, rel=0.01)
    assert throughput.is_single_search
    assert throughput.low is not None and throughput.high is not None
    assert throughput.low <= 100_000 <= throughput.high
    assert treatment.metrics["throughput_bps"].value == pytest.approx(8 * 64 * throughput.value)
    assert treatment.metrics["forwarding_rate_fps"].value == pytest.approx(throughput.value, rel=0.001)
    assert treatment.metrics["frame_loss_percent"].value == 0
    assert treatment.metrics["delay_p99_us"].value == pytest.approx(20)
    assert "goodput_bps" not in treatment.metrics
    (point,) = treatment.points
    assert [step.purpose for step in point.steps] == [GENERATOR_STEP] + [SEARCH_STEP] * (len(point.steps) - 1)
    assert len(ports.asked) == len(point.steps) + 1
    assert point.search["final_load_fps"] == throughput.value


def test_a_search_that_is_killed_costs_the_step_in_flight(tmp_path: Path) -> None:
    whole = SimulatedPorts()
    expected, _ = run(tmp_path / "whole.vnb", study_of(), whole)
    path = tmp_path / "killed.vnb"

    def kill(number: int) -> None:
        if number == 6:
            raise Killed

    with pytest.raises(Killed):
        run(path, study_of(), SimulatedPorts(before=kill))
    after = SimulatedPorts()
    found, _ = run(path, study_of(), after)
    assert len(after.asked) == len(whole.asked) - 6
    (step, _), (kept, _) = ((s.treatments[0].points[0].steps, s) for s in (expected, found))
    asked = [
        [(s.number, s.load_fps, s.duration_s, s.sent, s.received) for s in steps] for steps in (step, kept)
    ]
    assert asked[0] == asked[1]
    value = "throughput_fps"
    assert found.treatments[0].metrics[value] == expected.treatments[0].metrics[value]


def test_a_step_that_fails_is_tried_again_and_those_before_it_are_not(tmp_path: Path) -> None:
    def fail(number: int) -> None:
        if number == 4:
            raise TrialFailed("an agent died")

    ports = SimulatedPorts(before=fail)
    found, said = run(tmp_path / "x.vnb", study_of(), ports)
    assert said == ["a trial failed: an agent died"]
    loads = [load.factors["frame_load"] for load in ports.asked[:-1]]
    assert len(set(map(str, loads))) == len(loads) - 1 == len(found.treatments[0].points[0].steps)


def test_each_goal_has_its_throughput_and_the_first_decides(tmp_path: Path) -> None:
    # Above 80 kframe/s single frames are lost, up to 0.4 % at the limit.
    device = SimulatedDevice(DeviceModel(100_000.0, early_from=0.8, early_ratio=0.004), 1)
    study = study_of(more="")
    text = study.text.replace("[search]\n", '[search]\nloss = ["0 %", "0.5 %"]\n')
    found, _ = run(tmp_path / "x.vnb", parse_study(text, None), SimulatedPorts(device))
    metrics = found.treatments[0].metrics
    assert metrics["throughput_fps"].value == pytest.approx(80_000, rel=0.1)
    assert metrics["throughput_goal2_fps"].value == pytest.approx(100_000, rel=0.02)


def test_a_device_that_loses_nothing_is_limited_by_the_generator(tmp_path: Path) -> None:
    device = SimulatedDevice(DeviceModel(limit_fps=1e9), 1)
    found, _ = run(tmp_path / "x.vnb", study_of(), SimulatedPorts(device))
    (treatment,) = found.treatments
    throughput = treatment.metrics["throughput_fps"]
    assert throughput.value == pytest.approx(0.97e6, rel=0.001)
    assert throughput.high is None
    assert any("at least 970 kframe/s" in note for note in treatment.notes)


@dataclass
class Tiring:
    """A device that forwards all, behind a generator that cannot hold more than so much for long."""

    holds_fps: float
    asked: list[float] = field(default_factory=list)

    def measure(self, load_fps: float, duration_s: float) -> FrameCount:
        self.asked.append(load_fps)
        sent = round((min(load_fps, self.holds_fps) if len(self.asked) > 1 else load_fps) * duration_s)
        return FrameCount(sent, sent)


def test_a_generator_that_falls_behind_is_not_taken_for_the_device(tmp_path: Path) -> None:
    found, _ = run(tmp_path / "x.vnb", study_of(), SimulatedPorts(Tiring(300_000.0)))
    (treatment,) = found.treatments
    assert treatment.metrics["throughput_fps"].value == pytest.approx(300_000, rel=0.03)
    (answer,) = treatment.points[0].search["goal_results"]
    assert answer["limited_by"] == "generator"
    assert any("at least" in note for note in treatment.notes)


def test_a_machine_too_busy_for_the_least_load_is_not_taken_for_a_device_that_passes_nothing(
    tmp_path: Path,
) -> None:
    class Starved(Tiring):
        def measure(self, load_fps: float, duration_s: float) -> FrameCount:
            sent = round(load_fps * duration_s) if load_fps == 1e6 else 5
            return FrameCount(sent, sent)

    found, said = run(tmp_path / "x.vnb", study_of(), SimulatedPorts(Starved(50.0)))
    assert found.treatments[0].stopped_by == "failed"
    assert all("the generator did not reach even 100 frame/s" in each for each in said)
    file = ResultsFile.open_to_read(tmp_path / "x.vnb")
    assert file.steps(0, 0) == ()
    file.close()


def test_a_step_that_the_generator_fell_behind_in_is_tried_again(tmp_path: Path) -> None:
    class Stumbling(Tiring):
        def measure(self, load_fps: float, duration_s: float) -> FrameCount:
            self.asked.append(load_fps)
            sent = round(load_fps * duration_s / (2 if len(self.asked) % 5 == 0 else 1))
            return FrameCount(sent, min(sent, round(100_000 * duration_s)))

    found, _ = run(tmp_path / "x.vnb", study_of(), SimulatedPorts(Stumbling(1e9)))
    (treatment,) = found.treatments
    assert treatment.metrics["throughput_fps"].value == pytest.approx(100_000, rel=0.01)
    assert treatment.points[0].goal_results[0].limited_by == "device"


@dataclass
class Deaf:
    """A device that forwards nothing until it has been asked so often."""

    until: int = 10**9
    asked: int = 0

    def measure(self, load_fps: float, duration_s: float) -> FrameCount:
        self.asked += 1
        sent = round(load_fps * duration_s)
        return FrameCount(sent, min(sent, round(100_000 * duration_s)) if self.asked > self.until else 0)


def test_where_nothing_passes_two_steps_say_so(tmp_path: Path) -> None:
    ports = SimulatedPorts(Deaf())
    found, said = run(tmp_path / "x.vnb", study_of(), ports)
    assert found.treatments[0].stopped_by == "refused"
    assert said[0].startswith("refused: nothing passes: none of 500050 frames arrived")
    assert [load.factors["frame_load"] for load in ports.asked] == ["max", 100.0]


def test_a_device_that_passed_nothing_is_tried_anew_when_the_campaign_is_resumed(tmp_path: Path) -> None:
    path, device = tmp_path / "x.vnb", Deaf(until=2)
    run(path, study_of(), SimulatedPorts(device))
    found, _ = run(path, study_of(), SimulatedPorts(device))
    assert found.treatments[0].metrics["throughput_fps"].value == pytest.approx(100_000, rel=0.02)


def test_a_device_that_loses_some_of_any_load_has_no_throughput_for_the_goal(tmp_path: Path) -> None:
    device = SimulatedDevice(DeviceModel(1e5, early_from=1e-4, early_ratio=0.3, early_power=0.01), 1)
    found, _ = run(tmp_path / "x.vnb", study_of(), SimulatedPorts(device))
    assert found.treatments[0].metrics["throughput_fps"].value == 0
    assert any("not even 100 frame/s" in note for note in found.treatments[0].notes)


def test_a_generator_below_the_least_load_is_told_with_the_fix(tmp_path: Path) -> None:
    found, _ = run(tmp_path / "x.vnb", study_of(), SimulatedPorts(most_fps=90.0))
    (reason,) = found.treatments[0].failures
    assert "the generator sends at most 90.0 frame/s" in reason and "search.least_load" in reason


def test_latency_is_measured_at_the_asked_share_of_the_throughput(tmp_path: Path) -> None:
    study = study_of("frame_latency", 'frame_load = ["50 %", "20 kframe/s"]', '[timing]\nduration = "2 s"\n')
    ports = SimulatedPorts()
    found, _ = run(tmp_path / "x.vnb", study, ports)
    rates = {t.factors["frame_load"]: t.metrics["forwarding_rate_fps"].value for t in found.treatments}
    assert rates["50 %"] == pytest.approx(50_000, rel=0.01)
    assert rates[20_000.0] == pytest.approx(20_000, rel=0.001)
    assert sorted(len(t.points[0].steps) > 0 for t in found.treatments) == [False, True]
    assert [load.duration_s for load in ports.asked].count(2.0) == 2


def test_the_course_of_loss_goes_down_until_two_steps_lose_nothing(tmp_path: Path) -> None:
    ports = SimulatedPorts(most_fps=200_000.0)
    found, _ = run(tmp_path / "x.vnb", study_of("frame_loss"), ports)
    (treatment,) = found.treatments
    course = [step for step in treatment.points[0].steps if step.purpose == LOSS_CURVE_STEP]
    loads = [step.load_fps for step in course]
    assert loads == pytest.approx([194_000 * (1 - 0.05 * n) for n in range(len(course))])
    assert [step.loss_ratio > 0 for step in course] == [True] * (len(course) - 2) + [False, False]
    assert course[0].loss_ratio == pytest.approx(1 - 100 / 194, abs=0.001)
    assert treatment.metrics["max_forwarding_rate_fps"].value == pytest.approx(100_000, rel=0.001)
    assert treatment.metrics["throughput_fps"].value == loads[-2]


def test_the_longest_burst_fills_the_buffer_of_the_device(tmp_path: Path) -> None:
    # It holds what 20 ms at its limit are, 2000 frames, and forwards a tenth of a burst meanwhile.
    device = SimulatedDevice(DeviceModel(100_000.0, spare_s=0.02), 1)
    found, _ = run(tmp_path / "x.vnb", study_of("back_to_back"), SimulatedPorts(device))
    (treatment,) = found.treatments
    longest = treatment.metrics["back_to_back_frames"].value
    assert longest == pytest.approx(2000 / 0.9, rel=0.02)
    assert treatment.metrics["buffer_s"].value == pytest.approx(0.9 * longest / 1e6, rel=0.05)
    assert {step.purpose for step in treatment.points[0].steps} == {GENERATOR_STEP, SEARCH_STEP, BURST_STEP}


def test_a_series_that_takes_another_way_than_it_did_forgets_where_it_had_been() -> None:
    kept: list[StepRecord] = []
    earlier = tuple(
        StepRecord(n, SEARCH_STEP, load, None, 1.0, 0.0, 1.0, 10, 10, {"direction_count": 1})
        for n, load in enumerate((4e3, 2e3, 3e3))
    )
    series = StepSeries(SearchSpec(), 1, lambda: earlier, kept.append, kept.clear)
    ports = SimulatedPorts()
    load = TrialLoad(complete_levels({}, "frames"), 1.0, 0.05, "frames", step_series=series)
    steps = StepRunner(load, series, ports.once)
    for load_fps in (4e3, 5e3, 3e3):
        steps.run(SEARCH_STEP, load_fps, 1.0)
    assert [step.load_fps for step in kept] == [5e3, 3e3]
    assert [run.factors["frame_load"] for run in ports.asked] == [5e3, 3e3]


def test_leaving_in_the_midst_of_a_search_keeps_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "x.vnb"

    def leave(number: int) -> None:
        if number == 3:
            raise ImmediateExit

    run(path, study_of(), SimulatedPorts(before=leave))
    file = ResultsFile.open_to_read(path)
    assert [step.number for step in file.steps(0, 0)] == [0, 1, 2]
    file.close()


def test_to_leave_waits_for_the_step_at_work_and_not_for_the_search(tmp_path: Path) -> None:
    path = tmp_path / "x.vnb"

    def ask(number: int) -> None:
        if number == 3:
            signal.raise_signal(signal.SIGINT)

    ports = SimulatedPorts(before=ask)
    found, _ = run(path, study_of(), ports)
    assert len(ports.asked) == 4 and found.treatments[0].trial_count == 0
    file = ResultsFile.open_to_read(path)
    assert [step.number for step in file.steps(0, 0)] == [0, 1, 2, 3]
    file.close()


def test_a_time_limit_that_is_too_short_for_the_searches_is_told(tmp_path: Path) -> None:
    study = parse_study(study_of().text, None, ["precision.time_limit=5s"])
    _, said = run(tmp_path / "x.vnb", study, SimulatedPorts())
    assert "too short for 1 treatments of 1 trials each, whose searches take about" in said[0]


def test_progress_tells_the_steps_of_the_search_at_work(tmp_path: Path) -> None:
    study = study_of()
    plan = make_plan(study, 7)
    file = ResultsFile.create(tmp_path / "x.vnb", study, plan)
    seen: list[tuple[int, float]] = []

    def look() -> None:
        seen.append((len(campaign.progress.steps), campaign.progress.estimate_remaining()[1]))

    campaign = Campaign(file, study, plan, SimulatedPorts(), lambda *_: None, look)
    with Interrupts() as interrupts:
        campaign.run(interrupts)
    file.close()
    assert [steps for steps, _ in seen[:-1]] == list(range(1, len(seen)))
    assert all(left_s >= 0 for _, left_s in seen)


def test_what_is_refused_in_a_step_ends_the_treatment(tmp_path: Path) -> None:
    def refuse(number: int) -> None:
        raise TreatmentRefused("the port is down", where="a1", fix="set it up")

    found, said = run(tmp_path / "x.vnb", study_of(), SimulatedPorts(before=refuse))
    assert found.treatments[0].stopped_by == "refused" and "the port is down" in said[0]
