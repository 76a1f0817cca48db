"""A limit on the share of skipped tests: `pytest --max-skipped-percent 2` fails above it.

A suite that skips what it cannot decide must not pass by skipping. The summary lists each skip. Several runs
that share a `--skip-record` have one limit: each adds its tests to the file and counts those of earlier runs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vnetbench.lab.privilege import is_in_user_namespace

LIMIT_OPTION = "--max-skipped-percent"
RECORD_OPTION = "--skip-record"
NEEDS_ROOT = "needs root on the machine itself"
"""Without root no machine can run these tests, and the user has decided to run the tests without it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(LIMIT_OPTION, type=float, help="fail if a larger percentage of the tests skips")
    parser.addoption(
        RECORD_OPTION, type=Path, help="a file of the tests and skips of all runs with this limit"
    )


def pytest_configure(config: pytest.Config) -> None:
    limit, record = config.getoption(LIMIT_OPTION), config.getoption(RECORD_OPTION)
    # A worker of pytest-xdist reports its tests to the main process.
    if (limit is not None or record is not None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipLimit(limit, record))


@pytest.fixture
def real_root() -> None:
    """Skip a test that needs root on the machine itself."""
    if is_in_user_namespace():
        pytest.skip(NEEDS_ROOT)


class SkipLimit:
    """Counts the tests that skip, and fails the session above the limit."""

    def __init__(self, max_percent: float | None, record: Path | None) -> None:
        self._max_percent = max_percent
        self._record = record
        self._tests: set[str] = set()
        self._reasons: dict[str, str] = {}
        if record is not None and record.exists():
            earlier = json.loads(record.read_text())
            self._tests = set(earlier["tests"])
            self._reasons = dict(earlier["skips"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reason = ""
        if report.skipped and not hasattr(report, "wasxfail"):
            longrepr = report.longrepr
            reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
        if reason.endswith(NEEDS_ROOT):
            self._tests.discard(report.nodeid)
        elif report.when == "call" or not report.passed:
            self._tests.add(report.nodeid)
            if reason:
                self._reasons[report.nodeid] = reason

    @property
    def is_exceeded(self) -> bool:
        limit = self._max_percent
        return limit is not None and len(self._reasons) * 100 > limit * len(self._tests)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._record is not None:
            self._record.parent.mkdir(parents=True, exist_ok=True)
            self._record.write_text(json.dumps({"tests": sorted(self._tests), "skips": self._reasons}))
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
