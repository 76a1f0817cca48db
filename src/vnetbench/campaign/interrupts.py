"""What Ctrl-C and signals ask of a campaign: once, finish the trial; twice, or SIGTERM, leave now."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class LeaveNow(BaseException):
    """Raised in the midst of a trial when the user wants out at once."""


class Interrupts:
    """Takes over the signals while it is open. Only code under `interruptible` is broken off."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        """`on_first` is called when the first Ctrl-C comes, to say what it does."""
        self.asked = False
        """The trial at work shall be the last."""
        self.now = False
        """Nothing shall be finished."""
        self._on_first = on_first
        self._breakable = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        for number in self.SIGNALS:
            self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """What runs in here may be broken off by LeaveNow."""
        if self.now:
            raise LeaveNow
        self._breakable = True
        try:
            yield
        finally:
            self._breakable = False

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and not self.asked:
            self.asked = True
            self._on_first()
            return
        self.asked = self.now = True
        if self._breakable:
            self._breakable = False  # once is enough: what unwinds must not be broken off again
            raise LeaveNow
