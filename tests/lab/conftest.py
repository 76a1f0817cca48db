"""What the tests of hosts share: a client of their own, and that nothing is left on hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import hosts_ground
from tests.lab.hosts_ground import Ground
from vnetbench.lab import left_on_hosts
from vnetbench.process import this_process


@pytest.fixture
def reached(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tests' own client and state; afterwards nothing is left on hosts, nor of connections here."""
    for name, value in ground.environment.items():
        monkeypatch.setenv(name, value)
    yield
    assert hosts_ground.folders() == []
    assert hosts_ground.agents() == {}
    assert left_on_hosts.entries() == []
    assert this_process() not in hosts_ground.connections()
