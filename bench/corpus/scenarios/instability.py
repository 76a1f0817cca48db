"""Causes of differences between trials or within a trial."""

from __future__ import annotations

from bench.corpus.disturbances.busy_processes import SPUN_CPU_S, busy_processes
from bench.corpus.disturbances.gso_size import limited_gso_size
from bench.corpus.disturbances.knobs import endpoint_knobs
from bench.corpus.disturbances.shaped_links import shaped_links
from bench.corpus.disturbances.sysctls import endpoint_sysctls
from bench.corpus.disturbances.varying_disturbances import (
    DISTURBED_MARK,
    in_random_trials,
    per_trial,
    slowing_link,
)
from bench.corpus.effect_checks import (
    require_all,
    require_disturbance_value,
    require_mode_difference,
    require_slowdown,
    require_spread,
)
from bench.corpus.scenario import CauseStrength, RunTiming, Scenario, make_strengths

_LONG = "4096 131072 67108864"
LONG_BUFFERS = endpoint_sysctls("ab", {"net/ipv4/tcp_wmem": _LONG, "net/ipv4/tcp_rmem": _LONG})
"""Buffers with which only the congestion window limits a path with a delay of tenths of a second."""
MANY = RunTiming(trial_count=24, duration_s=0.5, interval_s=0.05)


def _move_processing(packets: int) -> CauseStrength:
    """Return a strength in which CPU 3, or else the sender's CPU, processes the packets of a trial."""
    processing_on_cpu_3 = endpoint_knobs("ab", {"rps_cpus": "3"})
    return CauseStrength(
        f"frames of {packets} packets, all on CPU 3",
        disturbances=(limited_gso_size(packets), in_random_trials(0.5, processing_on_cpu_3)),
    )


RECIPES = (
    Scenario(
        ("two_modes",),
        "another process on the sender's CPU in some trials",
        make_strengths(
            (1, 2, 4, 3),
            "{} processes",
            disturbance=lambda count: in_random_trials(0.5, busy_processes(count, frozenset({0}))),
        ),
        ("bridge", "router", "jumbo6"),
        require_mode_difference(0.25, DISTURBED_MARK),
        levels={"cpus": "0/1"},
        timing=MANY,
        accepted_causes=("shared_by_vms",),
    ),
    Scenario(
        ("two_modes",),
        "receive processing elsewhere in some trials",
        tuple(_move_processing(packets) for packets in (5, 4, 2, 3)),
        ("bridge", "router", "jumbo6"),
        require_mode_difference(0.15, DISTURBED_MARK),
        # Each endpoint has one thread and its own CPU, so no CPU is shared in both modes.
        levels={"cpus": "0/1", "irq_cpus": "off"},
        accepted_causes=("receive_processing",),
        timing=MANY,
    ),
    Scenario(
        ("two_modes",),
        "a slower link in some trials",
        make_strengths(
            (2e9, 1e9, 5e8, 7e8),
            "{:g} bit/s",
            disturbance=lambda rate: in_random_trials(0.5, shaped_links(rate)),
        ),
        ("uplink",),
        require_mode_difference(0.25, DISTURBED_MARK),
        timing=MANY,
        accepted_causes=("link_full",),
    ),
    Scenario(
        ("drift",),
        "a link that gets slower from trial to trial",
        make_strengths(
            (0.985, 0.97, 0.95, 0.96),
            "{} times in each",
            disturbance=lambda share: per_trial(lambda number: shaped_links(2e9 * share**number)),
        ),
        ("bridge", "uplink", "router", "jumbo6"),
        require_spread(0.15),
        timing=MANY,
        accepted_causes=("link_full",),
    ),
    Scenario(
        ("drift",),
        "a link that gets slower within trials",
        make_strengths(
            (0.8, 0.6, 0.4, 0.5),
            "to {} of its rate",
            disturbance=lambda share: slowing_link(2e9, 2e9 * share, 1.2),
        ),
        ("bridge", "router", "jumbo6"),
        require_slowdown(0.3),
        accepted_causes=("link_full",),
    ),
    Scenario(
        ("warm_up",),
        "a path so long that trials end in slow start",
        make_strengths(("50 ms", "60 ms", "80 ms", "70 ms"), "{} away", lambda delay: {"link_delay": delay}),
        ("direct", "router", "uplink"),
        require_slowdown(0.3),
        control_levels={"link_delay": "none"},
        preparation=(LONG_BUFFERS,),
        accepted_causes=("congestion_window",),
    ),
    Scenario(
        ("machine_busy",),
        "processes that compute",
        make_strengths((4, 8, 16, 12), "{} processes", disturbance=busy_processes),
        ("bridge", "router", "jumbo6"),
        require_all(require_slowdown(0.1), require_disturbance_value(SPUN_CPU_S, 2)),
    ),
)
