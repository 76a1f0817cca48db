"""Causes in the bench itself: a limit of the generator, or too few trials."""

from __future__ import annotations

from bench.corpus.disturbances.shaped_links import shaped_links
from bench.corpus.disturbances.varying_disturbances import DISTURBED_MARK, in_random_trials
from bench.corpus.effect_checks import require_mode_difference, require_speed_below
from bench.corpus.scenario import RunTiming, Scenario, make_strengths
from vnetbench.study.workloads import TCP_RR, UDP_STREAM

RATES = (8e5, 1.2e6, 2e6, 1.5e6)
"""Datagrams per second that no sender achieves with one stream."""
DATAGRAM_BYTES = 64
MIN_REQUESTS_PER_S = 2.5e5

RECIPES = (
    Scenario(
        ("instrument_limit",),
        "a rate beyond the generator",
        make_strengths(RATES, "{:g} datagrams/s", lambda rate: {"rate": f"{rate:.0f} /s"}),
        ("bridge", "router", "jumbo6"),
        require_speed_below(0.9 * RATES[0] * DATAGRAM_BYTES),
        workload=UDP_STREAM,
        levels={"datagram_size": f"{DATAGRAM_BYTES} B"},
        accepted_causes=("sender_cpu",),
    ),
    Scenario(
        ("instrument_limit",),
        "requests at a rate beyond one connection",
        make_strengths(("250 k/s", "300 k/s", "400 k/s", "350 k/s"), "{}", lambda rate: {"rate": rate}),
        ("bridge", "router", "jumbo6"),
        require_speed_below(0.9 * MIN_REQUESTS_PER_S),
        workload=TCP_RR,
        accepted_causes=("sender_cpu", "request_response"),
    ),
    Scenario(
        ("too_few_trials",),
        "two trials that differ",
        make_strengths(
            (3e9, 1e9, 3e8, 5e8),
            "a link of {:g} bit/s in one of two",
            disturbance=lambda rate: in_random_trials(0.5, shaped_links(rate)),
        ),
        ("bridge", "router", "jumbo6"),
        require_mode_difference(0.3, DISTURBED_MARK),
        accepted_causes=("link_full", "two_modes"),
        timing=RunTiming(trial_count=2),
    ),
)
