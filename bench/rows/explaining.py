"""How much CPU time large campaigns take: to be read and estimated, and to be explained."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench import agent
from bench.binaries import Binary
from bench.comparison import Competitor, RunValues, Measure, ComparisonSpec
from bench.testbed import PeerTestbed
from tests import fixtures
from tests.explain.comparisons.simulated import simulated
from vnetbench.commands.summaries import read_file
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.text.narrative import build_narrative
from vnetbench.results.records import FINISHED
from vnetbench.study.model import Level

_SPENT = Measure("CPU s", 2, higher_is_better=False)
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


def explaining(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """A file of many trials estimated, beside a plain reading of it; and a matrix of treatments explained."""
    folder = tempfile.TemporaryDirectory(prefix="vnetbench-bench-")
    path = Path(folder.name) / "large.vnb"
    _write(path)
    campaign = simulated(np.random.default_rng(0), _MATRIX, _goodput_bps)

    def timed(work: Callable[[], None]) -> Mapping[str, Callable[[], RunValues]]:
        def run() -> RunValues:
            assert folder.name  # there for as long as there are entrants
            began = time.process_time()
            work()
            return {_SPENT.name: time.process_time() - began}

        return {"": run}

    entrants = (
        Competitor(f"{agent.TOOL}, {_TRIALS} trials estimated", timed(lambda: _estimate(path)), is_ours=True),
        Competitor("SQLite and Python's json, the same file", timed(lambda: _read(path))),
        Competitor(
            f"{agent.TOOL}, {len(campaign.treatments)} treatments explained",
            timed(lambda: _explain(campaign)),
            is_ours=True,
        ),
    )
    return ComparisonSpec("explain", "Large campaigns", (_SPENT,), entrants)


def _goodput_bps(levels: Mapping[str, Level]) -> float:
    size = float(levels["message_size"])
    return 1e9 * min(6.0, float(levels["streams"])) * size / (size + 2000)


def _write(path: Path) -> None:
    file, plan = fixtures.create_results_file(path, fixtures.make_study(_STUDY))
    count = len(plan.treatments)
    file.add_trials(fixtures.make_trial(number % count, number // count) for number in range(_TRIALS))
    file.close(FINISHED)


def _estimate(path: Path) -> None:
    assert sum(each.trial_count for each in read_file(path).treatments) == _TRIALS


def _read(path: Path) -> None:
    db = sqlite3.connect(path)
    texts = [text for (text,) in db.execute("SELECT counters FROM sample")]
    texts += [text for (text,) in db.execute("SELECT cpu FROM sample WHERE cpu IS NOT NULL")]
    texts += [text for (text,) in db.execute("SELECT details FROM stream_sample")]
    db.close()
    assert all(isinstance(json.loads(text), dict | list) for text in texts)


def _explain(campaign: CampaignSummary) -> None:
    assert build_narrative(campaign).findings
