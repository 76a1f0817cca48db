"""Levels of the factor `direction`: the streams of a pair in each direction."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

DIRECTION_SHARES = {"forward": (1, 0), "reverse": (0, 1), "both": (1, 1)}
"""Forward and reverse streams for each of `streams`, by the keyword of the level."""
MAX_DIRECTION_SHARE = 64
DIRECTION_MIX_PATTERN = r"[0-9]+\s*/\s*[0-9]+"
_COUNT_FACTORS = ("streams", "connections", "generators")
"""Factors that set the number for each direction; the first one that a workload has applies."""
MAX_ENDPOINT_STREAMS = 1024
"""Streams of one endpoint, both directions together (docs/protocol.md, Limits)."""


def canonical_direction_mix(text: str) -> str:
    """Return the canonical form of a mix such as "3/1"; "1/1" becomes "both". Raises WrongValue."""
    mix = re.fullmatch(r"\s*([0-9]{1,5})\s*/\s*([0-9]{1,5})\s*", text)
    if mix is None or not all(1 <= int(share) <= MAX_DIRECTION_SHARE for share in mix.groups()):
        raise WrongValue(
            f'"{text.strip()}" is not a mix of directions',
            fix=f'write the forward and reverse streams, each from 1 to {MAX_DIRECTION_SHARE}, such as "3/1"',
        )
    forward, reverse = (int(share) for share in mix.groups())
    return "both" if (forward, reverse) == DIRECTION_SHARES["both"] else f"{forward}/{reverse}"


def streams_per_direction(levels: Mapping[str, Level]) -> tuple[int, int]:
    """Return the forward and reverse streams (or connections, or generators) of a pair."""
    count = int(next((levels[name] for name in _COUNT_FACTORS if name in levels), 1))
    level = str(levels.get("direction", "forward"))
    forward, reverse = (
        DIRECTION_SHARES[level] if level in DIRECTION_SHARES else (int(share) for share in level.split("/"))
    )
    return count * forward, count * reverse
