"""100,000 mutants of the logs in `tests/data/logs`: each is read to its end, and told of consistently."""

from __future__ import annotations

import io
import math
import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.importers.log_mutations import mutant
from tests.importers.test_logs import LOGS, EXPECTATIONS, find_log
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.summarize import summarize
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.results_writer import write_results
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import FORWARD, REVERSE, ReportedValue, Run
from vnetbench.results.file import ResultsFile
from vnetbench.study.factors.registry import check_factor_workload, format_level, parse_level
from vnetbench.study.workloads import WORKLOADS

MUTANTS = 100_000
SLICES = 50
"""Tests that the mutants are dealt out to, so that all CPUs have some."""
ESTIMATED = 101
"""Of so many mutants one is taken further, into a results file and its estimates."""
PATIENCE_S = 60
"""Of CPU time, for one mutant of some ten thousand bytes: what takes more has come to no end."""
MEMORY = 512 * 2**20
"""More than what the process had before a slice; the logs are of some ten thousand bytes."""

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("part", range(SLICES))
def test_a_mutated_log_is_read_to_its_end(part: int, tmp_path: Path) -> None:
    logs = [find_log(each) for each in EXPECTATIONS]
    texts = [log.read_bytes() for log in logs]
    draw = random.Random(20260 + part)
    at_fault = tmp_path / "mutant.log"
    with bounded_memory():
        for number in range(part, MUTANTS, SLICES):
            of = number // SLICES % len(texts)
            text = mutant(draw, texts[of], draw.choice(texts))
            try:
                with an_end():
                    gathered = check(text)
                    if number % ESTIMATED == 0:
                        check_results(gathered, tmp_path)
                    gathered.close()
            except BaseException as error:
                at_fault.write_bytes(text)
                error.add_note(f"mutant {number} of {logs[of].relative_to(LOGS)}, kept as {at_fault}")
                raise


def check(text: bytes) -> RunStore:
    """Fails where what is told of a log contradicts itself, or is none that a results file may hold."""
    lines = list(decode_lines(io.BytesIO(text)))
    gathered = RunStore()
    before = runs = 0
    for item in parse_log(lines):
        assert before <= item.first_line <= item.last_line <= len(lines), item
        before = item.first_line
        runs += isinstance(item, Run)
        gathered.add_item("mutant.log", item)
    assert runs - gathered.unreadable_count <= gathered.run_count + gathered.failure_counts.total() <= runs
    for workload, count in gathered.workload_counts().items():
        heads = gathered.run_summaries(workload)
        assert len(heads) == count > 0
        for head in heads:
            check_run(gathered.load_run(head.id)[1])
    return gathered


def check_run(run: Run) -> None:
    """Fails where a run is none that a results file may hold."""
    assert run.workload in WORKLOADS
    assert not run.failure
    assert set(run.metrics) <= set(METRICS)
    for name, level in run.factors.items():
        assert parse_level(name, format_level(name, level)) == level, name
        check_factor_workload(name, run.workload)
    for figure in run.metrics.values():
        check_figure(figure)
    for interval in run.intervals:
        assert 0 <= interval.start_s <= interval.end_s < math.inf
        assert interval.direction in (FORWARD, REVERSE)
        for figure in interval.values.values():
            check_figure(figure)
    assert run.duration_s is None or 0 <= run.duration_s < math.inf
    assert 0 <= run.omitted_s < math.inf


def check_results(gathered: RunStore, folder: Path) -> None:
    """Fails where no results file can be made of the runs, or it cannot be estimated."""
    for workload, count in gathered.workload_counts().items():
        path = folder / f"{workload}.vnb"
        made = write_results(gathered, workload, path, "mutant")
        file = ResultsFile.open_to_read(path)
        summary = summarize(file)
        file.close()
        assert sum(treatment.trial_count for treatment in summary.treatments) == made.trials
        assert made.trials + made.merged_runs == count
        path.unlink()


def check_figure(figure: ReportedValue) -> None:
    """Fails where it is no number, or none that may have been rounded to what was printed."""
    assert -math.inf < figure.low <= figure.value <= figure.high < math.inf


@contextmanager
def an_end() -> Iterator[None]:
    """Raises where the body does not come to its end."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not read to its end in {PATIENCE_S} s of CPU time")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Lets the process have so much more memory: a MemoryError is what it raises beyond."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
