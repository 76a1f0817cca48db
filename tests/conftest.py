"""What the tests of the lab share: the right to build networks, and that nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from vnetbench.lab import netlink, registry
from vnetbench.lab.privilege import is_inside


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        raise pytest.UsageError(
            "the tests build networks: run them as `make test-bench` does, which enters a lab"
        )


@pytest.fixture
def real_root() -> None:
    """Only root on the machine itself may do this; `make test` without root says so here."""
    if is_inside():
        pytest.skip("needs root on the machine itself")


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test of the lab there is no namespace and no entry that was not there before."""
    if request.node.get_closest_marker("lab") is None:
        yield
        return
    before = _testbeds()
    yield
    left = _testbeds() - before
    for name in left:
        registry.remove(name)
    assert not left, f"left behind: {sorted(left)}"


def _testbeds() -> set[str]:
    namespaces = {n.split(".")[1] for n in netlink.namespaces() if n.startswith(registry.PREFIX)}
    return namespaces | {entry.name for entry in registry.entries()}
