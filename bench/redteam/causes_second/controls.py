"""Runs with nothing wrong, over all workloads and numbers of streams."""

from __future__ import annotations

from bench.redteam.causes_second.common import second
from bench.redteam.model import NOTHING, STREAM_COUNTS, crr, mixed, rr, tcp, udp, udp_flood

CAUSES = tuple(
    second(
        f"plain-{name}", "control", "Nothing is wrong", "nothing", (0, 0, 0), (NOTHING,),
        tuple(load(count) for count in STREAM_COUNTS), None,
    )
    for name, load in (
        ("tcp", tcp), ("rr", rr), ("crr", crr), ("udp", udp), ("flood", udp_flood), ("mixed", mixed),
    )
)  # fmt: skip
