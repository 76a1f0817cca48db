"""Makes texts of users safe for a terminal: a study's title can contain any character."""

from __future__ import annotations


def make_printable(text: str, keep: str = "") -> str:
    """Return the text with control characters replaced, except for those in `keep`."""
    return "".join(c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in text)
