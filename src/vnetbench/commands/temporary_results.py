"""Folders for results files that nobody keeps; `lab clean` removes those of killed checks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree

from vnetbench.process import is_process_alive, read_own_process_identity

_PREFIX = "vnetbench-check-"
_OWNER_FILE = "owner"


@contextmanager
def temporary_results_folder() -> Iterator[Path]:
    """Create a folder for results files that nobody keeps, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        (folder / _OWNER_FILE).write_text(read_own_process_identity())
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


def remove_leftover_results_folders() -> int:
    """Remove the folders of killed checks, and return their number."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's folder, or one that has just been created or removed
            if not is_process_alive((folder / _OWNER_FILE).read_text()):
                rmtree(folder)
                removed += 1
    return removed
