"""The page of causes matches the rules."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT
from vnetbench.explain.reference import PAGE_FILE_NAME, causes_page
from vnetbench.explain.rules import load_rules

pytestmark = pytest.mark.pure


def test_the_page_of_causes_is_current() -> None:
    written = (ROOT / "docs" / PAGE_FILE_NAME).read_text(encoding="utf-8")
    assert written == causes_page(), "run: python -m vnetbench.explain.reference docs"


def test_the_page_has_every_cause_with_its_advice() -> None:
    page = causes_page()
    for name, rule in load_rules().items():
        assert f"### {name}\n" in page and rule.cause.advice in page and rule.cause.source in page
