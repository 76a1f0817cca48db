"""The table in a terminal and in a pipe: what it shows, and that it fits."""

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
from vnetbench.report.tables.text_bars import draw_bar
from vnetbench.study.model import FactorLevels
from vnetbench.wording.estimate_text import format_short_estimate, metric_scale


def lines_of(
    renderable: RenderableType, width: int = 80, height: int = 40, terminal: bool = False
) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height, force_terminal=terminal, color_system=None).print(
        renderable
    )
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [44, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(jumbo: CampaignSummary, width: int) -> None:
    lines = lines_of(estimates_table(jumbo), width)
    assert max(map(cell_len, lines)) <= width
    assert not any("…" in line for line in lines)
    for goodput in (t.metrics["goodput_bps"] for t in jumbo.treatments if t.metrics):
        for figure in format_short_estimate(
            goodput, "goodput_bps", metric_scale(jumbo.treatments, "goodput_bps")
        ):
            assert any(figure in line for line in lines)


def test_a_wide_terminal_shows_more_metrics_and_the_bars_beside_their_figures(jumbo: CampaignSummary) -> None:
    narrow, wide = (lines_of(estimates_table(jumbo), width) for width in (80, 200))
    assert not any("Round-trip time" in line for line in narrow)
    assert any("Round-trip time" in line for line in wide)
    assert any(line.split()[:3] == ["4", "forward", "9000"] and "━" in line for line in wide)
    assert any(line.startswith("4 streams, forward, MTU 9000") and "━" in line for line in narrow)


def test_in_a_pipe_there_are_no_control_codes(jumbo: CampaignSummary) -> None:
    hostile = replace(jumbo, warnings=("\x1b[31mred\x07",))
    text = "\n".join(lines_of(estimates_table(hostile)))
    assert all(c.isprintable() or c == "\n" for c in text)


def test_only_what_varies_is_a_column_and_the_rest_is_said_once(jumbo: CampaignSummary) -> None:
    lines = lines_of(estimates_table(jumbo), 200)
    assert "Streams" in lines[1]
    assert "Congestion" not in lines[1]
    assert sum("Congestion control: cubic" in line for line in lines) == 1


def test_what_was_refused_or_failed_is_said_with_its_reason(jumbo: CampaignSummary) -> None:
    text = " ".join(" ".join(lines_of(estimates_table(jumbo))).split())
    assert "2 streams, reverse, MTU 9000: refused: the path carries 1500 bytes" in text
    assert "16 streams, reverse, MTU 1500: failed: vm2: the agent's connection closed" in text


def test_sizes_are_spelled_as_in_the_study(surface: CampaignSummary) -> None:
    lines = lines_of(estimates_table(surface))
    assert any(line.split()[:4] == ["8", "KiB", "64", "B"] for line in lines)


def test_a_campaign_without_any_trial_still_has_a_table(empty: CampaignSummary) -> None:
    assert any("interrupted" in line for line in lines_of(estimates_table(empty)))


def running(count: int, active: Sequence[int] = (), measured: Sequence[int] = ()) -> list[LiveTreatmentRow]:
    known = Estimate(20e9, 19e9, 21e9, 0.95, 6)
    return [
        LiveTreatmentRow(
            factors={"streams": streams},
            trial_count=6 if streams in measured else 0,
            stopped_by="precision" if streams in measured else "running",
            metrics={"goodput_bps": known} if streams in measured else {},
            active=streams in active,
            last_trial=streams if streams in measured else 0,
        )
        for streams in range(1, count + 1)
    ]


def test_a_live_table_of_forty_treatments_fits_the_terminal_and_says_what_it_leaves_out() -> None:
    factors = [FactorLevels("streams", tuple(range(1, 41)))]
    rows = running(40, active=[39], measured=range(1, 21))
    lines = lines_of(live_table(rows, factors, "goodput_bps"), height=24, terminal=True)
    assert len(lines) <= 24 - 4
    assert sum(line.startswith("▶") and " 39 " in line for line in lines) == 1
    assert any(line.split()[0] == "20" for line in lines)  # the latest one measured
    assert not any(line.split()[0] == "1" for line in lines)
    assert lines[-1] == "and 24 more: 5 precision, 19 waiting"


def test_a_wide_live_table_has_bars_and_says_who_waits() -> None:
    factors = [FactorLevels("streams", (1, 2, 3))]
    lines = lines_of(
        live_table(running(3, active=[2], measured=[1]), factors, "goodput_bps"), width=120, terminal=True
    )
    assert "━" in lines[-3]
    assert [line.split()[-1] for line in lines[-3:]] == ["precision", "running", "waiting"]


def test_a_live_table_before_the_first_trial_shows_what_will_come() -> None:
    lines = lines_of(
        live_table(running(3, active=[1]), [FactorLevels("streams", (1, 2, 3))], "goodput_bps"), terminal=True
    )
    assert lines[-3].startswith("▶") and lines[-1].split()[0] == "3"


@pytest.mark.parametrize(
    ("estimate", "drawn"),
    [
        (Estimate(10, 8, 10, 0.95, 6), "━━━━━━━├─●"),
        (Estimate(5, 5, 5, 0.95, 6), "━━━━●"),
        (Estimate(5, None, None, 0.95, 3), "━━━━○"),
        (Estimate(0, 0, 0, 0.95, 6), "●"),
    ],
)
def test_a_bar_ends_at_the_value_with_whiskers_for_the_interval(estimate: Estimate, drawn: str) -> None:
    assert draw_bar(estimate, largest=10, width=10) == drawn
