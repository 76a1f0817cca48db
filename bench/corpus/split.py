"""The split of the corpus: runs for the development of rules, and held-out runs for `make bench-explain`.

Some testbeds are held out as a whole, and one strength of each cause on all others. If a rule changes after
a look at a held-out part, that part becomes a development part, and a new part is declared before its first
run. Until 2026-11-22 the testbeds `router` and `e1000e` and the middle strengths were held out.
"""

from __future__ import annotations

from bench.corpus.scenario import OTHER

DEVELOPING, HELD_OUT = "developing", "held-out"
PARTS = (DEVELOPING, HELD_OUT)
HELD_OUT_TOPOLOGIES = ("jumbo6", "vmxnet3")
HELD_OUT_STRENGTH = OTHER


def choose_part(topology: str, strength: str) -> str:
    """Return the part of a run."""
    is_held_out = topology in HELD_OUT_TOPOLOGIES or strength == HELD_OUT_STRENGTH
    return HELD_OUT if is_held_out else DEVELOPING
