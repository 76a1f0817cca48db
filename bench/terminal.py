"""What the programs of the benches have in common: their console, and an end by SIGTERM that cleans up."""

from __future__ import annotations

import signal
import sys

from rich.console import Console

MIN_WIDTH = 160
"""Width of the output in characters if it is not a terminal, so that tables stay whole."""
TERMINATED = 128 + signal.SIGTERM
"""Exit code after SIGTERM."""


def make_console() -> Console:
    """Return a console that prints names such as `:eth0:` as they are."""
    console = Console(highlight=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, emoji=False, width=max(MIN_WIDTH, console.width))


def exit_on_sigterm() -> None:
    """Let SIGTERM end this process by an exception, so that it removes its testbeds first."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
