"""The live table: it shows each change, and is laid out only then."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests import fixtures
from vnetbench.campaign.progress import CampaignProgress
from vnetbench.estimate.time_series import TimeSeries
from vnetbench.report import live_display
from vnetbench.report.live_display import TerminalDisplay
from vnetbench.report.tables.estimates_table import live_table
from vnetbench.study.plan import make_plan

pytestmark = pytest.mark.pure


@pytest.fixture
def layouts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list with an element for each layout of the table."""
    made: list[int] = []

    def count_layouts(*args: object) -> object:
        made.append(1)
        return live_table(*args)  # type: ignore[arg-type]  # the arguments of the original

    monkeypatch.setattr(live_display, "live_table", count_layouts)
    return made


def draw(display: TerminalDisplay, width: int = 100) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    console.print(display._draw())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_is_laid_out_only_after_a_change(layouts: list[int]) -> None:
    study = fixtures.make_study(fixtures.STUDY_TEXT)
    progress = CampaignProgress(study, make_plan(study, 1))
    display = TerminalDisplay(Console(file=io.StringIO(), force_terminal=True))
    display.attach(progress)
    first = draw(display)
    assert draw(display) == first and len(layouts) == 1
    assert draw(display, width=60) != first and len(layouts) == 2
    draw(display)
    progress.running_treatment = 0
    running = draw(display)
    progress.add_finished_trial(0, 0, TimeSeries((1e9,) * 20, (0.05,) * 20), 0.1)
    finished = draw(display)
    assert len({first, running, finished}) == 3 and len(layouts) == 5
    progress.treatments[0].state = "precision"
    assert "precision" in draw(display) and len(layouts) == 6
