"""What the tests of hosts share: a client of their own, and that nothing is left on hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import Ground
from vnetbench.lab.hosts import leftovers
from vnetbench.process import current_process_identity


@pytest.fixture
def reached(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tests' own client and state; afterwards nothing is left on hosts, nor of connections here."""
    for name, value in ground.environment.items():
        monkeypatch.setenv(name, value)
    yield
    assert ssh_hosts.folders() == []
    assert ssh_hosts.agents() == {}
    assert leftovers.list_leftovers() == []
    assert current_process_identity() not in ssh_hosts.connections()
