"""Explanations in a terminal: the answer first, evidence with units, commands that you can copy."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from tests.report.explanations import COMMAND, EXPLANATION
from vnetbench.explain.model import EvidenceItem, Explanation
from vnetbench.explain.phrases import supporting_evidence_phrase
from vnetbench.report.text.evidence_text import format_evidence
from vnetbench.report.text.explanation_text import ExplanationText, FindingHeadlines


def print_to_text(renderable: RenderableType, width: int, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, highlight=False)
    console.print(renderable, crop=False)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_the_answer_precedes_the_findings_in_their_order(width: int) -> None:
    text = " ".join(print_to_text(ExplanationText(EXPLANATION), width).split())
    assert text.startswith("Jumbo frames make TCP faster by 41 %")
    positions = [text.index(f"{number} {start}") for number, start in enumerate(
        ("1 stream, forward, MTU 1500 is very likely", "16 streams, forward", "streams matters most",
         "Goodput stops growing"), 1)]  # fmt: skip
    assert positions == sorted(positions)


@pytest.mark.parametrize("width", [80, 200])
def test_only_commands_exceed_the_width_of_the_terminal(width: int) -> None:
    lines = print_to_text(ExplanationText(EXPLANATION), width).splitlines()
    assert [line for line in lines if len(line) > width and COMMAND not in line] == []


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_command_is_whole_and_alone_on_its_line(width: int) -> None:
    lines = print_to_text(ExplanationText(EXPLANATION), width).splitlines()
    assert [line.strip() for line in lines if "vnetbench run" in line] == [COMMAND]


def test_evidence_has_a_range_a_unit_and_a_threshold() -> None:
    text = print_to_text(ExplanationText(EXPLANATION), 200)
    (line,) = [line for line in text.splitlines() if "98.7 to 99.4" in line]
    assert "99.1" in line and "supports > 95" in line
    (contradicting,) = [line for line in text.splitlines() if "contradicts" in line]
    assert "62.4" in contradicting and "contradicts > 50" in contradicting
    (without_threshold,) = [line for line in text.splitlines() if "17.9 to 18.6" in line]
    assert "18.2" in without_threshold and ">" not in without_threshold


def evidence_line(item: EvidenceItem) -> str:
    text = format_evidence(item)
    return f"{text.label} {text.value_with_unit} {text.range} {text.threshold}"


def test_a_setting_prints_as_yes_or_no_and_a_count_as_a_whole_number() -> None:
    off, queues = (
        EvidenceItem("gro_off", 1.0, 1.0, 1.0, 0.0),
        EvidenceItem("receive_queues", 4.0, 4.0, 4.0, 1.0),
    )
    assert evidence_line(off) == "GRO off yes yes supports yes"
    assert evidence_line(queues) == "receive queues 4 4 supports > 1"
    assert supporting_evidence_phrase([off, queues]) == "GRO off, receive queues 4"
    assert supporting_evidence_phrase([replace(off, value=0.5)]) == "GRO off in some trials"


def test_value_and_threshold_each_have_a_readable_unit() -> None:
    drops = EvidenceItem("softnet_dropped_per_s", 186.0, 0.0, 1710.0, 2.0)
    overlimits = EvidenceItem("overlimits_per_s", 6280.0, 5710.0, 7510.0, 20.0)
    assert evidence_line(drops) == "packets dropped by full CPU backlogs 186 /s 0 to 1710 supports > 2"
    assert evidence_line(overlimits) == "packets delayed by shapers 6.28 k/s 5.71 to 7.51 supports > 20 /s"
    assert evidence_line(
        EvidenceItem("bytes_per_call", 256.0, 256.0, 256.0, 16384.0, applies_below_threshold=True)
    ).endswith("supports < 16.4 kB")


def test_a_computed_threshold_has_three_digits_and_a_whole_one_all_of_its_digits() -> None:
    assert evidence_line(EvidenceItem("other_work_cpus", 1.42, 0.52, 1.42, 0.972834)).endswith(
        "supports > 0.973"
    )
    assert evidence_line(
        EvidenceItem("mtu_bytes", 576.0, 576.0, 576.0, 1450.0, applies_below_threshold=True)
    ).endswith("supports < 1450")


def test_without_an_answer_the_first_finding_comes_first() -> None:
    text = print_to_text(ExplanationText(replace(EXPLANATION, answer=())), 80)
    assert text.startswith("1 1 stream, forward, MTU 1500")
    assert print_to_text(ExplanationText(Explanation((), ()), ("No findings.",)), 80).startswith(
        "No findings"
    )


def test_colours_appear_in_a_terminal_only() -> None:
    assert "\x1b" not in print_to_text(ExplanationText(EXPLANATION), 80)
    assert "\x1b[33m" in print_to_text(ExplanationText(EXPLANATION), 80, colour=True)


def test_headlines_contain_the_answer_and_every_finding_without_evidence() -> None:
    text = print_to_text(FindingHeadlines(EXPLANATION), 200)
    assert "Jumbo frames make TCP faster" in text and "One uplink of the team carries all." in text
    assert "98.7" not in text and "vnetbench run" not in text
