"""Explanations in a terminal: the answer first, figures with their units, commands that can be copied."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from tests.report.explanations import COMMAND, EXPLANATION
from vnetbench.explain.model import EvidenceItem, Explanation
from vnetbench.explain.phrases import evidence_text
from vnetbench.report.text.evidence_text import format_evidence
from vnetbench.report.text.explanation_text import ExplanationText, FindingHeadlines


def shown(what: RenderableType, width: int, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, highlight=False)
    console.print(what, crop=False)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_the_answer_comes_first_then_every_finding_in_its_order(width: int) -> None:
    text = " ".join(shown(ExplanationText(EXPLANATION), width).split())
    assert text.startswith("Jumbo frames make TCP faster by 41 %")
    places = [text.index(f"{number} {said}") for number, said in enumerate(
        ("1 stream, forward, MTU 1500 is very likely", "16 streams, forward", "streams matters most",
         "Goodput stops growing"), 1)]  # fmt: skip
    assert places == sorted(places)


@pytest.mark.parametrize("width", [80, 200])
def test_nothing_but_commands_is_wider_than_the_terminal(width: int) -> None:
    lines = shown(ExplanationText(EXPLANATION), width).splitlines()
    assert [line for line in lines if len(line) > width and COMMAND not in line] == []


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_proving_command_is_whole_and_alone_on_its_line(width: int) -> None:
    lines = shown(ExplanationText(EXPLANATION), width).splitlines()
    assert [line.strip() for line in lines if "vnetbench run" in line] == [COMMAND]


def test_evidence_has_its_range_its_unit_and_its_threshold() -> None:
    text = shown(ExplanationText(EXPLANATION), 200)
    (line,) = [line for line in text.splitlines() if "98.7 to 99.4" in line]
    assert "99.1" in line and "for > 95" in line
    (against,) = [line for line in text.splitlines() if "contradicts" in line]
    assert "62.4" in against and "against > 50" in against
    (illustrating,) = [line for line in text.splitlines() if "17.9 to 18.6" in line]
    assert "18.2" in illustrating and ">" not in illustrating


def said(*exhibits: EvidenceItem) -> str:
    return " ".join(f"{e.label} {e.figure} {e.range} {e.threshold}" for e in map(format_evidence, exhibits))


def test_a_setting_is_told_as_yes_or_no_and_a_count_as_a_whole_number() -> None:
    off, queues = EvidenceItem("gro_off", 1.0, 1.0, 1.0, 0.0), EvidenceItem("receive_queues", 4.0, 4.0, 4.0, 1.0)
    assert said(off) == "GRO off yes yes for yes"
    assert said(queues) == "receive queues 4 4 for > 1"
    assert evidence_text([off, queues]) == "GRO off, receive queues 4"
    assert evidence_text([replace(off, value=0.5)]) == "GRO off in some trials"


def test_value_and_threshold_each_have_the_unit_that_they_read_best_in() -> None:
    drops = EvidenceItem("softnet_dropped_per_s", 186.0, 0.0, 1710.0, 2.0)
    held = EvidenceItem("overlimits_per_s", 6280.0, 5710.0, 7510.0, 20.0)
    assert said(drops) == "backlog of a CPU overflowed 186 /s 0 to 1710 for > 2"
    assert said(held) == "held back by a shaper 6.28 k/s 5.71 to 7.51 for > 20 /s"
    assert said(EvidenceItem("bytes_per_call", 256.0, 256.0, 256.0, 16384.0, supports_when_low=True)).endswith(
        "for < 16.4 kB"
    )


def test_a_threshold_that_was_computed_has_three_digits_and_a_rules_own_all_of_its() -> None:
    assert said(EvidenceItem("other_work_percent", 142.0, 52.0, 142.0, 97.2834)).endswith("for > 97.3")
    assert said(EvidenceItem("mtu_bytes", 576.0, 576.0, 576.0, 1450.0, supports_when_low=True)).endswith("for < 1450")


def test_without_an_answer_the_first_line_is_the_first_findings() -> None:
    told = shown(ExplanationText(replace(EXPLANATION, answer=())), 80)
    assert told.startswith("1 1 stream, forward, MTU 1500")
    assert shown(ExplanationText(Explanation((), ()), ("Nothing is said of it.",)), 80).startswith("Nothing")


def test_a_pipe_gets_no_colour_and_a_terminal_little() -> None:
    assert "\x1b" not in shown(ExplanationText(EXPLANATION), 80)
    assert "\x1b[33m" in shown(ExplanationText(EXPLANATION), 80, colour=True)


def test_headlines_are_the_answer_and_what_each_finding_says() -> None:
    text = shown(FindingHeadlines(EXPLANATION), 200)
    assert "Jumbo frames make TCP faster" in text and "One uplink of the team carries all." in text
    assert "98.7" not in text and "vnetbench run" not in text
