"""Causes that are the bench itself: it takes part of the load's CPU, or there is too little to say."""

from __future__ import annotations

from bench.corpus.disturb.shaped import shaped
from bench.corpus.disturb.varying import DISTURBED, in_some_trials
from bench.corpus.proof import differs, short_of
from bench.corpus.recipe import Pace, Recipe, doses
from vnetbench.study.workloads import UDP_STREAM, TCP_RR

RATES = (8e5, 1.2e6, 2e6, 1.5e6)
"""Datagrams a second that no sender here keeps, on one stream."""
BYTES = 64
LEAST_REQUESTS = 2.5e5

RECIPES = (
    Recipe(
        ("instrument_limit",),
        "a rate beyond the generator",
        doses(RATES, "{:g} datagrams/s", lambda rate: {"rate": f"{rate:.0f} /s"}),
        ("bridge", "router", "jumbo6"),
        short_of(0.9 * RATES[0] * BYTES),
        workload=UDP_STREAM,
        levels={"datagram_size": f"{BYTES} B"},
        accepted=("sender_cpu",),
    ),
    Recipe(
        ("instrument_limit",),
        "requests at a rate beyond one connection",
        doses(("250 k/s", "300 k/s", "400 k/s", "350 k/s"), "{}", lambda rate: {"rate": rate}),
        ("bridge", "router", "jumbo6"),
        short_of(0.9 * LEAST_REQUESTS),
        workload=TCP_RR,
        accepted=("sender_cpu", "request_response"),
    ),
    Recipe(
        ("too_few_trials",),
        "two trials that differ",
        doses(
            (3e9, 1e9, 3e8, 5e8),
            "a link of {:g} bit/s in one of two",
            disturb=lambda rate: in_some_trials(0.5, shaped(rate)),
        ),
        ("bridge", "router", "jumbo6"),
        differs(0.3, DISTURBED),
        accepted=("link_full", "two_modes"),
        pace=Pace(trials=2),
    ),
)
