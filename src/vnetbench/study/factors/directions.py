"""What a level of the factor `direction` says: how many streams of a pair go each way."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

DIRECTION_SHARES = {"forward": (1, 0), "reverse": (0, 1), "both": (1, 1)}
MAX_DIRECTION_SHARE = 64
DIRECTION_MIX_PATTERN = r"[0-9]+\s*/\s*[0-9]+"
_COUNT_FACTORS = ("streams", "connections", "generators")
"""The factors that say how many there are for each direction, the first that a workload has."""
MAX_ENDPOINT_STREAMS = 1024
"""Of one endpoint, both ways together (docs/protocol.md, Limits)."""


def canonical_direction_mix(text: str) -> str:
    """The canonical spelling of a mix such as "3/1"; "1/1" is "both". Raises WrongValue."""
    mix = re.fullmatch(r"\s*([0-9]{1,5})\s*/\s*([0-9]{1,5})\s*", text)
    if mix is None or not all(1 <= int(share) <= MAX_DIRECTION_SHARE for share in mix.groups()):
        raise WrongValue(
            f'"{text.strip()}" is no mix of directions',
            fix=f'write how many go forward and how many in reverse, each from 1 to {MAX_DIRECTION_SHARE}: "3/1"',
        )
    forward, reverse = (int(share) for share in mix.groups())
    return "both" if (forward, reverse) == DIRECTION_SHARES["both"] else f"{forward}/{reverse}"


def streams_per_direction(levels: Mapping[str, Level]) -> tuple[int, int]:
    """How many streams (or connections, or generators) of a pair go forward, and how many in reverse."""
    count = int(next((levels[name] for name in _COUNT_FACTORS if name in levels), 1))
    level = str(levels.get("direction", "forward"))
    forward, reverse = (
        DIRECTION_SHARES[level] if level in DIRECTION_SHARES else (int(share) for share in level.split("/"))
    )
    return count * forward, count * reverse
