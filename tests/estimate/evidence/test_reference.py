"""The tables of evidence metrics: their page is current, and every counter is documented."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT
from vnetbench.estimate.evidence import EVIDENCE_METRICS, METRICS_BY_FAMILY
from vnetbench.estimate.evidence.reference import PAGE_FILE_NAME, evidence_page

DOCUMENTED = "".join(
    (ROOT / "docs" / page).read_text() for page in ("protocol.md", "results-file.md", "study-reference.md")
)


def test_the_page_in_docs_is_current() -> None:
    why = "run: python -m vnetbench.estimate.evidence.reference docs"
    assert (ROOT / "docs" / PAGE_FILE_NAME).read_text() == evidence_page(), why


def test_evidence_metric_names_are_unique() -> None:
    assert len(EVIDENCE_METRICS) == sum(map(len, METRICS_BY_FAMILY.values()))


@pytest.mark.parametrize("figure", EVIDENCE_METRICS.values(), ids=lambda figure: figure.name)
def test_every_counter_of_an_evidence_metric_is_documented(figure) -> None:  # type: ignore[no-untyped-def]
    words = {word for name in figure.counters for word in re.split(r"\[\]\.?|\.", name) if word}
    assert [word for word in sorted(words) if word not in DOCUMENTED] == []
