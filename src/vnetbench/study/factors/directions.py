"""Levels of the factor `direction`: how many streams each direction of a pair gets."""

from __future__ import annotations

import re
from typing import NamedTuple

from vnetbench.study.problems import WrongValue

FORWARD, REVERSE, BOTH = "forward", "reverse", "both"
"""Directions of the load: from the first VM of each pair to the second, back, or both."""


class StreamsPerDirection(NamedTuple):
    """Numbers of streams in each direction of a pair."""

    forward: int
    reverse: int


STREAM_MULTIPLIERS_BY_DIRECTION = {
    FORWARD: StreamsPerDirection(1, 0),
    REVERSE: StreamsPerDirection(0, 1),
    BOTH: StreamsPerDirection(1, 1),
}
"""Forward and reverse streams for each of `streams`, by the keyword of the level."""
MAX_STREAM_MULTIPLIER = 64
DIRECTION_MIX_PATTERN = r"[0-9]+\s*/\s*[0-9]+"
MAX_ENDPOINT_STREAMS = 1024
"""Streams of one endpoint, both directions together (docs/protocol.md, Limits)."""


def canonicalize_direction_mix(text: str) -> str:
    """Return the canonical form of a mix such as "3/1"; "1/1" becomes "both". Raises WrongValue."""
    mix = re.fullmatch(r"\s*([0-9]{1,5})\s*/\s*([0-9]{1,5})\s*", text)
    if mix is None or not all(1 <= int(number) <= MAX_STREAM_MULTIPLIER for number in mix.groups()):
        raise WrongValue(
            f'"{text.strip()}" is not a mix of directions',
            fix=f"write the forward and reverse streams, each from 1 to {MAX_STREAM_MULTIPLIER}, "
            'such as "3/1"',
        )
    forward, reverse = (int(number) for number in mix.groups())
    return "both" if (forward, reverse) == STREAM_MULTIPLIERS_BY_DIRECTION["both"] else f"{forward}/{reverse}"


def parse_stream_multipliers(level: str) -> StreamsPerDirection:
    """Return the forward and reverse streams for each of `streams`: (3, 1) for "3/1"."""
    if level in STREAM_MULTIPLIERS_BY_DIRECTION:
        return STREAM_MULTIPLIERS_BY_DIRECTION[level]
    return StreamsPerDirection(*(int(number) for number in level.split("/")))
