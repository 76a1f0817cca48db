"""Explanations in a terminal: the answer first, figures with their units, commands that can be copied."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from tests.report.explanations import COMMAND, EXPLANATION
from vnetbench.report.explanation_text import ExplanationText, Headlines


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
    assert "99.1" in line and "for ≥ 95" in line
    (against,) = [line for line in text.splitlines() if "against" in line]
    assert "62.4" in against and "against ≥ 50" in against
    (illustrating,) = [line for line in text.splitlines() if "17.9 to 18.6" in line]
    assert "18.2" in illustrating and "≥" not in illustrating


def test_a_pipe_gets_no_colour_and_a_terminal_little() -> None:
    assert "\x1b" not in shown(ExplanationText(EXPLANATION), 80)
    assert "\x1b[33m" in shown(ExplanationText(EXPLANATION), 80, colour=True)


def test_headlines_are_the_answer_and_what_each_finding_says() -> None:
    text = shown(Headlines(EXPLANATION), 200)
    assert "Jumbo frames make TCP faster" in text and "One uplink of the team carries all." in text
    assert "98.7" not in text and "vnetbench run" not in text
