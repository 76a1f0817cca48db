"""The bench probes the path after each failure whose cause the probe can decide."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from vnetbench.campaign import failure_probe
from vnetbench.campaign.failure_probe import add_path_probe
from vnetbench.failure_kinds import (
    KINDS_PATH_MAY_HAVE_CAUSED,
    NO_CPU_TIME,
    NO_DATA,
    PATH_PROBE_RESULT_KEY,
    SYSTEM_REFUSED,
)
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.path_probe import PATH_MTU_KEY, UDP
from vnetbench.study.factors.registry import complete_levels

pytestmark = pytest.mark.pure

NOTHING_PASSED = {"small_bytes": 128, "small_passed": False, "large_bytes": 1500, "large_passed": False}


ALL_PASSED = {"small_bytes": 128, "small_passed": True, "large_bytes": 1500, "large_passed": True}


def probed(monkeypatch: pytest.MonkeyPatch, kind: str) -> bool:
    """Return whether the bench probes the path after a failure of this kind."""
    testbed: Any = SimpleNamespace(endpoints=(), agents={})
    monkeypatch.setattr(failure_probe, "probe_small_and_large_packets", lambda *_, **__: NOTHING_PASSED)
    failure = TrialFailed("it failed", kind=kind)
    add_path_probe(failure, testbed, complete_levels({}), {PATH_MTU_KEY: 1500})
    return PATH_PROBE_RESULT_KEY in failure.evidence


def test_every_kind_that_a_probe_decides_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SYSTEM_REFUSED in KINDS_PATH_MAY_HAVE_CAUSED
    assert all(probed(monkeypatch, kind) for kind in KINDS_PATH_MAY_HAVE_CAUSED)
    assert probed(monkeypatch, "interface")
    assert not probed(monkeypatch, NO_CPU_TIME)


@pytest.mark.parametrize(
    ("uses_tcp", "large_segments_pass", "expected"),
    [
        (True, False, {**ALL_PASSED, "large_passed": False, "protocol": "tcp"}),
        (True, True, ALL_PASSED),
        (False, False, ALL_PASSED),
    ],
)
def test_a_connection_decides_if_all_datagrams_pass(
    monkeypatch: pytest.MonkeyPatch, uses_tcp: bool, large_segments_pass: bool, expected: Mapping[str, object]
) -> None:
    def probe(*_: object, protocol: str, **__: object) -> dict[str, object]:
        if protocol == UDP:
            return dict(ALL_PASSED)
        return {**ALL_PASSED, "large_passed": large_segments_pass, "protocol": protocol}

    monkeypatch.setattr(failure_probe, "probe_small_and_large_packets", probe)
    testbed: Any = SimpleNamespace(endpoints=(), agents={})
    failure = TrialFailed("no data arrived", kind=NO_DATA)
    add_path_probe(failure, testbed, complete_levels({}), {PATH_MTU_KEY: 1500}, uses_tcp)
    assert failure.evidence[PATH_PROBE_RESULT_KEY] == expected
