"""Which runs are for developing the rules, and which are only looked at by `make bench-explain`.

Whole testbeds are held out, and of all others one strength of each cause. A part that has been looked at,
and after which a rule was changed, is for developing from then on, and another is declared before its first
run is made: until 2026-11-22 the testbeds `router` and `e1000e` and the middle strengths were held out.
"""

from __future__ import annotations

from bench.corpus.recipe import OTHER

DEVELOPING, HELD_OUT = "developing", "held-out"
PARTS = (DEVELOPING, HELD_OUT)
HELD_OUT_TOPOLOGIES = ("jumbo6", "vmxnet3")
HELD_OUT_STRENGTH = OTHER


def part(topology: str, strength: str) -> str:
    """The part that a run is in."""
    is_held_out = topology in HELD_OUT_TOPOLOGIES or strength == HELD_OUT_STRENGTH
    return HELD_OUT if is_held_out else DEVELOPING
