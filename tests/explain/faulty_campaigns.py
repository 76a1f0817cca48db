"""Real campaigns in namespaces, with a fault that somebody else causes during chosen trials."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import fixtures
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.campaign.trial import TrialLoad
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.testbed import Testbed
from vnetbench.results.file import ResultsFile

Fault = Callable[[dict[str, str]], None]
"""Causes a fault; takes the namespaces of the testbed by their short names: `a1`, `b1`, `sw`."""


def run_in(namespace: str, *command: str) -> None:
    """Run a command in a namespace."""
    subprocess.run(["ip", "netns", "exec", namespace, *command], check=True)


def measure_with_fault(
    folder: Path, study_text: str, fault: Fault, faulty_trials: set[int], after_s: float = 0.4
) -> CampaignSummary:
    """Run a campaign whose trials of these numbers, from 0, meet a fault, and return its summary.

    Args:
        folder: Where the results file is written.
        study_text: The study.
        fault: Called in a thread of its own during each of these trials, or before them.
        faulty_trials: Numbers of the attempts that meet the fault.
        after_s: When the fault begins, in seconds after the path was proved. With 0 the fault is complete
            before the load begins.
    """
    study = fixtures.make_study(study_text)
    file, plan = fixtures.create_results_file(folder / "faulty.vnb", study)
    attempts = iter(range(1000))

    @contextmanager
    def inject(testbed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        name = testbed.topology.testbed_name  # type: ignore[attr-defined]
        namespaces = {short: f"vnb.{name}.{short}" for short in ("a1", "b1", "sw")}
        is_faulty = next(attempts) in faulty_trials
        if is_faulty and not after_s:
            fault(namespaces)
        timer = threading.Timer(after_s, fault, (namespaces,))
        if is_faulty and after_s:
            timer.start()
        try:
            yield testbed
        finally:
            if timer.is_alive():
                timer.join()

    instrument = LabInstrument(NetnsLab(study.testbed, "a test"), study.testbed, inject)
    with SignalHandler() as signal_handler:
        session = CampaignSession(file, study, plan, instrument, lambda *_: None, lambda: None)
        status = session.run(signal_handler)
    file.close(status)
    stored = ResultsFile.open_to_read(folder / "faulty.vnb")
    try:
        return summarize(stored)
    finally:
        stored.close()
