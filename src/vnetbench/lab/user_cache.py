"""The user's cache folder."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from platformdirs import user_cache_path

from vnetbench.errors import BenchError


def cache_folder(subfolder: str, purpose: str) -> Path:
    """Return a folder in the user's cache, and create it if needed.

    Args:
        subfolder: Path inside the project's cache.
        purpose: Completes the error message "cannot ...".

    Raises:
        BenchError: if the folder cannot be created, or if another user can change it: the bench boots
            kernels and resumes guests from it, often as root.
    """
    root = user_cache_path("vnetbench")
    path = root / subfolder
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
        for folder in (path, *path.parents):
            if folder.is_relative_to(root):
                _check_owner(folder, purpose)
    except OSError as error:
        raise BenchError(
            f"cannot {purpose}: {error.strerror}",
            where=str(path),
            fix="set HOME or XDG_CACHE_HOME to a folder that you can write to",
        ) from error
    return path


def _check_owner(folder: Path, purpose: str) -> None:
    """Raise BenchError if another user than this one and root can change what is in the folder."""
    status = folder.stat()
    if status.st_uid not in (os.geteuid(), 0):
        problem = f"the folder belongs to {_user_phrase(status.st_uid)}, who can change its files"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = "other users can write to the folder"
    else:
        return
    raise BenchError(
        f"cannot {purpose}: {problem}",
        where=str(folder),
        fix="set XDG_CACHE_HOME to a folder that only you can write to, or correct owner and mode",
    )


def _user_phrase(user_id: int) -> str:
    try:
        return f"the user {pwd.getpwuid(user_id).pw_name}"
    except KeyError:
        return f"the user {user_id}"
