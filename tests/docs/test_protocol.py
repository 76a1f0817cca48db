"""What the page of the agent's protocol lists the bench knows; the agent's tests hold the agent to it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT
from vnetbench.campaign.iperf3_instrument import CONTACT_PATIENCE_S, PATIENCE_S, SERVER_FIXES
from vnetbench.campaign.load_checks import REFUSALS

pytestmark = pytest.mark.pure


def kinds() -> Iterator[tuple[str, str]]:
    """Each kind of errors in the page's table, with the code that it comes with."""
    page = (ROOT / "docs" / "protocol.md").read_text()
    table = re.search(r"^\| `kind` \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert table
    for row in table[1].splitlines():
        kind, code, _ = row.strip("|").split("|")
        yield kind.strip(" `"), code.strip()


def test_the_bench_knows_each_kind_of_error_that_an_agent_sends_and_no_other() -> None:
    listed = dict(kinds())
    assert {kind for kind, code in listed.items() if "-32006" in code} == set(SERVER_FIXES)
    assert set(listed) == set(REFUSALS) | set(SERVER_FIXES)
    assert set(PATIENCE_S) | set(CONTACT_PATIENCE_S) <= set(SERVER_FIXES)
