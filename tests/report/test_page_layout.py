"""The page in a real browser: nothing is cut off, and a phone needs no horizontal scrolling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.explanations import EXPLANATION
from tests.report.time_campaigns import shares_by_streams, with_time_shares
from vnetbench.estimate.published_reference import published_table_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.page.html import write_html
from vnetbench.report.text import narrative

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

DESKTOP_PX, PHONE_PX = 1200, 390
CAMPAIGNS = (
    "jumbo", "surface", "placement", "single", "empty", "requests", "mixed", "throughput", "forwarding",
    "loss", "bursts", "soak",
)  # fmt: skip
TEXTS_OUTSIDE = """[...document.querySelectorAll('figure svg.marks')].flatMap((svg) => {
  const box = svg.getBoundingClientRect(), tolerance = 1.5;
  return [...svg.querySelectorAll('text')].filter((text) => {
    const { left, right, top, bottom, width } = text.getBoundingClientRect();
    return width > 0 && (left < box.left - tolerance || right > box.right + tolerance
      || top < box.top - tolerance || bottom > box.bottom + tolerance);
  }).map((text) => `${svg.closest('figure').id}: ${text.textContent}`);
})"""
SHORTENED_TITLES = """[...document.querySelectorAll('figure svg .role-axis-title text')]
  .map((text) => text.textContent).filter((text) => text.includes('…'))"""
LARGE_PERCENTAGES = """[...document.querySelectorAll('figure svg .role-axis')].flatMap((axis) => {
  const heading = axis.closest('figure').querySelector('h3').textContent;
  const isPercent = /\\(%|^%/.test(axis.querySelector('.role-axis-title')?.textContent || heading);
  return [...axis.querySelectorAll('.role-axis-label text')].map((label) => label.textContent)
    .filter((text) => (isPercent || text.includes('%')) && parseFloat(text.replace('+', '')) > 100)
    .map((text) => `${axis.closest('figure').id}: ${text}`);
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def write_page(folder: Path, name: str, summaries: Sequence[CampaignSummary]) -> Path:
    """Write the page once for all widths."""
    path = folder / f"{name}.html"
    if not path.exists():
        write_html(summaries, path)
    return path


def assert_nothing_is_cut_off(browser: Browser, path: Path, width_px: int) -> None:
    browser.open_page(path, width_px)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width_px
    assert browser.evaluate(TEXTS_OUTSIDE) == []
    assert browser.evaluate(SHORTENED_TITLES) == []
    assert browser.evaluate(LARGE_PERCENTAGES) == []


@pytest.mark.parametrize("width_px", [DESKTOP_PX, PHONE_PX])
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_no_text_leaves_its_chart_and_the_page_is_as_wide_as_the_screen(
    name: str, width_px: int, browser: Browser, folder: Path, request: pytest.FixtureRequest
) -> None:
    summary = with_time_shares(request.getfixturevalue(name), shares_by_streams)
    assert_nothing_is_cut_off(browser, write_page(folder, name, [summary]), width_px)


@pytest.mark.parametrize("width_px", [DESKTOP_PX, PHONE_PX])
def test_every_type_of_evidence_chart_fits(
    width_px: int, browser: Browser, folder: Path, jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrative, "explain", lambda _: EXPLANATION)
    assert_nothing_is_cut_off(browser, write_page(folder, "evidence", [jumbo]), width_px)


@pytest.mark.parametrize("width_px", [DESKTOP_PX, PHONE_PX])
def test_a_comparison_with_published_values_fits(
    width_px: int, browser: Browser, folder: Path, jumbo: CampaignSummary, jumbo_slower: CampaignSummary
) -> None:
    files = [jumbo, jumbo_slower, published_table_summary("ntttcp-vmxnet3-2011")]
    assert_nothing_is_cut_off(browser, write_page(folder, "comparison", files), width_px)


def test_the_picture_of_a_finding_is_beside_its_text(
    browser: Browser, folder: Path, jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrative, "explain", lambda _: EXPLANATION)
    browser.open_page(write_page(folder, "evidence", [jumbo]), DESKTOP_PX)
    beside = browser.evaluate(
        "[...document.querySelectorAll('.finding')].map((finding) => {"
        " const text = finding.querySelector('.finding-text').getBoundingClientRect();"
        " const picture = finding.querySelector('figure')?.getBoundingClientRect();"
        " return Boolean(picture) && picture.left >= text.right && picture.top < text.bottom; })"
    )
    assert len(beside) == len(EXPLANATION.findings) and all(beside)
