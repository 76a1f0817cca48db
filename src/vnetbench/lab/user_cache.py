"""The user's own cache, where things may lie from run to run."""

from __future__ import annotations

import os
from pathlib import Path

from vnetbench.errors import BenchError


def cache_folder(below: str, purpose: str) -> Path:
    """A folder in the user's cache, made where there is none; `below` is its path in ours.

    Raises BenchError, which says `purpose`, where it cannot be made.
    """
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vnetbench" / below
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(
            f"there is no place to {purpose}: {error.strerror}",
            where=str(path),
            fix="set HOME or XDG_CACHE_HOME to a folder of yours",
        ) from error
    return path
