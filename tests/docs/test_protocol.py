"""The bench handles the errors that docs/protocol.md lists; the agent has the same test."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT
from vnetbench.campaign.iperf3_instrument import (
    CONTACT_RETRY_TIMEOUT_S_BY_ERROR,
    FIX_BY_SERVER_ERROR,
    RETRY_TIMEOUT_S_BY_ERROR,
)
from vnetbench.campaign.load_checks import REFUSAL_TEXT_BY_ERROR_KIND
from vnetbench.campaign.trial_endpoint import CAUSE_RANK_BY_FAULT_KIND

pytestmark = pytest.mark.pure


def table_rows(heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the page's table that begins with this heading."""
    page = (ROOT / "docs" / "protocol.md").read_text()
    table = re.search(rf"^{re.escape(heading)}.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert table
    for row in table[1].splitlines():
        yield [cell.strip(" `") for cell in row.strip("|").split("|")]


def test_the_bench_handles_exactly_the_error_kinds_that_the_page_lists() -> None:
    listed = {kind: code for kind, code, _ in table_rows("| `kind` |")}
    assert {kind for kind, code in listed.items() if "-32006" in code} == set(FIX_BY_SERVER_ERROR)
    assert set(listed) == set(REFUSAL_TEXT_BY_ERROR_KIND) | set(FIX_BY_SERVER_ERROR)
    assert set(RETRY_TIMEOUT_S_BY_ERROR) | set(CONTACT_RETRY_TIMEOUT_S_BY_ERROR) <= set(FIX_BY_SERVER_ERROR)


def test_the_bench_ranks_exactly_the_fault_kinds_that_the_page_lists() -> None:
    assert {kind for kind, _ in table_rows("| `fault_kind` | meaning |")} == set(CAUSE_RANK_BY_FAULT_KIND)
