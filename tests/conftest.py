"""What the tests of the lab share: the right to build networks, and that nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from vnetbench.lab import netlink, registry
from vnetbench.lab.privilege import is_in_user_namespace

# How fast an example runs says nothing on a machine that others use too.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")

PURE = ("estimate", "published", "report", "results", "search", "statements", "study")
"""Folders whose tests only compute: `make test` runs them beside the others, which go one by one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "VNETBENCH_OWN_RUN" not in os.environ:
        raise pytest.UsageError("the tests build and remove testbeds, so run them apart: tools/in-lab pytest")
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in PURE:
            item.add_marker("pure")


@pytest.fixture
def real_root() -> None:
    """Only root on the machine itself may do this; `make test` without root says so here."""
    if is_in_user_namespace():
        pytest.skip("needs root on the machine itself")


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test of the lab there is no namespace and no entry that was not there before."""
    if request.node.get_closest_marker("lab") is None:
        yield
        return
    before = _left()
    yield
    left = _left() - before
    for testbed, _ in left:
        registry.remove_testbed(testbed)
    assert not left, f"left behind: {sorted(left)}"


def _left() -> set[tuple[str, str]]:
    """Testbed and namespace, or testbed and entry, of all that no living process uses."""
    used = {entry.name for entry in registry.list_testbeds() if entry.is_in_use}
    namespaces = {
        (n.split(".")[1], n) for n in netlink.list_namespaces() if n.startswith(registry.NAMESPACE_PREFIX)
    }
    entries = {(entry.name, f"entry of {entry.owner}") for entry in registry.list_testbeds()}
    return {(testbed, what) for testbed, what in namespaces | entries if testbed not in used}
