"""Counters of a testbed's teams over the load of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def count_mac_moves_of_load(
    effective: Mapping[str, Any], after_load: Sequence[Mapping[str, int | None]]
) -> Mapping[str, Any]:
    """Return the effective settings with the moves of addresses during the load, by the end of each team.

    Before, `mac_moves` of each team has the count at the start of the load. None stays None.
    """
    teams = effective.get("teams")
    if not teams:
        return effective
    changed = []
    for team, counts in zip(teams, after_load, strict=True):
        before = team.get("mac_moves") or {}
        moves = {end: _difference(count, before.get(end)) for end, count in counts.items()}
        changed.append({**team, "mac_moves": moves})
    return {**effective, "teams": changed}


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
