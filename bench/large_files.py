"""Cost of reading large results files, and of a campaign with many trials: `python -m bench.large_files`.

Each command runs in a process of its own, on a file that no command has read (first) and again (second). An
import stores what the first command shows.
"""

from __future__ import annotations

import lzma
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tests import fixtures
from vnetbench.campaign.progress import CampaignProgress
from vnetbench.estimate.time_series import TimeSeries
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import FINISHED, TrialRecord
from vnetbench.study.file.load import parse_study
from vnetbench.study.plan import make_plan
from vnetbench.study.workloads import TCP_STREAM

RECORDED_FILE = Path(__file__).parents[1] / "tests" / "data" / "results" / "sixteen-streams.vnb.xz"
"""Real trials of 0.7 s with 16 streams between two namespaces, at two MTUs."""
_STREAMS, _MSS_BYTES = (1, 2, 4, 8, 16), (1460, 8960)
_COMMANDS = (("show",), ("show",), ("explain",), ("report",))
_CAMPAIGN_STUDY = fixtures.STUDY_TEXT.replace("max_trials = 20", "max_trials = 10000")


@dataclass(frozen=True)
class Cost:
    """What one run of a command took."""

    cpu_s: float
    elapsed_s: float
    peak_mb: float


def write_sampled_file(path: Path, trial_count: int, folder: Path) -> None:
    """Write a results file that repeats the recorded trials; `folder` is for temporary files."""
    recorded = folder / "recorded.vnb"
    recorded.write_bytes(lzma.decompress(RECORDED_FILE.read_bytes()))
    with closing(ResultsFile.open_to_read(recorded)) as source:
        campaign, trials = source.campaign(), list(source.trials())
        study = parse_study(campaign.study_text, None, campaign.overrides)
        file = ResultsFile.create(path, study, make_plan(study, campaign.seed))
        for subject, facts in source.facts().items():
            file.add_facts(subject, facts)
        for shape, description in source.testbed_descriptions_by_shape().items():
            file.add_testbed(shape, description)
    file.add_trials(_repeat_trials(trials, trial_count))
    file.close(FINISHED)


def _repeat_trials(trials: Sequence[TrialRecord], count: int) -> Iterator[TrialRecord]:
    blocks: Counter[int] = Counter()
    for number in range(count):
        trial = trials[number % len(trials)]
        yield replace(trial, block=blocks[trial.treatment], since_campaign_start_s=float(number))
        blocks[trial.treatment] += 1


def write_imported_file(path: Path, trial_count: int, folder: Path) -> Cost:
    """Import iperf3 logs into a results file, and return its cost: ten treatments, ten intervals a trial."""
    noise = random.Random(0)
    log = folder / f"{trial_count}.log"
    with log.open("w") as file:
        file.writelines(_make_log(number, noise) for number in range(trial_count))
    return measure_command(["import", str(log), "--workload", TCP_STREAM, "-o", str(path)])


def _make_log(number: int, noise: random.Random) -> str:
    streams, mss_bytes = _STREAMS[number % 5], _MSS_BYTES[number // 5 % 2]
    rates = [(3 + mss_bytes / 2000 + streams**0.3) * noise.gauss(1, 0.04) for _ in range(10)]
    lines = [f"$ iperf3 -c 10.0.0.2 -t 10 -P {streams} -M {mss_bytes}", "iperf 3.12"]
    lines += [f"[{5 + 2 * i:3}] local 10.0.0.1 port {30000 + i} connected to 10.0.0.2 port 5201"
              for i in range(streams)]  # fmt: skip
    lines.append("[ ID] Interval           Transfer     Bitrate")
    for begin, end, rate in [(i, i + 1, rate) for i, rate in enumerate(rates)]:
        lines += _interval_lines(streams, f"{begin}.00-{end}.00", end - begin, rate, "")
    mean = sum(rates) / len(rates)
    lines.append("- - - - - - - - - - - - - - - - - - - - - - - - -")
    lines += _interval_lines(streams, "0.00-10.00", 10, mean, "sender")
    lines += _interval_lines(streams, "0.00-10.00", 10, mean, "receiver")
    return "\n".join([*lines, "", "iperf Done.", ""])


def _interval_lines(streams: int, interval: str, seconds: int, gbps: float, end: str) -> Iterator[str]:
    names = [f"{5 + 2 * i}" for i in range(streams)]
    for name in [*names, "SUM"] if streams > 1 else names:
        rate = gbps if name == "SUM" else gbps / streams
        transfer = f"{rate * seconds / 8 * 1e9 / 2**20:.0f} MBytes"
        yield f"[{name:>3}]   {interval}   sec  {transfer}  {rate:.2f} Gbits/sec                  {end}"


def measure_command(arguments: Sequence[str]) -> Cost:
    """Run a command of vnetbench and return its cost; its output is discarded.

    Raises:
        RuntimeError: The command failed.
    """
    start_s = time.monotonic()
    null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    command = [sys.executable, "-m", "vnetbench", *arguments]
    pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=[null])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"vnetbench {' '.join(arguments)} failed")
    elapsed_s = time.monotonic() - start_s
    return Cost(usage.ru_utime + usage.ru_stime, elapsed_s, usage.ru_maxrss / 1024)


def measure_campaign_ms(trial_count: int) -> float:
    """Return the CPU time per trial that the statistics of a running campaign take, in ms."""
    study = fixtures.make_study(_CAMPAIGN_STUDY)
    progress = CampaignProgress(study, make_plan(study, 1))
    treatments, noise = len(progress.treatments), random.Random(0)
    start_s = time.process_time()
    for number in range(trial_count):
        rates = tuple(1e10 * noise.gauss(1, 0.05) for _ in range(14))
        progress.add_finished_trial(
            number % treatments, number // treatments, TimeSeries(rates, (0.05,) * 14), 0.05
        )
        progress.estimate_remaining()
    return 1e3 * (time.process_time() - start_s) / trial_count


def _print_row(file: tuple[str, Path, int], command: str, cost: Cost) -> None:
    label, path, trial_count = file
    values = f"{cost.cpu_s:.2f} | {cost.elapsed_s:.2f} | {cost.peak_mb:.0f}"
    click.echo(f"| {label} | {path.stat().st_size // trial_count} | {command} | {values} |")


@click.command()
@click.option("--sampled", default=200, show_default=True, type=click.IntRange(1), help="Sampled trials.")
@click.option(
    "--imported", default=[1000, 10_000], show_default=True, multiple=True, type=click.IntRange(1),
    help="Imported trials. Repeatable.",
)  # fmt: skip
@click.option(
    "--campaign", default=[1000, 10_000], show_default=True, multiple=True, type=click.IntRange(1),
    help="Trials of a campaign. Repeatable.",
)  # fmt: skip
def main(sampled: int, imported: Sequence[int], campaign: Sequence[int]) -> None:
    """Print the costs as Markdown tables."""
    click.echo("| file | bytes a trial | command | CPU s | elapsed s | peak MB |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = name
        files = [(f"{sampled} trials, 16 streams", folder / "sampled.vnb", sampled)]
        write_sampled_file(files[0][1], sampled, folder)
        for count in imported:
            files.append((f"{count} imported trials", folder / f"imported-{count}.vnb", count))
            _print_row(files[-1], "import", write_imported_file(files[-1][1], count, folder))
        for file in files:
            for number, command in enumerate(_COMMANDS):
                cost = measure_command([*command, str(file[1])])
                _print_row(file, f"{command[0]}, first" if number == 0 else command[0], cost)
    click.echo("\n| trials of a campaign | CPU ms a trial for its statistics |\n|---|---|")
    for count in campaign:
        click.echo(f"| {count} | {measure_campaign_ms(count):.2f} |")


if __name__ == "__main__":
    main()
