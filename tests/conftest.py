"""Marks of whole folders, and the check that tests leave nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.file_selection import PURE, can_select, check_marks_are_visible, needs_quiet_machine
from tests.own_testbeds import list_own_testbeds
from vnetbench.lab import netlink, registry

pytest_plugins = ("tests.cpu_times", "tests.skip_limit", "tests.warm_process")

# The duration of an example means nothing on a machine that others use too.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if can_select(collection_path, config.option.markexpr) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "VNETBENCH_OWN_RUN" not in os.environ:
        raise pytest.UsageError(
            "the tests build and remove testbeds: run them in a lab of their own with tools/in-lab pytest"
        )
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in PURE:
            item.add_marker("pure")
        if needs_quiet_machine(item):
            item.add_marker("alone")
        check_marks_are_visible(item)
    if "long" not in config.option.markexpr:
        _deselect_long_tests(config, items)


def _deselect_long_tests(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of `make test-long`, whatever else `-m` selects."""
    long_tests = [item for item in items if item.get_closest_marker("long")]
    if long_tests:
        config.hook.pytest_deselected(items=long_tests)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture(autouse=True)
def check_nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that a test of the lab leaves no namespace and no registry entry behind."""
    if request.node.get_closest_marker("lab") is None:
        yield
        return
    before = _find_leftovers()
    yield
    leftovers = _find_leftovers() - before
    for testbed, _ in leftovers:
        registry.remove_testbed_and_list_remaining_groups(testbed)
    assert not leftovers, f"left behind: {sorted(leftovers)}"


def _find_leftovers() -> set[tuple[str, str]]:
    """Return the testbed and the namespace or entry of everything that no running process uses."""
    testbeds = list_own_testbeds()
    used = {entry.name for entry in testbeds if entry.is_in_use}
    namespaces = {
        (n.split(".")[1], n) for n in netlink.list_namespaces() if n.startswith(registry.NAMESPACE_PREFIX)
    }
    entries = {(entry.name, f"entry of {entry.owner}") for entry in testbeds}
    return {(testbed, what) for testbed, what in namespaces | entries if testbed not in used}
