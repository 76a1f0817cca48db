"""Make long logs of each tool, and very many short ones, from the logs of the tests.

The last digits of the numbers differ from copy to copy, as in real logs: nothing that is kept parsed helps
more than it would there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

LOGS = Path(__file__).parents[1] / "tests" / "data" / "logs"

_FRACTION_PATTERN = re.compile(
    rb"(?<=[ =]\d\.)\d+(?=[ ,\n])|(?<=[ =]\d\d\.)\d+(?=[ ,\n])|(?<=\d\d\d\.)\d+(?=[ ,\n])"
)
_DIGITS = b"0123456789"


def list_tools() -> list[str]:
    """Return the tools that have logs."""
    return sorted(folder.name for folder in LOGS.iterdir() if folder.is_dir())


def iterate_log_copies(tool: str, seed: int = 1) -> Iterator[bytes]:
    """Yield the logs of a tool again and again, without end, each time with other last digits."""
    rng = random.Random(seed)
    contents = [log.read_bytes() for log in sorted((LOGS / tool).iterdir()) if log.suffix != ".toml"]
    while True:
        for content in contents:
            yield _FRACTION_PATTERN.sub(lambda found: _random_digits(rng, len(found[0])), content) + b"\n"


def write_long_log(path: Path, tool: str, size: int) -> None:
    """Write a file of at least `size` bytes with the logs of a tool."""
    written = 0
    with path.open("wb") as file:
        for content in iterate_log_copies(tool):
            written += file.write(content)
            if written >= size:
                return


def write_many_logs(folder: Path, tool: str, count: int) -> int:
    """Write this number of logs into a folder. Return their size in bytes."""
    size = 0
    for number, content in zip(range(count), iterate_log_copies(tool), strict=False):
        size += (folder / f"{number:05}.log").write_bytes(content)
    return size


def _random_digits(rng: random.Random, count: int) -> bytes:
    return bytes(rng.choices(_DIGITS, k=count))
