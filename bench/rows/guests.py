"""How long it takes until guests are ready: resumed from a snapshot, and booted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, Competitor, RunValues, Measure, ComparisonSpec
from bench.testbed import TESTBED_NAME, PeerTestbed
from bench.programs import RunFailed
from vnetbench.errors import BenchError
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.lab.guest.lab import QemuLab
from vnetbench.lab.guest.prerequisites import prepare_guests
from vnetbench.lab.errors import TrialFailed
from vnetbench.study.labs import QEMU
from vnetbench.study.model import TestbedSpec

_READY = Measure("s until two guests are ready", 2, higher_is_better=False, aim=Aim(2.0, is_relative=False))
_SHAPE = GuestShape()


def guest_start(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """A testbed of two guests with virtio-net, network included, until both have their addresses."""
    ready = prepare_guests([_SHAPE])
    asked = TestbedSpec(lab=QEMU)
    resuming = QemuLab(asked, "bench", ready)
    booting = QemuLab(asked, "bench", ready, uses_snapshots=False)
    # The first of its kind boots, and is kept.
    _raise(resuming)
    entrants = (
        Competitor(f"{agent.TOOL}, resumed", {"": partial(_raise, resuming)}, is_ours=True),
        Competitor(f"{agent.TOOL}, booted", {"": partial(_raise, booting)}),
    )
    return ComparisonSpec("guest-start", f"Guests with virtio-net, by {ready.accelerator.name}", (_READY,), entrants)


def _raise(lab: QemuLab) -> RunValues:
    began = time.monotonic()
    try:
        bed = lab.create_testbed(f"{TESTBED_NAME}-g", _SHAPE)
    except (BenchError, TrialFailed) as error:
        raise RunFailed(str(error)) from error
    took_s = time.monotonic() - began
    bed.close()
    return {_READY.name: took_s}
