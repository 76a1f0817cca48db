"""Logs of a goben server that serves one test after the other."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO

import pytest

from tests.docs.pages import ROOT
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_parser import parse_log
from vnetbench.importers.runs import Run

pytestmark = pytest.mark.pure

SERVER_LOG = ROOT / "tests" / "data" / "logs" / "goben" / "connections-server.log"
LINES_BEFORE_FIRST_CONNECTION, LINES_AFTER_LAST_CONNECTION = 7, 2


def test_tests_that_follow_each_other_are_not_added_up() -> None:
    lines = SERVER_LOG.read_bytes().splitlines(keepends=True)
    test = lines[LINES_BEFORE_FIRST_CONNECTION:-LINES_AFTER_LAST_CONNECTION]
    later = [line.replace(b" 04:3", b" 05:3") for line in test]
    (single,) = parse_log(decode_lines(BytesIO(b"".join(lines))))
    runs = list(parse_log(decode_lines(BytesIO(b"".join([*lines[:-2], *later, *lines[-2:]])))))

    assert isinstance(single, Run) and len(runs) == 2
    first, second = runs
    assert isinstance(first, Run) and isinstance(second, Run)
    assert first.metrics == second.metrics == single.metrics
    assert first.factors == second.factors == single.factors
    assert second.started_at == datetime(2026, 11, 23, 5, 31, 55) and not second.failure
