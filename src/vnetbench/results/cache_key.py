"""The user's secret key for cached values, so that those in a file from someone else do not count."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

_KEY_BYTES = 32
_KEY_FILE_NAME = "cache.key"


def compute_authentication_code(key: bytes, *parts: str | int | bytes) -> bytes:
    """Return the authentication code of these parts (HMAC-SHA-256, RFC 2104)."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode()
        code.update(len(content).to_bytes(8, "big") + content)
    return code.digest()


def read_or_create_key() -> bytes | None:
    """Return the user's key, which is created on first use; None if it can be neither read nor created."""
    with suppress(OSError, RuntimeError):
        path = Path(user_state_path("vnetbench")) / _KEY_FILE_NAME
        if not path.exists():
            _create_key(path)
        key = path.read_bytes()
        if len(key) == _KEY_BYTES and path.stat().st_uid == os.geteuid():
            return key
    return None


def _create_key(path: Path) -> None:
    """Create the key in one step, so that no process reads a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        unfinished.unlink()
