"""Comparison of the start times of guests: resumed from a snapshot, and booted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, ComparisonSpec, Competitor, Measure, RunValues
from bench.programs import RunFailed
from bench.testbed import TESTBED_NAME, PeerTestbed
from vnetbench.errors import BenchError
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest.lab import QemuLab
from vnetbench.lab.guest.prerequisites import prepare_guests
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.study.labs import QEMU
from vnetbench.study.model import TestbedSpec

_READY = Measure("s until two guests are ready", 2, higher_is_better=False, aim=Aim(2.0, is_relative=False))
_SHAPE = GuestShape()


def guest_start(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the times until both guests of a new testbed have their addresses."""
    prerequisites = prepare_guests([_SHAPE])
    spec = TestbedSpec(lab=QEMU)
    resuming_lab = QemuLab(spec, "bench", prerequisites)
    booting_lab = QemuLab(spec, "bench", prerequisites, uses_snapshots=False)
    # The first testbed boots and creates the snapshot.
    _measure_start(resuming_lab)
    competitors = (
        Competitor(f"{agent.TOOL}, resumed", {"": partial(_measure_start, resuming_lab)}, is_ours=True),
        Competitor(f"{agent.TOOL}, booted", {"": partial(_measure_start, booting_lab)}),
    )
    title = f"Guests with virtio-net, accelerator {prerequisites.accelerator.name}"
    return ComparisonSpec("guest-start", title, (_READY,), competitors)


def _measure_start(lab: QemuLab) -> RunValues:
    start_s = time.monotonic()
    try:
        testbed = lab.create_testbed(f"{TESTBED_NAME}-g", _SHAPE)
    except (BenchError, TrialFailed) as error:
        raise RunFailed(str(error)) from error
    elapsed_s = time.monotonic() - start_s
    testbed.close()
    return {_READY.name: elapsed_s}
