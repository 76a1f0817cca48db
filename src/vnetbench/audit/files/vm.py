"""What the readers of VM descriptions share."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"\d{1,15}")
_TRUE = ("true", "1", "yes", "on")
NONE = "none"


def parse_whole(text: object) -> int | None:
    """Return a whole number of a text or a JSON number, or None."""
    if type(text) is int:
        return text
    words = text.strip() if isinstance(text, str) else ""
    return int(words) if _WHOLE.fullmatch(words) else None


def is_true(text: object) -> bool:
    """Return whether a text or a JSON value means true."""
    return text is True or (isinstance(text, str) and text.strip().lower() in _TRUE)
