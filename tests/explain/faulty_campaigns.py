"""Real campaigns in namespaces, with a fault that somebody else causes during chosen trials."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from tests import fixtures
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.campaign.trial import TrialLoad
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.lab import netlink
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.testbed import Testbed
from vnetbench.results.file import ResultsFile

Fault = Callable[[dict[str, str]], None]
"""Causes a fault; takes the namespaces of the testbed by their short names: `a1`, `b1`, `sw`."""
LEAST_LOAD_BYTES = 5_000_000
"""More than arrives at an endpoint before the load of a trial."""


class Moment(Enum):
    """When a fault comes, whatever time a busy machine takes until then."""

    BEFORE_LOAD = "after the path was proved"
    UNDER_LOAD = "as soon as the load flows"
    AFTER_LOAD = "before the path is proved for the next trial"


def run_in(namespace: str, *command: str, input_text: str | None = None) -> None:
    """Run a command in a namespace."""
    subprocess.run(["ip", "netns", "exec", namespace, *command], input=input_text, text=True, check=True)


def measure_with_fault(
    folder: Path,
    study_text: str,
    fault: Fault,
    faulty_trials: set[int],
    moment: Moment = Moment.UNDER_LOAD,
) -> CampaignSummary:
    """Run a campaign whose trials of these numbers, from 0, meet a fault, and return its summary.

    Args:
        folder: Where the results file is written.
        study_text: The study.
        fault: Called once in each of these trials.
        faulty_trials: Numbers of the attempts that meet the fault.
        moment: When the fault comes.
    """
    study = fixtures.make_study(study_text)
    file, plan = fixtures.create_results_file(folder / "faulty.vnb", study)
    attempts = iter(range(1000))

    @contextmanager
    def inject(testbed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        name = testbed.topology.testbed_name  # type: ignore[attr-defined]
        namespaces = {short: f"vnb.{name}.{short}" for short in ("a1", "b1", "sw")}
        if next(attempts) not in faulty_trials:
            yield testbed
        elif moment is Moment.UNDER_LOAD:
            with _fault_under_load(fault, namespaces):
                yield testbed
        else:
            if moment is Moment.BEFORE_LOAD:
                fault(namespaces)
            yield testbed
            if moment is Moment.AFTER_LOAD:
                fault(namespaces)

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


@contextmanager
def _fault_under_load(fault: Fault, namespaces: dict[str, str]) -> Iterator[None]:
    """Cause a fault in a thread of its own once the receiver gets the load of the trial in the body."""
    has_ended = threading.Event()
    before = _received_bytes(namespaces["b1"])

    def act() -> None:
        while not has_ended.is_set():
            if _received_bytes(namespaces["b1"]) > before + LEAST_LOAD_BYTES:
                fault(namespaces)
                return
            has_ended.wait(0.005)

    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        try:
            yield
        finally:
            has_ended.set()
            acting.result()


def _received_bytes(namespace: str) -> int:
    with netlink.open_in_namespace(namespace) as ipr:
        (link,) = ipr.get_links(netlink.interface_index(ipr, "eth0"))
        return int(link.get_attr("IFLA_STATS64")["rx_bytes"])
