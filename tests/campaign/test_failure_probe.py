"""The bench probes the path after each failure whose cause the probe can decide."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vnetbench.campaign import failure_probe
from vnetbench.campaign.failure_probe import add_path_probe
from vnetbench.failure_kinds import KINDS_THAT_PROBE_DECIDES, NO_CPU_TIME, PATH_PROBE_KEY, SYSTEM_REFUSED
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.path_probe import PATH_MTU_KEY
from vnetbench.study.factors.registry import complete_levels

pytestmark = pytest.mark.pure

NOTHING_PASSED = {"small_bytes": 128, "small_passed": False, "large_bytes": 1500, "large_passed": False}


def probed(monkeypatch: pytest.MonkeyPatch, kind: str) -> bool:
    """Return whether the bench probes the path after a failure of this kind."""
    testbed: Any = SimpleNamespace(endpoints=(), agents={})
    monkeypatch.setattr(failure_probe, "probe_small_and_large_packets", lambda *_, **__: NOTHING_PASSED)
    failure = TrialFailed("it failed", kind=kind)
    add_path_probe(failure, testbed, complete_levels({}), {PATH_MTU_KEY: 1500})
    return PATH_PROBE_KEY in failure.evidence


def test_every_kind_that_a_probe_decides_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SYSTEM_REFUSED in KINDS_THAT_PROBE_DECIDES
    assert all(probed(monkeypatch, kind) for kind in KINDS_THAT_PROBE_DECIDES)
    assert probed(monkeypatch, "interface")
    assert not probed(monkeypatch, NO_CPU_TIME)
