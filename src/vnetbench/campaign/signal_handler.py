"""Signal handling of a campaign: the first Ctrl-C finishes the trial; a second one or SIGTERM stops now."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class ImmediateExit(BaseException):
    """Raised during a trial when the user wants to stop immediately."""


class SignalHandler:
    """Handles signals while it is open. Only code inside `interruptible` is interrupted."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        """Create the handler; `on_first` is called on the first Ctrl-C, to report what happens next."""
        self.is_requested = False
        """Whether the campaign stops after the current trial."""
        self.is_immediate = False
        """Whether the campaign stops without finishing the current trial."""
        self._on_first = on_first
        self._is_interruptible = False
        self._previous_handlers: dict[signal.Signals, object] = {}

    def __enter__(self) -> SignalHandler:
        for number in self.SIGNALS:
            self._previous_handlers[number] = signal.signal(number, self._handle_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Run the body so that a signal may interrupt it with ImmediateExit."""
        if self.is_immediate:
            raise ImmediateExit
        self._is_interruptible = True
        try:
            yield
        finally:
            self._is_interruptible = False

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and not self.is_requested:
            self.is_requested = True
            self._on_first()
            return
        self.is_requested = self.is_immediate = True
        if self._is_interruptible:
            self._is_interruptible = False  # a second signal must not interrupt the cleanup
            raise ImmediateExit
