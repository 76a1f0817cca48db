"""What a level of the factor `direction` says: how many streams of a pair go each way."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue

WORDS = {"forward": (1, 0), "reverse": (0, 1), "both": (1, 1)}
MOST_SHARES = 64
MIX_PATTERN = r"[0-9]+\s*/\s*[0-9]+"
_COUNTS = ("streams", "connections", "generators")
"""The factors that say how many there are for each direction, the first that a workload has."""
MOST_STREAMS = 1024
"""Of one endpoint, both ways together (docs/protocol.md, Limits)."""


def canonical_mix(text: str) -> str:
    """The canonical spelling of a mix such as "3/1"; "1/1" is "both". Raises WrongValue."""
    mix = re.fullmatch(r"\s*([0-9]{1,5})\s*/\s*([0-9]{1,5})\s*", text)
    if mix is None or not all(1 <= int(share) <= MOST_SHARES for share in mix.groups()):
        raise WrongValue(
            f'"{text.strip()}" is no mix of directions',
            fix=f'write how many go forward and how many in reverse, each from 1 to {MOST_SHARES}: "3/1"',
        )
    forward, reverse = (int(share) for share in mix.groups())
    return "both" if (forward, reverse) == WORDS["both"] else f"{forward}/{reverse}"


def streams_each_way(factors: Mapping[str, Level]) -> tuple[int, int]:
    """How many streams (or connections, or generators) of a pair go forward, and how many in reverse."""
    count = int(next((factors[name] for name in _COUNTS if name in factors), 1))
    level = str(factors.get("direction", "forward"))
    forward, reverse = WORDS[level] if level in WORDS else (int(share) for share in level.split("/"))
    return count * forward, count * reverse
