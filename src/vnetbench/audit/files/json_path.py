"""Values in JSON of unknown shape: what is missing or of another type is None, never an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MAX_WALK_DEPTH = 10


def get(value: Any, *keys: str) -> Any:
    """Return a nested value, or None. Old exports of govc write keys with a capital first letter."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value[key] if key in value else value.get(key[:1].upper() + key[1:])
    return value


def get_list(value: Any, *keys: str) -> list[Any]:
    """Return a nested list, or an empty one."""
    found = get(value, *keys)
    return found if isinstance(found, list) else []


def get_text(value: Any, *keys: str) -> str:
    """Return a nested text, or an empty one."""
    found = get(value, *keys)
    return found if isinstance(found, str) else ""


def get_whole(value: Any, *keys: str) -> int | None:
    """Return a nested whole number, or None; exports write some as texts."""
    found = get(value, *keys)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 16:
        return int(found)
    return found if type(found) is int else None


def get_flag(value: Any, *keys: str) -> bool | None:
    """Return a nested true or false, or None."""
    found = get(value, *keys)
    return found if isinstance(found, bool) else None


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a document, outer ones first, down to a fixed depth."""
    pending = [(value, 0)]
    while pending:
        current, depth = pending.pop(0) if len(pending) < 1000 else pending.pop()
        if isinstance(current, dict):
            yield current
        if depth < _MAX_WALK_DEPTH and isinstance(current, dict | list):
            inner = current.values() if isinstance(current, dict) else current
            pending += [(each, depth + 1) for each in inner if isinstance(each, dict | list)]
