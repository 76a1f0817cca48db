"""Shares of evidence and metrics of real runs are at most 100 %."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bench.corpus.store import LabelledRun, read_labelled_runs
from bench.corpus.test_data import PACKED_SUFFIX, TEST_CORPUS
from vnetbench.commands.summaries import read_summary_without_experiments
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.metrics import METRICS
from vnetbench.quantity import CPU_SUM_UNIT

pytestmark = pytest.mark.pure

_SHARE_NAMES = {
    name
    for name, metric in (METRICS | EVIDENCE_METRICS).items()
    if metric.unit.startswith("%") and metric.unit != CPU_SUM_UNIT
}
_ROUNDING = 1e-9


@pytest.mark.parametrize("run", read_labelled_runs(TEST_CORPUS), ids=lambda run: str(run.path.stem))
def test_no_share_of_a_real_run_exceeds_100_percent(run: LabelledRun, tmp_path: Path) -> None:
    unpacked = tmp_path / run.path.name
    unpacked.write_bytes(gzip.decompress(run.path.with_name(run.path.name + PACKED_SUFFIX).read_bytes()))
    points = [
        point
        for treatment in read_summary_without_experiments(unpacked).treatments
        for point in treatment.points
    ]
    shares = [
        (name, value)
        for point in points
        for name, value in (*point.evidence.items(), *point.values.items())
        if name in _SHARE_NAMES
    ]
    assert shares
    assert [each for each in shares if each[1] > 100 + _ROUNDING] == []
