"""The user's cache folder."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path

from vnetbench.errors import BenchError


def cache_folder(subfolder: str, purpose: str) -> Path:
    """Return a folder in the user's cache, and create it if needed.

    Args:
        subfolder: Path inside the project's cache.
        purpose: Completes the error message "cannot ...".

    Raises:
        BenchError: if the folder cannot be created.
    """
    path = user_cache_path("vnetbench") / subfolder
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(
            f"cannot {purpose}: {error.strerror}",
            where=str(path),
            fix="set HOME or XDG_CACHE_HOME to a folder that you can write to",
        ) from error
    return path
