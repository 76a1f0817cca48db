"""Memory and open files of a bench and its agents, and whether they grow."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.redteam.target import descendants, process_name

MAX_GROWTH = 1.1
"""Largest ratio of the last quarter to the second quarter of a figure that is called flat."""
_MIN_SAMPLES = 60
"""Samples are a second apart. A process that lived for less than a minute is still warming up."""
_FIGURES: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("memory", statistics.median),
    ("open files", max),  # Their number differs between the phases of a trial.
)
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


@dataclass(frozen=True)
class Growth:
    """How a figure of one process changed while it ran."""

    process: str
    figure: str
    early: float
    """Second quarter of the samples; the first quarter is warm-up. Memory: median. Open files: most."""
    late: float
    """The same of the last quarter."""
    sample_count: int

    @property
    def ratio(self) -> float:
        """Return late / early."""
        return self.late / self.early if self.early else float(self.late > 0) + 1.0

    @property
    def is_flat(self) -> bool:
        """Return whether the figure grew by at most a tenth."""
        return self.ratio <= MAX_GROWTH


@dataclass
class UsageSamples:
    """Resident memory (bytes) and open files of the processes of one bench, by process."""

    figures: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """(program name, process id) to its samples (resident bytes, open files)."""

    def add(self, bench_pid: int) -> None:
        """Take one sample of the bench and of every process that it started, while it runs trials.

        Before its first agent and after its last one, a bench reads and summarizes a file. This takes the
        more memory the more trials the file has.
        """
        started = descendants(bench_pid)
        if not started:
            return
        for pid in (bench_pid, *started):
            with suppress(OSError, IndexError, ValueError):
                resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
                files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
                name = "bench" if pid == bench_pid else process_name(pid)
                self.figures.setdefault((name, pid), []).append((resident, files))

    def growths(self) -> list[Growth]:
        """Return the growth of each process that lived long enough for a judgement."""
        return [
            _growth(f"{name} ({pid})", figure, summarize, [float(sample[index]) for sample in samples])
            for (name, pid), samples in self.figures.items()
            if len(samples) >= _MIN_SAMPLES
            for index, (figure, summarize) in enumerate(_FIGURES)
        ]


def _growth(
    process: str, figure: str, summarize: Callable[[Sequence[float]], float], values: Sequence[float]
) -> Growth:
    quarter = len(values) // 4
    early, late = values[quarter : 2 * quarter], values[-quarter:]
    return Growth(process, figure, summarize(early), summarize(late), len(values))
