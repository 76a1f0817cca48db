"""The page: self-contained, offline, small, safe for quoted text, and readable without scripts."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.report.campaigns import GBIT, campaign, treatment
from tests.report.explanations import COMMAND, EXPLANATION, LIMIT
from vnetbench.errors import BenchError
from vnetbench.estimate.published_reference import published_table_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.model import CandidateCause, EvidenceItem, Finding
from vnetbench.explain.rules import get_cause
from vnetbench.report.page import html
from vnetbench.report.page.html import MAX_PAGE_BYTES, render_page, write_html
from vnetbench.report.text import narrative
from vnetbench.report.text.explanation_text import ExplanationText
from vnetbench.study.model import FactorLevels

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """The elements of the page and its visible text, as a browser parses them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.visible_text = ""
        self._open_tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open_tag = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open_tag = ""

    def handle_data(self, data: str) -> None:
        if self._open_tag == "script":
            self.scripts[-1] += data
        elif self._open_tag != "style":
            self.visible_text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


@pytest.fixture(scope="module")
def page(jumbo: CampaignSummary) -> Page:
    return Page(render_page([jumbo]))


def test_the_question_and_the_answer_precede_the_table(page: Page) -> None:
    text = page.visible_text
    question = text.index("Is TCP faster with an MTU of 9000")
    best = text.index("Goodput is highest with 8 streams, forward, MTU 9000")
    assert question < best < text.index("All treatments") < text.index("How it was measured")


def test_the_page_loads_no_external_resource(page: Page) -> None:
    for _, attributes in page.elements:
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    metas = [attributes for tag, attributes in page.elements if tag == "meta"]
    policy = next(meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'")
    assert "http" not in policy
    # These two have no default: default-src does not cover them.
    assert "base-uri 'none'" in policy and "form-action 'none'" in policy


def test_a_link_that_another_user_prepared_is_not_followed(tmp_path: Path, single: CampaignSummary) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".page.html.part").symlink_to(tmp_path / "precious")
    html.write_html([single], tmp_path / "page.html")
    assert (tmp_path / "precious").read_text() == "precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == [".page.html.part", "page.html", "precious"]
    assert not (tmp_path / "page.html").is_symlink()


def test_the_page_contains_all_texts_without_scripts(page: Page) -> None:
    for text in (
        "bench-7", "AMD EPYC 7763", "seed 20170321", "[factors]", "streams=1,2,4..16", "(refused): the path",
    ):  # fmt: skip
        assert text in page.visible_text
    assert page.count("tr") > 20
    assert any(tag == "img" and "data:image/svg" in (a["src"] or "") for tag, a in page.elements)


def test_every_column_of_the_table_has_sort_keys(page: Page) -> None:
    headings = [a for tag, a in page.elements if tag == "th" and a.get("scope") == "col"]
    sort_keys = [a["data-sort-key"] for tag, a in page.elements if tag == "td" and "data-sort-key" in a]
    assert len(sort_keys) == 20 * (len(headings) - 3)  # All but the table of facts.
    assert all(key == "" or float(key or 0) is not None for key in sort_keys)


def test_texts_of_a_study_are_displayed_and_not_executed(single: CampaignSummary) -> None:
    page = Page(render_page([replace(single, title=HOSTILE, question="?", study_text=HOSTILE, path=HOSTILE)]))
    assert page.visible_text.count(HOSTILE) >= 4  # Page title, heading, study and path.
    assert len(page.scripts) == 3
    assert page.count("img") == 1  # The image for browsers without scripts.


def test_facts_failures_and_warnings_are_not_executed(single: CampaignSummary) -> None:
    refused = replace(
        single.treatments[0], index=1, metrics={}, points=(), stop_reason="refused", failures=(HOSTILE,)
    )
    hostile = replace(
        single,
        treatments=(*single.treatments, refused),
        facts={HOSTILE: {HOSTILE: HOSTILE}},
        warnings=(HOSTILE,),
    )
    page = Page(render_page([hostile]))
    assert len(page.scripts) == 3 and page.count("img") == 1
    assert json.loads(page.scripts[0])["charts"]


def test_3840_trials_of_128_treatments_stay_below_three_megabytes() -> None:
    rng = np.random.default_rng(1)
    levels = tuple(range(1, 65))
    treatments = [
        treatment(rng, index, {"streams": streams, "mtu": mtu}, 20 * GBIT, trials=30, order=128)
        for index, (streams, mtu) in enumerate((s, m) for s in levels for m in (1500, 9000))
    ]
    factors = [FactorLevels("streams", levels), FactorLevels("mtu", (1500, 9000))]
    text = render_page([campaign("Large", "", factors, treatments)])
    assert len(text.encode()) < MAX_PAGE_BYTES == 3_000_000


def test_a_page_that_is_too_large_omits_charts_and_lists_them(
    jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MAX_PAGE_BYTES", 1_150_000)
    text = render_page([jumbo])
    assert len(text.encode()) < 1_150_000
    assert "The page has no charts of these metrics, to limit its size:" in text
    assert '<figure id="c1-receiver_cpu_percent"' in text


@pytest.mark.parametrize("name", ["jumbo", "surface", "placement", "single", "empty"])
def test_a_page_is_below_three_megabytes(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "page.html"
    write_html([request.getfixturevalue(name)], path)
    assert path.stat().st_size < 3_000_000
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_page_can_contain_several_campaigns(jumbo: CampaignSummary, placement: CampaignSummary) -> None:
    page = Page(render_page([jumbo, placement]))
    assert page.count("article") == 3
    charts = json.loads(page.scripts[0])["charts"]
    assert {"c1-goodput_bps", "c2-goodput_bps"} <= set(charts)
    figures = {a["id"] for tag, a in page.elements if tag == "figure"}
    assert figures == set(charts)


def test_light_and_dark_themes_have_separate_colours(page: Page) -> None:
    configs = json.loads(page.scripts[0])["configs"]
    assert configs["light"]["text"]["color"] != configs["dark"]["text"]["color"]
    text = render_page([])
    assert "prefers-color-scheme: dark" in text
    assert re.search(r'id="theme"', text)


def test_a_missing_folder_is_reported(single: CampaignSummary, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="cannot write the page"):
        write_html([single], tmp_path / "no" / "page.html")


def test_the_answer_precedes_the_findings_with_their_charts_and_evidence(
    jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrative, "explain", lambda _: EXPLANATION)
    page = Page(render_page([jumbo]))
    text = page.visible_text
    order = (
        "Goodput is highest with 8 streams", "Jumbo frames make TCP faster", "1 stream, forward, MTU 1500 is",
        COMMAND, "98.7 to 99.4", "falls into two modes", "Precision and missing results", "All treatments",
    )  # fmt: skip
    positions = [text.index(phrase) for phrase in order]
    assert positions == sorted(positions)
    charts = [a["id"] for tag, a in page.elements if tag == "figure" and "finding" in (a["id"] or "")]
    assert charts == [f"c1-finding-{number}" for number in range(1, 8)]  # Each finding has a picture.
    assert set(charts) <= set(json.loads(page.scripts[0])["charts"])
    assert "Effects" not in text  # A finding contains them.


def test_a_counted_cause_has_no_confidence_label(
    jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = CandidateCause(get_cause("too_few_trials"), 1.0, "very likely", ())
    few = Finding("instrument", "There are 3.", candidates=(candidate,), details={"cause": "too_few_trials"})
    monkeypatch.setattr(narrative, "explain", lambda _: replace(EXPLANATION, findings=(few,)))
    text = Page(render_page([jumbo])).visible_text
    assert "Run at least six trials" in text and "very likely" not in text


def test_a_measured_cause_has_no_confidence_label_on_the_page_and_in_the_terminal(
    jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = (EvidenceItem("other_work_cpus", 0.6, 0.48, 1.44, None),)
    candidate = CandidateCause(get_cause("machine_busy"), 1.0, "very likely", evidence)
    sentence = "Other work kept the machine busy: goodput is 83 % lower in these trials."
    busy = Finding("unstable", sentence, candidates=(candidate,), details={"cause": "machine_busy"})
    explanation = replace(EXPLANATION, findings=(busy,))
    monkeypatch.setattr(narrative, "explain", lambda _: explanation)
    text = Page(render_page([jumbo])).visible_text
    assert "Stop other work" in text and "other work on the machine" in text
    assert "very likely" not in text
    out = io.StringIO()
    Console(width=100, file=out).print(ExplanationText(explanation))
    assert "Stop other work" in out.getvalue() and "very likely" not in out.getvalue()


def test_findings_of_several_files_are_separate_and_not_executed(
    jumbo: CampaignSummary, single: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = Finding("not explained", HOSTILE, candidates=(replace(LIMIT.candidates[0], command=HOSTILE),))
    explanation = replace(EXPLANATION, findings=(hostile,))
    monkeypatch.setattr(narrative, "explain", lambda _: explanation)
    page = Page(render_page([jumbo, single, published_table_summary("ntttcp-vmxnet3-2011")]))
    assert len(page.scripts) == 3
    assert (
        page.visible_text.count(HOSTILE) == 4
    )  # Once as a text and once as a command for two files; a table has no findings.
    figures = {a["id"] for tag, a in page.elements if tag == "figure"}
    assert {"c1-finding-1", "c2-finding-1"} <= figures and "c3-finding-1" not in figures


def test_a_pipe_in_place_of_the_page_stays_a_pipe(single: CampaignSummary, tmp_path: Path) -> None:
    """As /dev/null does: a rename would replace the device with a file, for the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        writer = threading.Thread(target=write_html, args=([single], pipe))
        writer.start()
        received = b""
        while writer.is_alive() or not received:
            with suppress(BlockingIOError):
                received += os.read(reader, 1 << 20)
        writer.join()
    finally:
        os.close(reader)
    assert received.startswith(b"<!doctype html>")
    assert pipe.is_fifo()
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]
