"""Points of imported trials: reading each trial once gives the same as an analysis of all trials first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from vnetbench.cli import cli
from vnetbench.estimate import imported_trials
from vnetbench.estimate.summarize import summarize
from vnetbench.results.file import ResultsFile
from vnetbench.study.model import Timing

pytestmark = pytest.mark.pure

_METRIC = "goodput_bps"


def write_log(path: Path, runs: int, noise: float) -> None:
    """Write iperf3 runs of 20 intervals; the first five are slower, hidden in the noise of a single run."""
    random_numbers = random.Random(3)
    lines = []
    for _ in range(runs):
        lines += ["$ iperf3 -c 10.0.0.2 -t 20 -P 1", "iperf 3.12"]
        lines += ["[  5] local 10.0.0.1 port 40000 connected to 10.0.0.2 port 5201"]
        lines += ["[ ID] Interval           Transfer     Bitrate"]
        rates = [(9.0 if i < 5 else 10.0) + random_numbers.gauss(0, noise) for i in range(20)]
        for i, rate in enumerate(rates):
            lines.append(f"[  5]   {i}.00-{i + 1}.00   sec  {_gbytes(rate)} GBytes  {rate:.3f} Gbits/sec")
        mean = sum(rates) / len(rates)
        for end in ("sender", "receiver"):
            lines.append(f"[  5]   0.00-20.00  sec  {_gbytes(20 * mean)} GBytes  {mean:.3f} Gbits/sec  {end}")
        lines += ["", "iperf Done.", ""]
    path.write_text("\n".join(lines))


def _gbytes(gbits: float) -> str:
    """Return a transfer as iperf3 prints it; its GByte has 2^30 bytes."""
    return f"{gbits * 1e9 / 8 / 2**30:.4f}"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultsFile:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_log(tmp_path / "a.log", runs=24, noise=1.0)
    cli.main(["import", str(tmp_path / "a.log"), "-o", str(tmp_path / "a.vnb")], standalone_mode=False)
    return ResultsFile.open_to_read(tmp_path / "a.vnb")


def test_a_warm_up_that_only_all_trials_show_changes_the_point_of_each(file: ResultsFile) -> None:
    trials = list(file.trials())
    series = [imported_trials.metric_time_series(trial, _METRIC) for trial in trials]
    warmups = imported_trials.find_imported_warmups(series, Timing())
    own = [imported_trials.find_imported_warmups([each], Timing())[0] for each in series]
    is_changed = [a != b for a, b in zip(warmups, own, strict=True)]
    assert any(is_changed) and not all(is_changed)
    (treatment,) = summarize(file).treatments
    assert list(treatment.points) == [
        imported_trials.trial_point(trial, warmup, each, _METRIC, treatment.factors)
        for trial, warmup, each in zip(trials, warmups, series, strict=True)
    ]
    file.close()


def test_trials_are_read_by_their_ids(file: ResultsFile) -> None:
    all_trials = list(file.trials())
    chosen = [each.id for each in all_trials[3:9:2]]
    assert list(file.trials(only_ids=chosen)) == all_trials[3:9:2]
    file.close()
