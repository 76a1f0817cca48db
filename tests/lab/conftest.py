"""Fixtures for tests of hosts: a private SSH client, and the check that nothing is left on hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import ssh_hosts
from tests.lab.ssh_hosts import HostNetwork
from vnetbench.lab.hosts import leftovers
from vnetbench.process import read_own_process_identity


@pytest.fixture
def private_ssh_client(network: HostNetwork, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use a private SSH client and state; check that nothing is left on hosts and of connections."""
    for name, value in network.environment.items():
        monkeypatch.setenv(name, value)
    yield
    assert ssh_hosts.folders() == []
    assert ssh_hosts.agents() == {}
    assert leftovers.list_agent_folder_records() == []
    assert read_own_process_identity() not in ssh_hosts.connections()
