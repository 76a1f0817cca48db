"""The user's cache of what guests need: each thing whole or not there, for any number of benches at once."""

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

ABANDONED_S = 3600.0
"""A temporary file or folder as old as this is one that a killed bench left."""
_UNFINISHED = ".making-"


def folder(kind: str) -> Path:
    """The folder of one kind of thing: `kernels`, `initramfs`, `snapshots`. Raises BenchError."""
    return cache_folder(f"guests/{kind}", "keep what guests need")


@contextmanager
def making(path: Path) -> Iterator[Path]:
    """A new name beside `path`: what stands there at the end takes its name, unless another was first.

    Raises BenchError where the disk is full or not writable.
    """
    temporary = path.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
    try:
        yield temporary
        with suppress(OSError):  # a folder that another bench has made meanwhile is as good as ours
            temporary.rename(path)
        if not path.exists():
            temporary.rename(path)
    except OSError as error:
        raise BenchError(
            f"it cannot be kept: {error.strerror or error}",
            where=str(path),
            fix="make room there, or set XDG_CACHE_HOME to a folder that has some",
        ) from error
    finally:
        _remove(temporary)


def use(path: Path) -> None:
    """Say that it is in use now: what was not used for the longest is pruned first."""
    with suppress(OSError):
        os.utime(path)


def prune(kind: str, most_bytes: int) -> None:
    """Remove what was not used for the longest until a kind's files take no more than `most_bytes`."""
    found = []
    for path in folder(kind).iterdir():
        with suppress(OSError):
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    left = sum(size for _, size, _ in found)
    for used, size, path in sorted(found):
        is_abandoned = path.name.startswith(_UNFINISHED) and used < time.time() - ABANDONED_S
        if is_abandoned or (left > most_bytes and not path.name.startswith(_UNFINISHED)):
            _remove(path)
            left -= size


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)
