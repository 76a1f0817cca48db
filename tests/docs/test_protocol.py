"""The bench handles the errors that docs/protocol.md lists; the agent has the same test."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT
from vnetbench.campaign.iperf3_instrument import CONTACT_PATIENCE_S, PATIENCE_S, SERVER_FIXES
from vnetbench.campaign.load_checks import REFUSALS

pytestmark = pytest.mark.pure


def listed_error_kinds() -> Iterator[tuple[str, str]]:
    """Yield each error kind in the page's table, with its code."""
    page = (ROOT / "docs" / "protocol.md").read_text()
    table = re.search(r"^\| `kind` \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert table
    for row in table[1].splitlines():
        kind, code, _ = row.strip("|").split("|")
        yield kind.strip(" `"), code.strip()


def test_the_bench_handles_exactly_the_error_kinds_that_the_page_lists() -> None:
    listed = dict(listed_error_kinds())
    assert {kind for kind, code in listed.items() if "-32006" in code} == set(SERVER_FIXES)
    assert set(listed) == set(REFUSALS) | set(SERVER_FIXES)
    assert set(PATIENCE_S) | set(CONTACT_PATIENCE_S) <= set(SERVER_FIXES)
