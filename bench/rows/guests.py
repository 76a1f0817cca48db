"""How long it takes until guests are ready: resumed from a snapshot, and booted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from bench import agent
from bench.binaries import Binary
from bench.contest import Aim, Entrant, Figures, Measure, Row
from bench.ground import NAME, Ground
from bench.programs import RunFailed
from vnetbench.errors import BenchError
from vnetbench.lab.guest.description import GuestShape
from vnetbench.lab.guest.lab import QemuLab
from vnetbench.lab.guest.ready import get_ready
from vnetbench.lab.refusal import TrialFailed
from vnetbench.study.labs import QEMU
from vnetbench.study.model import TestbedAsked

_READY = Measure("s until two guests are ready", 2, higher_is_better=False, aim=Aim(2.0, of_best_peer=False))
_SHAPE = GuestShape()


def guest_start(ground: Ground, binaries: Sequence[Binary], seconds: int) -> Row:
    """A testbed of two guests with virtio-net, network included, until both have their addresses."""
    ready = get_ready([_SHAPE])
    asked = TestbedAsked(lab=QEMU)
    resuming = QemuLab(asked, "bench", ready)
    booting = QemuLab(asked, "bench", ready, keeps_guests=False)
    # The first of its kind boots, and is kept.
    _raise(resuming)
    entrants = (
        Entrant(f"{agent.TOOL}, resumed", {"": partial(_raise, resuming)}, is_ours=True),
        Entrant(f"{agent.TOOL}, booted", {"": partial(_raise, booting)}),
    )
    return Row("guest-start", f"Guests with virtio-net, by {ready.accelerator.name}", (_READY,), entrants)


def _raise(lab: QemuLab) -> Figures:
    began = time.monotonic()
    try:
        bed = lab.raise_bed(f"{NAME}-g", _SHAPE)
    except (BenchError, TrialFailed) as error:
        raise RunFailed(str(error)) from error
    took_s = time.monotonic() - began
    bed.close()
    return {_READY.name: took_s}
