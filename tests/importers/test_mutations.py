"""Import mutants of the logs in `tests/data/logs`: each is read to its end with consistent results.

`make test` imports 4,000 and `make test-long` 100,000. If none of n mutants fails, then with 95 % confidence
fewer than 3 in n of such mutants do.
"""

from __future__ import annotations

import io
import math
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fuzz.limits import limit_cpu_time
from tests.importers.log_mutations import mutate
from tests.importers.test_logs import EXPECTATIONS, LOGS, find_log
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.summarize import summarize
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.results_writer import write_results
from vnetbench.importers.run_store import RunStore
from vnetbench.importers.runs import RoundedValue, Run
from vnetbench.results.file import ResultsFile
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.factors.registry import check_factor_workload, format_level, parse_level
from vnetbench.study.workloads import WORKLOADS

MUTANTS = 100_000
SLICES = 50
"""Number of tests that share the mutants, so that all CPUs have work. Each mutates every log."""
QUICK_SLICES = 2
"""The slices that `make test` imports."""
ESTIMATED_EVERY = 101
"""One of so many mutants is also written to a results file and estimated."""
MAX_EXTRA_BYTES = 512 * 2**20
"""Memory on top of what the process has before a slice. The logs have some ten thousand bytes."""

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "slice_number",
    [*range(QUICK_SLICES), *(pytest.param(n, marks=pytest.mark.long) for n in range(QUICK_SLICES, SLICES))],
)
def test_a_mutated_log_is_read_to_its_end(slice_number: int, tmp_path: Path) -> None:
    logs = [find_log(each) for each in EXPECTATIONS]
    texts = [log.read_bytes() for log in logs]
    rng = random.Random(20260 + slice_number)
    failed_log = tmp_path / "mutant.log"
    with limited_memory():
        for number in range(slice_number, MUTANTS, SLICES):
            log_number = number // SLICES % len(texts)
            text = mutate(rng, texts[log_number], rng.choice(texts))
            try:
                with limit_cpu_time():
                    store = check_log(text)
                    if number % ESTIMATED_EVERY == 0:
                        check_results(store, tmp_path)
                    store.close()
            except BaseException as error:
                failed_log.write_bytes(text)
                error.add_note(
                    f"mutant {number} of {logs[log_number].relative_to(LOGS)}, kept as {failed_log}"
                )
                raise


def check_log(text: bytes) -> RunStore:
    """Fail if the results of a log are inconsistent or invalid."""
    lines = list(decode_lines(io.BytesIO(text)))
    store = RunStore()
    before = runs = 0
    for item in parse_log(lines):
        assert before <= item.first_line <= item.last_line <= len(lines), item
        before = item.first_line
        runs += isinstance(item, Run)
        store.add_item("mutant.log", item)
    assert (
        runs - store.unreadable_section_or_log_count
        <= store.complete_run_count + store.incomplete_run_count_by_failure.total()
        <= runs
    )
    for workload, count in store.count_runs_by_workload().items():
        summaries = store.run_summaries(workload)
        assert len(summaries) == count > 0
        for summary in summaries:
            check_run(store.load_log_name_and_run(summary.run_id)[1])
    return store


def check_run(run: Run) -> None:
    """Fail if a run cannot be in a results file."""
    assert run.workload in WORKLOADS
    assert not run.failure
    assert set(run.metrics) <= set(METRICS)
    for name, level in run.factors.items():
        assert parse_level(name, format_level(name, level)) == level, name
        check_factor_workload(name, run.workload)
    for value in run.metrics.values():
        check_value(value)
    for interval in run.intervals:
        assert 0 <= interval.start_s <= interval.end_s < math.inf
        assert interval.direction in (FORWARD, REVERSE)
        for value in interval.values.values():
            check_value(value)
    assert run.measured_duration_s is None or 0 <= run.measured_duration_s < math.inf
    assert 0 <= run.omitted_s < math.inf


def check_results(store: RunStore, folder: Path) -> None:
    """Fail if the runs cannot be written to a results file and estimated."""
    for workload, count in store.count_runs_by_workload().items():
        path = folder / f"{workload}.vnb"
        written = write_results(store, workload, path, "mutant")
        file = ResultsFile.open_to_read(path)
        summary = summarize(file)
        file.close()
        assert sum(treatment.trial_count for treatment in summary.treatments) == written.trial_count
        assert written.trial_count + written.merged_trial_count == count
        path.unlink()


def check_value(value: RoundedValue) -> None:
    """Fail if a value is not finite or outside its rounding range."""
    assert -math.inf < value.low <= value.value <= value.high < math.inf


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit the memory of the process: it raises MemoryError beyond the limit."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MAX_EXTRA_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
