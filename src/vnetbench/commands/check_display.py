"""The progress of a check: one line for all parts, with the time that is left for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vnetbench.campaign.progress import CampaignProgress
from vnetbench.check.parts import Part
from vnetbench.quantity import format_count_with_noun, format_exact_duration
from vnetbench.report.live_display import MIN_S_BETWEEN_LOG_LINES, TERMINAL_REFRESHES_PER_S, Display
from vnetbench.study.model import Plan

_BAR_WIDTH = 24
_ROUNDING_S = 5


class CheckProgressBar:
    """The progress of all parts."""

    def __init__(self, parts: Sequence[tuple[Part, Plan]]) -> None:
        self._parts = parts
        self._start_s = time.monotonic()

    def display_factory(self, number: int) -> Callable[[Console], Display]:
        """Return the factory of the display for the part with this index."""
        return lambda console: _PartDisplay(console, self, number)

    def elapsed_s(self) -> float:
        """Return the time since the check began."""
        return time.monotonic() - self._start_s

    def remaining_s(self, number: int, progress: CampaignProgress) -> float:
        """Return the expected time of the running part with this index and of all parts after it."""
        return progress.estimate_remaining().duration_s + sum(
            CampaignProgress(part.study, plan).estimate_remaining().duration_s
            for part, plan in self._parts[number + 1 :]
        )

    def status_line(self, number: int, progress: CampaignProgress) -> str:
        """Return the running part, its trials and the time left: `goodput, part 1 of 3: 12 trials; …`."""
        part = self._parts[number][0]
        left_s = self.remaining_s(number, progress)
        trials = format_count_with_noun(progress.trial_count, "trial")
        head = f"{part.name}, part {number + 1} of {len(self._parts)}: {trials}"
        rounded_s = max(_ROUNDING_S, _ROUNDING_S * round(left_s / _ROUNDING_S))
        return f"{head}; about {format_exact_duration(rounded_s)} left"


class _PartDisplay:
    """The display of one part: a line that is redrawn in a terminal, and lines now and then in a log."""

    def __init__(self, console: Console, bar: CheckProgressBar, number: int) -> None:
        self._console = console
        self._bar = bar
        self._number = number
        self._progress: CampaignProgress | None = None
        self._last_line_s = time.monotonic()
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=TERMINAL_REFRESHES_PER_S,
            transient=True, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __enter__(self) -> _PartDisplay:
        if self._console.is_terminal:
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
        """See Display. The result of the check reports refused and failed treatments."""
        if treatment_index is None:
            self._console.print(Text(sentence, style="yellow"))

    def update(self) -> None:
        """See Display."""
        is_due = time.monotonic() - self._last_line_s >= MIN_S_BETWEEN_LOG_LINES
        if self._progress is None or self._console.is_terminal or not is_due:
            return
        self._last_line_s = time.monotonic()
        self._console.print(Text(self._bar.status_line(self._number, self._progress)), soft_wrap=True)

    def _draw(self) -> RenderableType:
        if self._progress is None:
            return Text("")
        elapsed_s = self._bar.elapsed_s()
        left_s = self._bar.remaining_s(self._number, self._progress)
        line = Table.grid(padding=(0, 2))
        line.add_row(
            ProgressBar(total=max(elapsed_s + left_s, 1e-6), completed=elapsed_s, width=_BAR_WIDTH),
            Text(self._bar.status_line(self._number, self._progress), no_wrap=True, overflow="ellipsis"),
        )
        return line
