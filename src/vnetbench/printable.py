"""What of a text may be written to a terminal: a study's title may hold anything."""

from __future__ import annotations


def make_printable(text: str, keep: str = "") -> str:
    """The text with every character that a terminal would obey replaced; those in `keep` stay."""
    return "".join(c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in text)
