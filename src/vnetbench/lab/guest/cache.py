"""The user's cache for guests. Entries appear atomically, so several benches may share it."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.user_cache import cache_folder

ABANDONED_AGE_S = 3600.0
"""Minimum age of a temporary file or folder that counts as left by a killed bench."""
_UNFINISHED_PREFIX = ".making-"


def cache_subfolder(category: str) -> Path:
    """Return the folder of a category: `kernels`, `initramfs` or `snapshots`. Raises BenchError."""
    return cache_folder(f"guests/{category}", "cache what guests need")


@contextmanager
def create_atomically(path: Path) -> Iterator[Path]:
    """Provide a temporary path that is renamed to `path` at the end, unless another bench was first.

    Raises:
        BenchError: if the disk is full or not writable.
    """
    temporary = path.with_name(f"{_UNFINISHED_PREFIX}{secrets.token_hex(8)}")
    try:
        yield temporary
        with suppress(OSError):  # A folder that another bench has made meanwhile serves as well.
            temporary.rename(path)
        if not path.exists():
            temporary.rename(path)
    except OSError as error:
        raise BenchError(
            f"cannot write the cache: {error.strerror or error}",
            where=str(path),
            fix="free space in this folder, or set XDG_CACHE_HOME to a folder with space",
        ) from error
    finally:
        _remove_path(temporary)


def mark_used(path: Path) -> None:
    """Mark an entry as used now; `remove_least_recently_used` removes the least recently used ones first."""
    with suppress(OSError):
        os.utime(path)


def remove_least_recently_used(category: str, max_bytes: int) -> None:
    """Remove the least recently used files of a category until at most `max_bytes` remain."""
    found = []
    for path in cache_subfolder(category).iterdir():
        with suppress(OSError):
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    total = sum(size for _, size, _ in found)
    for used, size, path in sorted(found):
        is_abandoned = path.name.startswith(_UNFINISHED_PREFIX) and used < time.time() - ABANDONED_AGE_S
        if is_abandoned or (total > max_bytes and not path.name.startswith(_UNFINISHED_PREFIX)):
            _remove_path(path)
            total -= size


def _remove_path(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)
