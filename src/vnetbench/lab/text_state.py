"""Waits until a state that a program or file reports as text fulfils a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable

POLL_INTERVAL_S = 0.05


def wait_for_text(
    read: Callable[[], str], is_reached: Callable[[str], bool], timeout_s: float, *, what: str, where: str
) -> str:
    """Return the first text that fulfils a condition.

    Args:
        read: Returns the text now.
        is_reached: The condition.
        timeout_s: Longest wait.
        what: What has the state, such as `the bond`.
        where: Where it is, for the error.

    Raises:
        BenchError: after the timeout, with the last text in one line.
    """
    deadline = time.monotonic() + timeout_s
    while not is_reached(text := read()):
        if time.monotonic() > deadline:
            raise BenchError(
                f"{what} did not reach the expected state within {timeout_s:g} s; its last state: "
                + make_printable(" | ".join(text.split("\n"))),
                where=where,
            )
        time.sleep(POLL_INTERVAL_S)
    return text
