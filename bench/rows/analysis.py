"""Comparison of the CPU time that the analysis of large campaigns takes."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench import agent
from bench.binaries import Binary
from bench.comparison import ComparisonSpec, Competitor, Measure, RunValues
from bench.testbed import PeerTestbed
from tests import fixtures
from tests.explain.comparisons.simulated import simulated
from vnetbench.commands.summaries import read_summary_without_experiments
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.text.narrative import build_narrative
from vnetbench.results.records import FINISHED
from vnetbench.study.model import Level

_CPU_TIME = Measure("CPU s", 2, higher_is_better=False)
_TRIALS = 1000
_STUDY = """\
title = "Large"
workload = "tcp_stream"
[factors]
streams = [1, 2, 4, 8, 16]
mtu = [1500, 3000, 4500, 9000]
tso = ["on", "off"]
gro = ["on", "off"]
"""
_MATRIX: Mapping[str, Sequence[Level]] = {
    "streams": (1, 2, 4, 8, 12, 16),
    "message_size": (64, 512, 4096, 32768, 65536, 131072),
    "mtu": (1500, 3000, 6000, 9000),
    "queues": (1, 2, 4),
    "gro": ("on", "off"),
}


def campaign_analysis(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the estimates of a large file with a plain read of it, and measure an explanation."""
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    path = Path(folder.name) / "large.vnb"
    _write_large_file(path)
    campaign = simulated(np.random.default_rng(0), _MATRIX, _goodput_bps)

    def time_work(work: Callable[[], None]) -> Mapping[str, Callable[[], RunValues]]:
        def run() -> RunValues:
            assert folder.name  # the reference keeps the folder until the last run
            start_s = time.process_time()
            work()
            return {_CPU_TIME.name: time.process_time() - start_s}

        return {"": run}

    competitors = (
        Competitor(
            f"{agent.TOOL}, {_TRIALS} trials estimated", time_work(lambda: _estimate(path)), is_ours=True
        ),
        Competitor("SQLite and Python's zlib and json, the same file", time_work(lambda: _read(path))),
        Competitor(
            f"{agent.TOOL}, {len(campaign.treatments)} treatments explained",
            time_work(lambda: _explain(campaign)),
            is_ours=True,
        ),
    )
    return ComparisonSpec("explain", "Large campaigns", (_CPU_TIME,), competitors)


def _goodput_bps(levels: Mapping[str, Level]) -> float:
    size = float(levels["message_size"])
    return 1e9 * min(6.0, float(levels["streams"])) * size / (size + 2000)


def _write_large_file(path: Path) -> None:
    file, plan = fixtures.create_results_file(path, fixtures.make_study(_STUDY))
    count = len(plan.treatments)
    file.add_trials(fixtures.make_trial(number % count, number // count) for number in range(_TRIALS))
    file.close(FINISHED)


def _estimate(path: Path) -> None:
    assert sum(each.trial_count for each in read_summary_without_experiments(path).treatments) == _TRIALS


def _read(path: Path) -> None:
    db = sqlite3.connect(path)
    texts = [zlib.decompress(data) for (data,) in db.execute("SELECT data FROM endpoint_data")]
    db.close()
    assert all(isinstance(json.loads(text), dict) for text in texts)


def _explain(campaign: CampaignSummary) -> None:
    assert build_narrative(campaign).findings
