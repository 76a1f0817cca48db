"""Differences between a campaign's recorded study and the study file as it is now."""

from __future__ import annotations

import difflib


def diff_study_texts(recorded: str, current: str, path: str) -> str:
    """Return a unified diff from the recorded text to the current text of `path`; empty if they are equal.

    Line endings are ignored, because they do not change the study.
    """
    return "\n".join(
        difflib.unified_diff(
            recorded.splitlines(),
            current.splitlines(),
            "the study recorded with the campaign",
            path,
            lineterm="",
        )
    )
