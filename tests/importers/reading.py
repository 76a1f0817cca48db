"""Reads logs over and over, up to any length, and prints what that took: `python -m … MIB LOG…`."""

from __future__ import annotations

import io
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from vnetbench.importers.decoding import lines_of
from vnetbench.importers.recognise import recognise
from vnetbench.importers.runs import Run


class Repeated(io.RawIOBase):
    """The same logs one after the other, again and again, until there are so many bytes."""

    def __init__(self, texts: Sequence[bytes], size: int) -> None:
        self._chunks: Iterator[bytes] = itertools.cycle(texts)
        self._rest = b""
        self._left = size

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """As `RawIOBase` says."""
        self._rest = self._rest or next(self._chunks)
        count = min(len(buffer), len(self._rest), self._left)
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self._left -= count
        return count


def peak_kib() -> int:
    """The most memory that this process had; `getrusage` would tell that of the one that started it, too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


def main(mebibytes: str, *logs: str) -> None:
    """Print how many runs were read, and the peak of memory in KiB."""
    texts = [Path(log).read_bytes() + b"\n" for log in logs]
    stream = io.BufferedReader(Repeated(texts, int(mebibytes) * 2**20))
    runs = sum(isinstance(item, Run) for item in recognise(lines_of(stream)))
    print(runs, peak_kib())


if __name__ == "__main__":
    main(*sys.argv[1:])
