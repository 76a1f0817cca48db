"""A campaign in a terminal while it runs: live table and progress bar; in a pipe or a log, plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vnetbench.campaign.progress import OPEN, Progress, TreatmentProgress
from vnetbench.quantity import format_duration, format_value
from vnetbench.report.one_at_a_time import merge_varying_factors
from vnetbench.report.tables.columns import UNMEASURED_STATES
from vnetbench.report.tables.estimates_table import LiveTreatmentRow, live_table
from vnetbench.results.records import BURST_STEP, RUNNING
from vnetbench.study.model import FactorLevels, Level
from vnetbench.study.workloads import deciding_metric
from vnetbench.wording.estimate_text import find_metric
from vnetbench.wording.factor_text import pluralize, factor_names, treatment_phrase

REFRESHES_PER_S = 1
"""Drawing forty treatments takes some 20 ms of CPU time, which the trials would miss."""
_LATEST_STEPS = 6
"""Of a search: where these looked is where it is."""
LINE_EVERY_S = 10.0
"""In a log a line of progress comes at most this often."""


class Display(Protocol):
    """What a campaign is watched through."""

    def __enter__(self) -> Display: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def watch(self, progress: Progress) -> None:
        """Begin to show a campaign."""

    def say(self, sentence: str, treatment: int | None = None) -> None:
        """Show a sentence that stays; `treatment` is the index of the one that it is about."""

    def tick(self) -> None:
        """Something has come to an end: a trial or a block."""


def display(console: Console) -> Display:
    """The display that fits where the output goes."""
    return TerminalDisplay(console) if console.is_terminal else LogDisplay(console)


class TerminalDisplay:
    """A table that is drawn again in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=REFRESHES_PER_S, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __enter__(self) -> TerminalDisplay:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def watch(self, progress: Progress) -> None:
        """See Display."""
        self._progress = progress

    def say(self, sentence: str, treatment: int | None = None) -> None:
        """See Display."""
        self._console.print(Text(_about(self._progress, treatment) + sentence, style="yellow"))

    def tick(self) -> None:
        """See Display: it is drawn again by itself."""

    def _draw(self) -> RenderableType:
        progress = self._progress
        if progress is None:
            return Text("")
        factors, levels = _told(progress)
        rows = [_row(t, each, progress) for t, each in zip(progress.treatments, levels, strict=True)]
        return Group(live_table(rows, factors, deciding_metric(progress.study)), Text(""), _bar(progress))


class LogDisplay:
    """Plain lines: one for each treatment that has come to its end, and now and then how far it is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._told: set[int] = set()
        self._last_line = time.monotonic()

    def __enter__(self) -> LogDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tick()

    def watch(self, progress: Progress) -> None:
        """See Display."""
        self._progress = progress

    def say(self, sentence: str, treatment: int | None = None) -> None:
        """See Display."""
        self._print(_about(self._progress, treatment) + sentence)

    def tick(self) -> None:
        """See Display."""
        if self._progress is None:
            return
        for treatment in self._progress.treatments:
            index = treatment.treatment.index
            # Why one was refused or given up has been said.
            if treatment.state not in (OPEN, *UNMEASURED_STATES) and index not in self._told:
                self._told.add(index)
                self._print(_about(self._progress, index) + _ended(treatment, self._progress))
        if time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._print(status_line(self._progress, *self._progress.left()))

    def _print(self, line: str) -> None:
        self._last_line = time.monotonic()
        self._console.print(Text(line), soft_wrap=True)
        sys.stdout.flush()


def status_line(progress: Progress, trials: int, seconds: float) -> str:
    """How far a campaign is, in a line; `trials` and `seconds` are what is left."""
    done = f"{pluralize(progress.trials, 'trial')} in {_whole_seconds(progress.elapsed_s)}"
    if progress.is_leaving:
        return f"{done}; removing the testbeds"
    return f"{done}; about {trials} more, {_whole_seconds(seconds)} left{_series(progress)}"


def _series(progress: Progress) -> str:
    """Where the series of steps at work is; empty where none is."""
    if not progress.steps:
        return ""
    last = progress.steps[-1]
    at = f"; step {last.number + 1}"
    if last.purpose == BURST_STEP:
        return f"{at}, a burst of {format_value(last.burst_frames or 0, '1')} frames"
    loads = [step.load_fps for step in progress.steps[-_LATEST_STEPS:] if step.load_fps is not None]
    if not loads:
        return at
    low, high = (format_value(load, "frame/s") for load in (min(loads), max(loads)))
    return f"{at}, at {low}" if low == high else f"{at}, between {low} and {high}"


def _whole_seconds(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 99.5 else format_duration(seconds)


def _bar(progress: Progress) -> RenderableType:
    trials, left_s = progress.left()
    elapsed_s = progress.elapsed_s
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(total=max(elapsed_s + left_s, 1e-6), completed=elapsed_s, width=30),
        Text(status_line(progress, trials, left_s), no_wrap=True, overflow="ellipsis"),
    )
    return line


def _told(progress: Progress) -> tuple[tuple[FactorLevels, ...], list[Mapping[str, Level]]]:
    study = progress.study
    return merge_varying_factors(study.combine, study.factors, [t.factors for t in progress.plan.treatments])


def _row(treatment: TreatmentProgress, factors: Mapping[str, Level], progress: Progress) -> LiveTreatmentRow:
    return LiveTreatmentRow(
        factors=factors,
        trials=treatment.trials,
        stopped_by=RUNNING if treatment.state == OPEN else treatment.state,
        metrics={deciding_metric(progress.study): treatment.estimate} if treatment.estimate else {},
        active=progress.running == treatment.treatment.index,
        last_trial=treatment.last_trial,
    )


def _ended(treatment: TreatmentProgress, progress: Progress) -> str:
    found = treatment.estimate
    unit = find_metric(deciding_metric(progress.study)).unit
    if found is None:
        figure = "not measured"
    elif found.low is None or found.high is None:
        figure = f"{format_value(found.value, unit)} (no interval yet)"
    else:
        low, high = format_value(found.low, unit), format_value(found.high, unit)
        figure = f"{format_value(found.value, unit)} ({low} to {high})"
    return f"{figure}, {pluralize(treatment.trials, 'trial')}, {treatment.state}"


def _about(progress: Progress | None, treatment: int | None) -> str:
    if progress is None or treatment is None:
        return ""
    factors, levels = _told(progress)
    return f"{treatment_phrase(levels[treatment], factor_names(factors))}: "
