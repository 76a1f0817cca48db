"""What a campaign itself costs per trial: `python -m bench.campaign_overhead` (as root: tools/in-lab …).

The set-up runs on the lab `netns`. Storing and statistics run with recorded trials of 16 streams.
"""

from __future__ import annotations

import itertools
import lzma
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import click

from bench.large_files import RECORDED_FILE
from tests import fixtures
from vnetbench.campaign.instrument import CompletedTrial, LabInstrument, NewFacts
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import TestbedSpec

_LOAD_S, _INTERVAL_S = 0.2, 0.05
_WARM_UP_TRIALS = 4
"""Trials before the first measured one: they create the testbed and set each level once."""
_MTUS = (1500, 1500, 9000, 9000)
"""Levels in turn: every other trial changes a setting of all interfaces."""
_ENDLESS = 'max_trials = 10000\nmin_trials = 10000\ntime_limit = "24 h"'


class RecordedInstrument:
    """An instrument that returns the recorded trials in turn, without load."""

    def __init__(self, trials: Sequence[TrialRecord]) -> None:
        self._trials = trials
        self.ends_s: list[float] = []
        """CPU time of this process at the end of each measurement."""

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """See Instrument."""
        trial = self._trials[len(self.ends_s) % len(self._trials)]
        self.ends_s.append(time.process_time())
        measurement = TrialMeasurement(trial.endpoints, trial.effective, trial.notes)
        return CompletedTrial(measurement, trial.testbed_shape or "", trial.setup_s)

    def take_new_facts(self) -> NewFacts:
        """See Instrument."""
        return NewFacts()

    def close(self) -> None:
        """See Instrument."""


def measure_setup(trial_count: int) -> tuple[list[float], list[float]]:
    """Return the set-up of each trial on the lab `netns`, and the bench's CPU time for each, in ms.

    The set-up is all time of a trial apart from the load itself.
    """
    setups_ms, cpu_ms = [], []
    spec = TestbedSpec()
    with closing(LabInstrument(NetnsLab(spec, "bench"), spec)) as instrument:
        for number in range(_WARM_UP_TRIALS + trial_count):
            levels = complete_levels({"streams": 1, "mtu": _MTUS[number % len(_MTUS)]})
            start_s = time.process_time()
            done = instrument.measure(TrialLoad(levels, _LOAD_S, _INTERVAL_S), lambda: False)
            if number >= _WARM_UP_TRIALS:
                setups_ms.append(1e3 * done.setup_s)
                cpu_ms.append(1e3 * (time.process_time() - start_s))
    return setups_ms, cpu_ms


def measure_session(trial_count: int, folder: Path) -> tuple[list[float], float]:
    """Return the CPU time between trials of a whole session, in ms, and its peak memory in MB."""
    recorded = folder / "recorded.vnb"
    recorded.write_bytes(lzma.decompress(RECORDED_FILE.read_bytes()))
    with closing(ResultsFile.open_to_read(recorded)) as source:
        instrument = RecordedInstrument(list(source.trials()))
    study = fixtures.make_study(fixtures.STUDY_TEXT.replace("max_trials = 20", _ENDLESS))
    file, plan = fixtures.create_results_file(folder / "session.vnb", study)
    with SignalHandler() as signal_handler:

        def stop_at_end() -> None:
            signal_handler.is_requested = len(instrument.ends_s) > trial_count

        session = CampaignSession(file, study, plan, instrument, lambda text, index: None, stop_at_end)
        status = session.run(signal_handler)
    file.close(status)
    ends_s = instrument.ends_s
    between_ms = [1e3 * (after - before) for before, after in itertools.pairwise(ends_s)]
    return between_ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _quartiles(values: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


@click.command()
@click.option("--setups", default=40, show_default=True, type=click.IntRange(2), help="Trials under load.")
@click.option(
    "--trials", default=1000, show_default=True, type=click.IntRange(20), help="Trials without load."
)
def main(setups: int, trials: int) -> None:
    """Print the costs as Markdown tables: medians with quartiles."""
    setups_ms, cpu_ms = measure_setup(setups)
    click.echo("| set-up of a trial on netns, ms | smallest | bench's CPU, ms |\n|---|---|---|")
    click.echo(f"| {_quartiles(setups_ms)} | {min(setups_ms):.1f} | {_quartiles(cpu_ms)} |")
    with tempfile.TemporaryDirectory() as name:
        between_ms, peak_mb = measure_session(trials, Path(name))
    tenth = len(between_ms) // 10
    click.echo("\n| trials | CPU ms a trial to store it and decide, first tenth | last tenth | peak MB |")
    click.echo("|---|---|---|---|")
    first, last = _quartiles(between_ms[:tenth]), _quartiles(between_ms[-tenth:])
    click.echo(f"| {trials} | {first} | {last} | {peak_mb:.0f} |")


if __name__ == "__main__":
    main()
