"""Campaigns: random blocks, repetition until intervals are narrow, failed trials, refusals and resuming."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests import fixtures
from tests.campaign.simulated_instrument import Fault, SimulatedInstrument
from vnetbench.agents.client import AgentError
from vnetbench.campaign.instrument import CompletedTrial
from vnetbench.campaign.load_checks import refusal_from_agent_error
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.campaign.trial import TrialLoad
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import SYSTEM_REFUSED, TESTBED_CHANGED
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.file import ResultsFile
from vnetbench.study.model import Level, Plan, Treatment

Factors = Mapping[str, Level]


@dataclass
class SimulatedClock:
    """The machine's clock, ahead by the time that simulated trials have slept.

    That time is so long that the time of the machine does not matter, however busy it is.
    """

    slept_s: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def monotonic(self) -> float:
        return time.monotonic() + self.slept_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimulatedClock:
    """Provide the clock of campaigns."""
    simulated = SimulatedClock()
    for module in ("progress", "run"):
        monkeypatch.setattr(f"vnetbench.campaign.{module}.time", simulated)
    return simulated


def run(
    path: Path, instrument: SimulatedInstrument, text: str = fixtures.STUDY_TEXT, seed: int = 1
) -> tuple[str, list[str]]:
    """Run a campaign, or resume it if the file exists; return its status and messages."""
    study = fixtures.make_study(text)
    if path.exists():
        file = ResultsFile.open_to_write(path)
        plan = Plan(tuple(Treatment(t.index, t.factors) for t in file.treatments()), file.campaign().seed)
    else:
        file, plan = fixtures.create_results_file(path, study)
    messages: list[str] = []
    try:
        with SignalHandler() as signal_handler:
            campaign = CampaignSession(
                file, study, plan, instrument, lambda message, index: messages.append(message), lambda: None
            )
            status = campaign.run(signal_handler)
    except BaseException:
        file.close("interrupted")
        raise
    file.close(status)
    return status, messages


def test_trials_repeat_until_the_interval_of_each_treatment_is_narrow_enough(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    instrument = SimulatedInstrument(noise=0.005)
    assert run(path, instrument) == ("finished", [])
    campaign = fixtures.read_summary(path)
    assert [t.stop_reason for t in campaign.treatments] == ["precision"] * 4
    assert [t.trial_count for t in campaign.treatments] == [6, 6, 6, 6]
    assert campaign.treatments[0].metrics["goodput_bps"].value == pytest.approx(1e10, rel=0.02)
    assert instrument.closed


def test_a_noisy_treatment_stops_at_the_maximum_number_of_trials(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(noise=0.3))
    campaign = fixtures.read_summary(path)
    assert {t.stop_reason for t in campaign.treatments} == {"trial limit"}
    assert {t.trial_count for t in campaign.treatments} == {20}


def test_every_block_contains_each_open_treatment_once_in_a_new_order(tmp_path: Path) -> None:
    instrument = SimulatedInstrument(noise=0.005)
    run(tmp_path / "r.vnb", instrument)
    order = [(f["streams"], f["mtu"]) for f in instrument.requested_levels]
    blocks = [order[i : i + 4] for i in range(0, 24, 4)]
    assert all(len(set(block)) == 4 for block in blocks)
    assert len({tuple(block) for block in blocks}) > 3


def test_equal_seeds_give_the_same_order_of_blocks(tmp_path: Path) -> None:
    first, second = SimulatedInstrument(), SimulatedInstrument()
    run(tmp_path / "1.vnb", first)
    run(tmp_path / "2.vnb", second)
    assert first.requested_levels[:24] == second.requested_levels[:24]


def test_a_refusal_stops_only_its_treatment(tmp_path: Path) -> None:
    def refuse(number: int, factors: Factors) -> None:
        if factors["mtu"] == 9000:
            raise TreatmentRefused("packets of 9000 bytes do not pass", where="port a1", fix="raise its MTU")

    path = tmp_path / "r.vnb"
    status, messages = run(path, SimulatedInstrument(0.005, refuse))
    assert status == "finished"
    assert [t.stop_reason for t in fixtures.read_summary(path).treatments] == ["precision", "refused"] * 2
    assert len(messages) == 2
    assert "port a1: packets of 9000 bytes do not pass" in messages[0]
    assert "fix: raise its MTU" in messages[0]


def test_a_failed_trial_is_stored_and_repeated(tmp_path: Path) -> None:
    def fail(number: int, factors: Factors) -> None:
        if number in (3, 10):
            raise TrialFailed("b1: the agent ended (killed by SIGKILL)")

    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(0.005, fail))
    file = ResultsFile.open_to_read(path)
    trials = list(file.trials())
    assert [t.failure for t in trials if t.failure] == ["b1: the agent ended (killed by SIGKILL)"] * 2
    assert Counter(t.treatment for t in trials if not t.failure) == dict.fromkeys(range(4), 6)


def test_a_trial_without_a_sample_counts_as_failed(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    status, messages = run(path, SimulatedInstrument(0.005, trials_without_samples=2))
    assert status == "finished"
    assert sum("no sample was taken" in message for message in messages) == 2
    assert [t.trial_count for t in fixtures.read_summary(path).treatments] == [6] * 4


def test_a_treatment_that_always_fails_stops_and_the_others_continue(tmp_path: Path) -> None:
    def fail(number: int, factors: Factors) -> None:
        if (factors["streams"], factors["mtu"]) == (4, 1500):
            raise TrialFailed("interface eth0 vanished")

    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(0.005, fail))
    campaign = fixtures.read_summary(path)
    assert [t.stop_reason for t in campaign.treatments] == ["precision", "precision", "failed", "precision"]
    assert "3 trials in a row failed" in campaign.treatments[2].failures[-1]


def test_the_time_limit_ends_a_campaign_with_a_message(tmp_path: Path, clock: SimulatedClock) -> None:
    path = tmp_path / "r.vnb"
    slow = SimulatedInstrument(0.3, lambda number, factors: clock.sleep(0.05))
    status, messages = run(path, slow, fixtures.STUDY_TEXT + 'time_limit = "1 s"\n')
    assert status == "finished"
    assert {t.stop_reason for t in fixtures.read_summary(path).treatments} == {"time limit"}
    assert any("too short" in message for message in messages)


def test_a_calibration_longer_than_the_time_limit_does_not_start(
    tmp_path: Path,
) -> None:
    path, instrument = tmp_path / "r.vnb", SimulatedInstrument()
    text = fixtures.STUDY_TEXT.replace("[precision]", 'send_mode = "auto"\n[precision]')
    _, messages = run(path, instrument, text + 'time_limit = "4 s"\n')
    assert instrument.requested_levels == []
    assert {t.stop_reason for t in fixtures.read_summary(path).treatments} == {"time limit"}
    assert "and calibrations" in messages[0]


class Killed(BaseException):
    """Simulates kill -9: no code cleans up or stores a status."""


def test_a_killed_and_resumed_campaign_measures_the_same_trials_as_an_uninterrupted_one(
    tmp_path: Path,
) -> None:
    text = fixtures.STUDY_TEXT.replace("max_trials = 20", 'max_trials = 20\nhalf_width = "1.5 %"')
    uninterrupted = tmp_path / "uninterrupted.vnb"
    run(uninterrupted, SimulatedInstrument(0.02), text)
    expected = _measured_trials(uninterrupted)
    for trials_per_session in (2, 7, 11):
        path = tmp_path / f"{trials_per_session}.vnb"
        trial_counts: Counter[tuple[int, int]] = Counter()
        for _ in range(200):
            instrument = SimulatedInstrument(0.02, _kill_at(trials_per_session), trial_counts=trial_counts)
            try:
                if run(path, instrument, text)[0] == "finished":
                    break
            except Killed:
                continue
        assert _measured_trials(path) == expected
        assert [t.stop_reason for t in fixtures.read_summary(path).treatments] == [
            t.stop_reason for t in fixtures.read_summary(uninterrupted).treatments
        ]


def test_resuming_tries_refused_treatments_again(tmp_path: Path) -> None:
    def refuse(number: int, factors: Factors) -> None:
        if factors["mtu"] == 9000:
            raise TreatmentRefused("not now")

    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(0.005, refuse))
    run(path, SimulatedInstrument(0.005))
    assert [t.stop_reason for t in fixtures.read_summary(path).treatments] == ["precision"] * 4


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (TreatmentRefused("cpus = any did not take effect: 1 was read back", factor="cpus"), TESTBED_CHANGED),
        (
            refusal_from_agent_error(AgentError("a1", "no more", -32001, {"kind": "open_files"}), "a1"),
            SYSTEM_REFUSED,
        ),
    ],
)
def test_a_refusal_that_the_system_causes_is_stored_as_a_failed_trial(
    tmp_path: Path, refusal: TreatmentRefused, kind: str
) -> None:
    def refuse(number: int, factors: Factors) -> None:
        raise refusal

    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(0.005, refuse))
    for treatment in fixtures.read_summary(path).treatments:
        assert treatment.stop_reason == "refused"
        assert [(each.kind, each.count) for each in treatment.failed_trials] == [(kind, 1)]


def test_a_setting_of_the_study_that_is_refused_is_no_failed_trial(tmp_path: Path) -> None:
    def refuse(number: int, factors: Factors) -> None:
        raise TreatmentRefused("mtu = 9000 did not take effect: 1500 was read back", factor="mtu")

    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(0.005, refuse))
    assert not any(each.failed_trials for each in fixtures.read_summary(path).treatments)


def test_a_treatment_stays_refused_if_no_time_is_left_to_try_it_again(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    def refuse(number: int, factors: Factors) -> None:
        clock.sleep(500)
        if factors["mtu"] == 9000:
            raise TreatmentRefused("not now")

    path = tmp_path / "r.vnb"
    text = fixtures.STUDY_TEXT + 'time_limit = "10000 s"\n'
    run(path, SimulatedInstrument(0.3, refuse), text)
    clock.slept_s = 0.0  # Each session begins at its own start.
    run(path, SimulatedInstrument(0.3, refuse), text)
    campaign = fixtures.read_summary(path)
    assert [t.stop_reason for t in campaign.treatments] == ["time limit", "refused"] * 2
    assert campaign.treatments[1].failures == ("not now",)


def test_ctrl_c_ends_the_campaign_after_the_running_trial(tmp_path: Path) -> None:
    def interrupt(number: int, factors: Factors) -> None:
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "r.vnb"
    instrument = SimulatedInstrument(0.005, interrupt)
    assert run(path, instrument)[0] == "interrupted"
    assert len(_measured_trials(path)) == 6
    assert instrument.closed
    assert fixtures.read_summary(path).status == "interrupted"
    assert run(path, SimulatedInstrument(0.005))[0] == "finished"


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,), (signal.SIGHUP,)])
def test_ctrl_c_twice_or_another_signal_aborts_the_running_trial(
    tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    def interrupt(number: int, factors: Factors) -> None:
        if number == 5:
            for signal_number in signals:
                os.kill(os.getpid(), signal_number)

    path = tmp_path / "r.vnb"
    instrument = SimulatedInstrument(0.005, interrupt)
    assert run(path, instrument)[0] == "interrupted"
    assert len(_measured_trials(path)) == 5
    assert instrument.closed


def test_a_file_error_ends_the_campaign_and_closes_the_instrument(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"

    def damage_file(number: int, factors: Factors) -> None:
        if number == 3:
            with sqlite3.connect(path) as db:
                db.execute("DROP TABLE endpoint_data")

    instrument = SimulatedInstrument(0.005, damage_file)
    with pytest.raises(BenchError, match="cannot use the file"):
        run(path, instrument)
    assert instrument.closed


def _kill_at(trial: int) -> Fault:
    def kill(number: int, factors: Factors) -> None:
        if number == trial:
            raise Killed

    return kill


def _measured_trials(path: Path) -> list[tuple[int, int]]:
    """Return treatment and block of each trial that did not fail."""
    file = ResultsFile.open_to_read(path)
    try:
        trials = [(t.treatment, t.block) for t in file.trials() if not t.failure]
    finally:
        file.close()
    assert len(trials) == len(set(trials))
    return sorted(trials)


def test_later_trials_and_sessions_get_the_calibration_of_their_treatment(tmp_path: Path) -> None:
    @dataclass
    class CalibratingInstrument(SimulatedInstrument):
        calibrations: list[object] = field(default_factory=list)

        def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
            trial = super().measure(load, should_abandon)
            self.calibrations.append(load.earlier_calibration)
            levels = f"{load.factors['streams']} {load.factors['mtu']}"
            new_calibration = {"send_mode": "splice", "levels": levels}
            effective = {"calibration": load.earlier_calibration or new_calibration}
            return replace(trial, measurement=replace(trial.measurement, effective=effective))

    def interrupt(number: int, factors: Factors) -> None:
        if number == 6:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "r.vnb"
    first, later = CalibratingInstrument(0.005, interrupt), CalibratingInstrument(0.005)
    assert run(path, first)[0] == "interrupted"
    run(path, later)
    assert first.calibrations[:4] == [None] * 4
    assert None not in (*first.calibrations[4:], *later.calibrations)
    for instrument in (first, later):
        for calibration, factors in zip(instrument.calibrations, instrument.requested_levels, strict=True):
            if isinstance(calibration, Mapping):
                assert calibration["levels"] == f"{factors['streams']} {factors['mtu']}"
