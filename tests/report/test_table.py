"""The table of estimates in a terminal and in a pipe: its columns and its width."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.tables.estimates_table import LiveTreatmentRow, estimates_table, live_table
from vnetbench.report.tables.text_bars import draw_estimate_bar
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import choose_metric_scale, format_estimate_lines


def print_lines(
    renderable: RenderableType, width: int = 80, height: int = 40, terminal: bool = False
) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height, force_terminal=terminal, color_system=None).print(
        renderable
    )
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [44, 80, 120, 200])
def test_the_table_fits_the_terminal_without_cut_values(jumbo: CampaignSummary, width: int) -> None:
    lines = print_lines(estimates_table(jumbo), width)
    assert max(map(cell_len, lines)) <= width
    assert not any("…" in line for line in lines)
    for goodput in (t.metrics["goodput_bps"] for t in jumbo.treatments if t.metrics):
        for figure in format_estimate_lines(
            goodput, "goodput_bps", choose_metric_scale(jumbo.treatments, "goodput_bps")
        ):
            assert any(figure in line for line in lines)


def test_a_wide_terminal_shows_more_metrics_and_a_bar_column(jumbo: CampaignSummary) -> None:
    narrow, wide = (print_lines(estimates_table(jumbo), width) for width in (80, 200))
    assert not any("Round-trip" in line for line in narrow)
    assert any("Round-trip" in line for line in wide)
    assert any(line.split()[:3] == ["4", "forward", "9000"] and "━" in line for line in wide)
    assert any(line.startswith("4 streams, forward, MTU 9000") and "━" in line for line in narrow)


def test_the_output_contains_no_control_characters(jumbo: CampaignSummary) -> None:
    hostile = replace(jumbo, warnings=("\x1b[31mred\x07",))
    text = "\n".join(print_lines(estimates_table(hostile)))
    assert all(c.isprintable() or c == "\n" for c in text)


def test_only_varying_factors_are_columns_and_a_note_lists_the_others(jumbo: CampaignSummary) -> None:
    lines = print_lines(estimates_table(jumbo), 200)
    header = " ".join(lines[:3])
    assert "Streams" in header and "Congestion" not in header
    assert sum("Congestion control: cubic" in line for line in lines) == 1


def test_refused_and_failed_treatments_have_a_note_with_the_reason(jumbo: CampaignSummary) -> None:
    text = " ".join(" ".join(print_lines(estimates_table(jumbo))).split())
    assert "2 streams, reverse, MTU 9000 (refused): the path carries 1500 bytes" in text
    assert "16 streams, reverse, MTU 1500 (failed): vm2: the agent's connection closed" in text


def test_sizes_are_formatted_as_in_the_study(surface: CampaignSummary) -> None:
    lines = print_lines(estimates_table(surface))
    assert any(line.split()[:4] == ["8", "KiB", "64", "B"] for line in lines)


def test_a_campaign_without_trials_has_a_table(empty: CampaignSummary) -> None:
    assert any("interrupted" in line for line in print_lines(estimates_table(empty)))


def live_rows(
    count: int, running: Sequence[int] = (), measured: Sequence[int] = ()
) -> list[LiveTreatmentRow]:
    estimate = Estimate(20e9, 19e9, 21e9, 0.95, 6)
    return [
        LiveTreatmentRow(
            factors={"streams": streams},
            trial_count=6 if streams in measured else 0,
            stop_reason="precision" if streams in measured else "running",
            metrics={"goodput_bps": estimate} if streams in measured else {},
            is_running=streams in running,
            last_trial_number=streams if streams in measured else 0,
        )
        for streams in range(1, count + 1)
    ]


def test_a_live_table_of_forty_treatments_fits_the_terminal_and_counts_the_hidden_ones() -> None:
    factors = [FactorLevels("streams", tuple(range(1, 41)))]
    rows = live_rows(40, running=[39], measured=range(1, 21))
    lines = print_lines(live_table(rows, factors, "goodput_bps"), height=24, terminal=True)
    assert len(lines) <= 24 - 4
    assert sum(line.startswith("▶") and " 39 " in line for line in lines) == 1
    assert any(line.split()[0] == "20" for line in lines)  # The latest measured treatment.
    assert not any(line.split()[0] == "1" for line in lines)
    assert lines[-1] == "and 24 more: 5 precision, 19 waiting"


def test_a_wide_live_table_has_bars_and_marks_waiting_treatments() -> None:
    factors = [FactorLevels("streams", (1, 2, 3))]
    lines = print_lines(
        live_table(live_rows(3, running=[2], measured=[1]), factors, "goodput_bps"), width=120, terminal=True
    )
    assert "━" in lines[-3]
    assert [line.split()[-1] for line in lines[-3:]] == ["precision", "running", "waiting"]


def test_a_live_table_lists_all_treatments_before_the_first_trial() -> None:
    lines = print_lines(
        live_table(live_rows(3, running=[1]), [FactorLevels("streams", (1, 2, 3))], "goodput_bps"),
        terminal=True,
    )
    assert lines[-3].startswith("▶") and lines[-1].split()[0] == "3"


@pytest.mark.parametrize(
    ("estimate", "bar"),
    [
        (Estimate(10, 8, 10, 0.95, 6), "━━━━━━━├─●"),
        (Estimate(5, 5, 5, 0.95, 6), "━━━━●"),
        (Estimate(5, None, None, 0.95, 3), "━━━━○"),
        (Estimate(0, 0, 0, 0.95, 6), "●"),
    ],
)
def test_a_bar_ends_at_the_value_and_has_whiskers_for_the_interval(estimate: Estimate, bar: str) -> None:
    assert draw_estimate_bar(estimate, largest=10, width=10) == bar
