"""What differs between the study that a campaign was started with and the file as it is now."""

from __future__ import annotations

import difflib


def diff_study(recorded: str, current: str, path: str) -> str:
    """A unified diff from the recorded text to the one found at `path`; empty where they are the same.

    How lines end does not count: another editor's line ends ask nothing else.
    """
    return "\n".join(
        difflib.unified_diff(
            recorded.splitlines(),
            current.splitlines(),
            "recorded with the campaign",
            path,
            lineterm="",
        )
    )
