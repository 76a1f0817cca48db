"""A campaign: blocks in random order, repetition until sure, faults of a trial or treatment, and resuming."""

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
from vnetbench.campaign.instrument import CompletedTrial
from vnetbench.campaign.interrupts import Interrupts
from vnetbench.campaign.run import Campaign
from vnetbench.campaign.trial import TrialLoad
from vnetbench.errors import BenchError
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.file import ResultsFile
from vnetbench.study.model import Level, Plan, Treatment

Factors = Mapping[str, Level]


def run(
    path: Path, instrument: SimulatedInstrument, text: str = fixtures.STUDY_TEXT, seed: int = 1
) -> tuple[str, list[str]]:
    """One session: begun when there is no file yet, else resumed; its status and what it said."""
    study = fixtures.make_study(text)
    if path.exists():
        file = ResultsFile.open_to_write(path)
        plan = Plan(tuple(Treatment(t.index, t.factors) for t in file.treatments()), file.campaign().seed)
    else:
        file, plan = fixtures.create_results_file(path, study)
    said: list[str] = []
    try:
        with Interrupts() as interrupts:
            campaign = Campaign(
                file, study, plan, instrument, lambda sentence, index: said.append(sentence), lambda: None
            )
            status = campaign.run(interrupts)
    except BaseException:
        file.close("interrupted")
        raise
    file.close(status)
    return status, said


def summary(path: Path) -> CampaignSummary:
    file = ResultsFile.open_to_read(path)
    try:
        return summarize(file)
    finally:
        file.close()


def test_every_treatment_is_repeated_until_it_is_sure(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    instrument = SimulatedInstrument(noise=0.005)
    assert run(path, instrument) == ("finished", [])
    found = summary(path)
    assert [t.stopped_by for t in found.treatments] == ["precision"] * 4
    assert [t.trial_count for t in found.treatments] == [6, 6, 6, 6]
    assert found.treatments[0].metrics["goodput_bps"].value == pytest.approx(1e10, rel=0.02)
    assert instrument.closed


def test_a_noisy_treatment_is_repeated_to_the_most_trials_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(noise=0.3))
    found = summary(path)
    assert {t.stopped_by for t in found.treatments} == {"most trials"}
    assert {t.trial_count for t in found.treatments} == {20}


def test_every_block_holds_each_open_treatment_once_in_a_new_order(tmp_path: Path) -> None:
    instrument = SimulatedInstrument(noise=0.005)
    run(tmp_path / "r.vnb", instrument)
    order = [(f["streams"], f["mtu"]) for f in instrument.asked]
    blocks = [order[i : i + 4] for i in range(0, 24, 4)]
    assert all(len(set(block)) == 4 for block in blocks)
    assert len({tuple(block) for block in blocks}) > 3


def test_the_seed_orders_the_blocks(tmp_path: Path) -> None:
    first, same = SimulatedInstrument(), SimulatedInstrument()
    run(tmp_path / "1.vnb", first)
    run(tmp_path / "2.vnb", same)
    assert first.asked[:24] == same.asked[:24]


def test_a_refused_treatment_stops_alone(tmp_path: Path) -> None:
    def refuse(number: int, factors: Factors) -> None:
        if factors["mtu"] == 9000:
            raise TreatmentRefused("packets of 9000 bytes do not pass", where="port a1", fix="raise its MTU")

    path = tmp_path / "r.vnb"
    status, said = run(path, SimulatedInstrument(0.005, refuse))
    assert status == "finished"
    assert [t.stopped_by for t in summary(path).treatments] == ["precision", "refused"] * 2
    assert len(said) == 2
    assert "port a1: packets of 9000 bytes do not pass" in said[0]
    assert "fix: raise its MTU" in said[0]


def test_a_failed_trial_is_kept_as_failed_and_tried_again(tmp_path: Path) -> None:
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
    """Agents that were kept from running left nothing to estimate from, in this or any later session."""
    path = tmp_path / "r.vnb"
    status, said = run(path, SimulatedInstrument(0.005, silent=2))
    assert status == "finished"
    assert sum("no sample was taken" in sentence for sentence in said) == 2
    assert [t.trial_count for t in summary(path).treatments] == [6] * 4


def test_a_treatment_that_only_fails_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    def fail(number: int, factors: Factors) -> None:
        if (factors["streams"], factors["mtu"]) == (4, 1500):
            raise TrialFailed("interface eth0 vanished")

    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(0.005, fail))
    found = summary(path)
    assert [t.stopped_by for t in found.treatments] == ["precision", "precision", "failed", "precision"]
    assert "3 trials in a row failed" in found.treatments[2].failures[-1]


def test_the_time_limit_ends_it_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    slow = SimulatedInstrument(0.3, lambda number, factors: time.sleep(0.05))
    status, said = run(path, slow, fixtures.STUDY_TEXT + 'time_limit = "1 s"\n')
    assert status == "finished"
    assert {t.stopped_by for t in summary(path).treatments} == {"time limit"}
    assert any("too short" in sentence for sentence in said)


def test_a_calibration_that_does_not_fit_into_the_time_limit_is_not_begun_and_that_is_said(
    tmp_path: Path,
) -> None:
    path, instrument = tmp_path / "r.vnb", SimulatedInstrument()
    text = fixtures.STUDY_TEXT.replace("[precision]", 'send_mode = "auto"\n[precision]')
    _, said = run(path, instrument, text + 'time_limit = "4 s"\n')
    assert instrument.asked == []
    assert {t.stopped_by for t in summary(path).treatments} == {"time limit"}
    assert "of calibrations, so some will have no interval" in said[0]


class Killed(BaseException):
    """As if by kill -9: nothing gets to clean up or to say how it ended."""


def test_a_resumed_campaign_does_what_an_unbroken_one_would_have_done(tmp_path: Path) -> None:
    """Whatever the moments at which it was killed, and how often."""
    text = fixtures.STUDY_TEXT.replace("most_trials = 20", 'most_trials = 20\nhalf_width = "1.5 %"')
    unbroken = tmp_path / "unbroken.vnb"
    run(unbroken, SimulatedInstrument(0.02), text)
    slots = _slots(unbroken)
    for every in (2, 7, 11):
        path = tmp_path / f"{every}.vnb"
        measured: Counter[tuple[int, int]] = Counter()
        for _ in range(200):
            instrument = SimulatedInstrument(0.02, _killed_at(every), measured=measured)
            try:
                if run(path, instrument, text)[0] == "finished":
                    break
            except Killed:
                continue
        assert _slots(path) == slots
        assert [t.stopped_by for t in summary(path).treatments] == [
            t.stopped_by for t in summary(unbroken).treatments
        ]


def test_what_was_refused_is_tried_anew_on_resume(tmp_path: Path) -> None:
    def refuse(number: int, factors: Factors) -> None:
        if factors["mtu"] == 9000:
            raise TreatmentRefused("not now")

    path = tmp_path / "r.vnb"
    run(path, SimulatedInstrument(0.005, refuse))
    run(path, SimulatedInstrument(0.005))
    assert [t.stopped_by for t in summary(path).treatments] == ["precision"] * 4


def test_what_was_refused_stays_refused_where_no_time_is_left_to_try_it(tmp_path: Path) -> None:
    def refuse(number: int, factors: Factors) -> None:
        time.sleep(0.05)
        if factors["mtu"] == 9000:
            raise TreatmentRefused("not now")

    path = tmp_path / "r.vnb"
    text = fixtures.STUDY_TEXT + 'time_limit = "1 s"\n'
    run(path, SimulatedInstrument(0.3, refuse), text)
    run(path, SimulatedInstrument(0.3, refuse), text)
    found = summary(path)
    assert [t.stopped_by for t in found.treatments] == ["time limit", "refused"] * 2
    assert found.treatments[1].failures == ("not now",)


def test_ctrl_c_once_finishes_the_trial_and_leaves(tmp_path: Path) -> None:
    def interrupt(number: int, factors: Factors) -> None:
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "r.vnb"
    instrument = SimulatedInstrument(0.005, interrupt)
    assert run(path, instrument)[0] == "interrupted"
    assert len(_slots(path)) == 6
    assert instrument.closed
    assert summary(path).status == "interrupted"
    assert run(path, SimulatedInstrument(0.005))[0] == "finished"


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,), (signal.SIGHUP,)])
def test_ctrl_c_twice_or_a_signal_leaves_in_the_midst_of_a_trial(
    tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    def interrupt(number: int, factors: Factors) -> None:
        if number == 5:
            for each in signals:
                os.kill(os.getpid(), each)

    path = tmp_path / "r.vnb"
    instrument = SimulatedInstrument(0.005, interrupt)
    assert run(path, instrument)[0] == "interrupted"
    assert len(_slots(path)) == 5
    assert instrument.closed


def test_an_error_of_the_file_ends_the_campaign_with_the_instrument_closed(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"

    def spoil(number: int, factors: Factors) -> None:
        if number == 3:
            with sqlite3.connect(path) as foreign:
                foreign.execute("DROP TABLE stream_sample")

    instrument = SimulatedInstrument(0.005, spoil)
    with pytest.raises(BenchError, match="cannot use the file"):
        run(path, instrument)
    assert instrument.closed


def _killed_at(trial: int) -> Fault:
    def kill(number: int, factors: Factors) -> None:
        if number == trial:
            raise Killed

    return kill


def _slots(path: Path) -> list[tuple[int, int]]:
    file = ResultsFile.open_to_read(path)
    try:
        slots = [(t.treatment, t.block) for t in file.trials() if not t.failure]
    finally:
        file.close()
    assert len(slots) == len(set(slots))
    return sorted(slots)


def test_a_calibration_is_handed_to_later_trials_and_sessions(
    tmp_path: Path,
) -> None:
    @dataclass
    class Calibrating(SimulatedInstrument):
        handed: list[object] = field(default_factory=list)

        def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
            done = super().measure(load, should_abandon)
            self.handed.append(load.calibration)
            mine = {"send_mode": "splice", "of": f"{load.factors['streams']} {load.factors['mtu']}"}
            effective = {"calibration": load.calibration or mine}
            return replace(done, measurement=replace(done.measurement, effective=effective))

    def leave(number: int, factors: Factors) -> None:
        if number == 6:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "r.vnb"
    first, later = Calibrating(0.005, leave), Calibrating(0.005)
    assert run(path, first)[0] == "interrupted"
    run(path, later)
    assert first.handed[:4] == [None] * 4
    assert None not in (*first.handed[4:], *later.handed)
    for instrument in (first, later):
        for handed, factors in zip(instrument.handed, instrument.asked, strict=True):
            if isinstance(handed, Mapping):
                assert handed["of"] == f"{factors['streams']} {factors['mtu']}"
