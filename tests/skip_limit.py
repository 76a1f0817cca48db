"""A limit on the share of skipped tests: `pytest --max-skipped-percent 2` fails above it.

A suite that skips what it cannot decide must not pass by skipping. The summary lists each skip.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vnetbench.lab.privilege import is_in_user_namespace

OPTION = "--max-skipped-percent"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=float, help="fail if a larger percentage of the tests skips")


def pytest_configure(config: pytest.Config) -> None:
    limit = config.getoption(OPTION)
    if limit is not None:
        config.pluginmanager.register(SkipLimit(limit))


class SkipLimit:
    """Counts the tests that skip, and fails the session above the limit."""

    def __init__(self, max_percent: float) -> None:
        self._max_percent = max_percent
        self._tests: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._out_of_reach: set[str] = set()

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        # Without root no machine can run these, and the user has decided so by running the tests without it.
        if is_in_user_namespace():
            self._out_of_reach = {
                item.nodeid for item in items if "real_root" in getattr(item, "fixturenames", ())
            }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid in self._out_of_reach:
            return
        self._tests.add(report.nodeid)
        if report.skipped and not hasattr(report, "wasxfail"):
            longrepr = report.longrepr
            self._reasons[report.nodeid] = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)

    @property
    def is_exceeded(self) -> bool:
        return len(self._reasons) * 100 > self._max_percent * len(self._tests)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_exceeded and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, reason in self._reasons.items():
            terminalreporter.write_line(f"skipped: {test}: {reason}")
        if self.is_exceeded:
            terminalreporter.write_line(
                f"{len(self._reasons)} of {len(self._tests)} tests were skipped, more than "
                f"{self._max_percent:g} %: this run does not count as passed",
                red=True,
            )
