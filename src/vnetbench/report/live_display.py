"""The display of a running campaign: a live table with a progress bar in a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from vnetbench.campaign.progress import OPEN_STATE, CampaignProgress, TreatmentProgress
from vnetbench.quantity import format_count_with_noun, format_duration, format_value
from vnetbench.report.one_at_a_time import merge_varying_factors
from vnetbench.report.tables.columns import STATES_WITHOUT_MEASUREMENT
from vnetbench.report.tables.estimates_table import LiveTreatmentRow, live_table
from vnetbench.results.records import BURST_STEP, RUNNING
from vnetbench.study.model import FactorLevels, Level
from vnetbench.study.workloads import choose_deciding_metric
from vnetbench.wording.estimate_text import find_metric
from vnetbench.wording.factor_text import factor_names, treatment_phrase

TERMINAL_REFRESHES_PER_S = 1
"""Each refresh takes CPU time, which the trials then lack."""
_MAX_RECENT_STEPS_SHOWN = 6
"""The loads of this many steps show where a search is."""
MIN_S_BETWEEN_LOG_LINES = 10.0
"""Minimum time between two progress lines in a log."""


class Display(Protocol):
    """Shows the progress and the messages of a campaign."""

    def __enter__(self) -> Display: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def attach(self, progress: CampaignProgress) -> None:
        """Start to show this campaign."""

    def show_message(self, sentence: str, treatment_index: int | None = None) -> None:
        """Show a sentence that stays; `treatment` is the index of the treatment that it is about."""

    def update(self) -> None:
        """Show the new state after a trial or a block."""


def create_display(console: Console) -> Display:
    """Return a live display for a terminal, and a log display for a file or a pipe."""
    return TerminalDisplay(console) if console.is_terminal else LogDisplay(console)


class TerminalDisplay:
    """A table that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: CampaignProgress | None = None
        self._table = _CachedLayout(self._make_table)
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=TERMINAL_REFRESHES_PER_S,
            transient=True, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __enter__(self) -> TerminalDisplay:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def attach(self, progress: CampaignProgress) -> None:
        """See Display."""
        self._progress = progress

    def show_message(self, sentence: str, treatment_index: int | None = None) -> None:
        """See Display."""
        self._console.print(
            Text(_treatment_phrase_prefix(self._progress, treatment_index) + sentence, style="yellow")
        )

    def update(self) -> None:
        """See Display. The live table redraws itself."""

    def _draw(self) -> RenderableType:
        progress = self._progress
        if progress is None:
            return Text("")
        states = tuple((each.trial_count, each.state, each.estimate) for each in progress.treatments)
        self._table.key = (states, progress.running_treatment)
        return Group(self._table, Text(""), _progress_bar(progress))

    def _make_table(self) -> RenderableType:
        progress = self._progress
        assert progress is not None
        factors, levels = _displayed_factors_and_levels(progress)
        rows = [_live_row(t, each, progress) for t, each in zip(progress.treatments, levels, strict=True)]
        return live_table(rows, factors, choose_deciding_metric(progress.study))


class _CachedLayout:
    """Keeps the layout of what `make` returns until the key or the size of the terminal changes.

    While a trial runs, nothing in the table changes. The layout of 40 treatments takes 20 ms of CPU time.
    """

    def __init__(self, make: Callable[[], RenderableType]) -> None:
        self.key: object = None
        self._make = make
        self._layout_key: object = None
        self._segments: list[Segment] = []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        key = (self.key, options.size, options.max_width)
        if key != self._layout_key:
            self._segments = list(console.render(self._make(), options))
            self._layout_key = key
        yield from self._segments


class LogDisplay:
    """Plain lines: one per finished treatment, and a progress line every MIN_S_BETWEEN_LOG_LINES."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: CampaignProgress | None = None
        self._printed: set[int] = set()
        """Indices of the finished treatments whose result is printed."""
        self._last_line_at_s = time.monotonic()

    def __enter__(self) -> LogDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.update()

    def attach(self, progress: CampaignProgress) -> None:
        """See Display."""
        self._progress = progress

    def show_message(self, sentence: str, treatment_index: int | None = None) -> None:
        """See Display."""
        self._print_line(_treatment_phrase_prefix(self._progress, treatment_index) + sentence)

    def update(self) -> None:
        """See Display."""
        progress = self._progress
        if progress is None:
            return
        for treatment in progress.treatments:
            index = treatment.treatment.index
            # A message already contains the reason for a refused or failed treatment.
            if (
                treatment.state not in (OPEN_STATE, *STATES_WITHOUT_MEASUREMENT)
                and index not in self._printed
            ):
                self._printed.add(index)
                self._print_line(
                    _treatment_phrase_prefix(progress, index)
                    + _estimate_with_trial_count_text(treatment, progress)
                )
        if time.monotonic() - self._last_line_at_s >= MIN_S_BETWEEN_LOG_LINES:
            self._print_line(campaign_status_line(progress, *progress.estimate_remaining()))

    def _print_line(self, line: str) -> None:
        self._last_line_at_s = time.monotonic()
        self._console.print(Text(line), soft_wrap=True)
        sys.stdout.flush()


def campaign_status_line(progress: CampaignProgress, remaining_trials: int, remaining_s: float) -> str:
    """Return the finished and the remaining trials and times in one line."""
    trials = format_count_with_noun(progress.trial_count, "trial")
    finished = f"{trials} in {_rounded_duration_text(progress.elapsed_s)}"
    if progress.is_removing_testbeds:
        return f"{finished}; vnetbench removes the testbeds"
    remaining = f"about {remaining_trials} more trials, {_rounded_duration_text(remaining_s)} left"
    return f"{finished}; {remaining}{_current_step_text(progress)}"


def _current_step_text(progress: CampaignProgress) -> str:
    """Return the current step of the running trial and its load; empty for a trial without steps."""
    if not progress.running_trial_steps:
        return ""
    last = progress.running_trial_steps[-1]
    step_number_text = f"; step {last.number + 1}"
    if progress.running_search_estimate is not None:
        strictest = progress.running_search_estimate.goal_results[0]
        low, high = (format_value(each, "frame/s") for each in (strictest.low_fps, strictest.high_fps))
        return f"{step_number_text}, so far between {low} and {high}"
    if last.purpose == BURST_STEP:
        return f"{step_number_text}, a burst of {format_value(last.burst_frames or 0, '1')} frames"
    loads_fps = [
        step.load_fps
        for step in progress.running_trial_steps[-_MAX_RECENT_STEPS_SHOWN:]
        if step.load_fps is not None
    ]
    if not loads_fps:
        return step_number_text
    low, high = (format_value(load_fps, "frame/s") for load_fps in (min(loads_fps), max(loads_fps)))
    return f"{step_number_text}, at {low}" if low == high else f"{step_number_text}, between {low} and {high}"


def _rounded_duration_text(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 99.5 else format_duration(seconds)


def _progress_bar(progress: CampaignProgress) -> RenderableType:
    remaining_trials, remaining_s = progress.estimate_remaining()
    elapsed_s = progress.elapsed_s
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(total=max(elapsed_s + remaining_s, 1e-6), completed=elapsed_s, width=30),
        Text(
            campaign_status_line(progress, remaining_trials, remaining_s), no_wrap=True, overflow="ellipsis"
        ),
    )
    return line


def _displayed_factors_and_levels(
    progress: CampaignProgress,
) -> tuple[tuple[FactorLevels, ...], list[Mapping[str, Level]]]:
    study = progress.study
    treatments = [treatment.factors for treatment in progress.plan.treatments]
    return merge_varying_factors(study.combine, study.factors, treatments)


def _live_row(
    treatment: TreatmentProgress, levels: Mapping[str, Level], progress: CampaignProgress
) -> LiveTreatmentRow:
    return LiveTreatmentRow(
        factors=levels,
        trial_count=treatment.trial_count,
        stop_reason=RUNNING if treatment.state == OPEN_STATE else treatment.state,
        metrics={choose_deciding_metric(progress.study): treatment.estimate} if treatment.estimate else {},
        is_running=progress.running_treatment == treatment.treatment.index,
        last_trial_number=treatment.last_campaign_trial_number,
    )


def _estimate_with_trial_count_text(treatment: TreatmentProgress, progress: CampaignProgress) -> str:
    estimate = treatment.estimate
    unit = find_metric(choose_deciding_metric(progress.study)).unit
    if estimate is None:
        value = "not measured"
    elif estimate.low is None or estimate.high is None:
        value = f"{format_value(estimate.value, unit)} (no interval)"
    else:
        low, high = format_value(estimate.low, unit), format_value(estimate.high, unit)
        value = f"{format_value(estimate.value, unit)} ({low} to {high})"
    return f"{value}, {format_count_with_noun(treatment.trial_count, 'trial')}, {treatment.state}"


def _treatment_phrase_prefix(progress: CampaignProgress | None, treatment: int | None) -> str:
    if progress is None or treatment is None:
        return ""
    factors, levels = _displayed_factors_and_levels(progress)
    return f"{treatment_phrase(levels[treatment], factor_names(factors))}: "
