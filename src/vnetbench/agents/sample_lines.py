"""The samples that an agent sends under load, kept as the lines that arrived.

Decoding a line takes CPU time, which the load then lacks. So nothing is decoded before the load has ended.
"""

from __future__ import annotations

import threading

SAMPLE_METHOD = "trial.sample"
_SAMPLE_PREFIX = b'{"jsonrpc":"2.0","method":"trial.sample",'
"""How an agent begins a sample. Other forms of the same message are recognized after decoding."""
MAX_BYTES = 1 << 29
"""Longest samples of one agent between two trials: more than a results file can store of a trial."""
_LINE_OVERHEAD_BYTES = 64
"""Memory of a line in addition to its text, so that many short lines are bounded too."""


def is_sample(line: bytes) -> bool:
    """Return whether a line is a sample, without decoding it. False for an unusual form of a sample."""
    return line.startswith(_SAMPLE_PREFIX)


class SampleLines:
    """Samples of one agent. A reader thread appends them, and another thread takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._kept_bytes = 0
        self._is_overfull = False

    def append(self, line: bytes) -> None:
        """Keep a line, unless the lines would need more than MAX_BYTES."""
        with self._lock:
            self._kept_bytes += len(line) + _LINE_OVERHEAD_BYTES
            if self._kept_bytes > MAX_BYTES:
                self._is_overfull = True
                self._lines.clear()
            else:
                self._lines.append(line)

    def take(self) -> list[bytes]:
        """Return the lines that arrived since the last call, and forget them.

        Raises:
            ValueError: They were longer than MAX_BYTES, so they were dropped.
        """
        with self._lock:
            lines, self._lines, self._kept_bytes = self._lines, [], 0
            is_overfull, self._is_overfull = self._is_overfull, False
        if is_overfull:
            raise ValueError(f"more than {MAX_BYTES >> 20} MiB of samples")
        return lines

    def clear(self) -> None:
        """Forget all lines."""
        with self._lock:
            self._lines, self._kept_bytes, self._is_overfull = [], 0, False
