"""Causes in a team of four links of 40 Mbit/s between two virtual switches of Open vSwitch."""

from __future__ import annotations

from bench.corpus.disturbance import Disturbance
from bench.corpus.disturbances import team_faults
from bench.corpus.effect_checks import EffectCheck, accept_any, require_disturbance_value, require_slowdown
from bench.corpus.scenario import CauseStrength, Levels, RunTiming, Scenario, make_strengths

TIMING = RunTiming(trial_count=2)
BALANCE_TCP: Levels = {"team_policy": "balance-tcp"}
BALANCE_SLB: Levels = {"team_policy": "balance-slb"}
ACTIVE_BACKUP: Levels = {"team_policy": "active-backup"}
STREAMS = (16, 8, 4, 12)


def _streams(counts: tuple[int, ...] = STREAMS) -> tuple[CauseStrength, ...]:
    return make_strengths(counts, "{} streams", lambda count: {"streams": count})


def _fault(
    cause: str,
    method: str,
    fault: Disturbance,
    effect_check: EffectCheck,
    levels: Levels,
    streams: tuple[int, ...] = STREAMS,
) -> Scenario:
    """Return a scenario with a disturbance, in several numbers of streams."""
    strengths = make_strengths(
        streams, "{} streams", lambda count: {"streams": count}, disturbance=lambda _: fault
    )
    return Scenario(
        (cause,), method, strengths, ("bond",), effect_check, levels=levels,
        timing=TIMING,
    )  # fmt: skip


FAULTS = (
    Scenario(
        ("one_uplink",),
        "a team that looks at MAC addresses",
        _streams(),
        ("bond",),
        require_slowdown(0.25),
        levels=BALANCE_SLB,
        control_levels=BALANCE_TCP,
        timing=TIMING,
    ),
    Scenario(
        ("one_uplink",),
        "a team with one active link",
        make_strengths((4, 3, 2, 5), "{} pairs of VMs", lambda count: {"pairs": count}),
        ("bond",),
        require_slowdown(0.25),
        levels=ACTIVE_BACKUP,
        control_levels=BALANCE_SLB,
        timing=TIMING,
    ),
    Scenario(
        ("unequal_members",),
        "the slow link is the active one",
        _streams((1, 4, 8, 2)),
        ("mixed bond",),
        accept_any,
        levels=ACTIVE_BACKUP,
        timing=TIMING,
    ),
    Scenario(
        ("unequal_members",),
        "a VM on the slow link",
        make_strengths((4, 5, 6, 8), "{} pairs of VMs", lambda count: {"pairs": count}),
        ("mixed bond",),
        accept_any,
        levels=BALANCE_SLB,
        timing=TIMING,
    ),
    Scenario(
        ("lacp_not_negotiated",),
        "both ends are passive",
        _streams(),
        ("bond",),
        require_slowdown(0.2),
        levels={**BALANCE_TCP, "team_lacp_active": "neither"},
        control_levels={"team_lacp_active": "both"},
        timing=TIMING,
    ),
    _fault(
        "lacp_not_negotiated",
        "the far end has no LACP",
        team_faults.far_end_without_lacp(),
        require_slowdown(0.2),
        BALANCE_TCP,
    ),
    _fault(
        "lacp_not_negotiated",
        "the far end has two channels",
        team_faults.two_aggregators(),
        accept_any,
        BALANCE_TCP,
    ),
    _fault(
        "silent_member",
        "the first link drops everything",
        team_faults.silent_link(0),
        require_disturbance_value(team_faults.DROPPED_PACKETS, 5),
        BALANCE_TCP,
        streams=(24, 16, 12, 20),
    ),
    _fault(
        "hash_without_channel",
        "a hash of ports, and a far switch that learns",
        team_faults.hash_without_channel(),
        require_disturbance_value(team_faults.MAC_MOVES, 5),
        {**BALANCE_TCP, "source_ports": "consecutive"},
    ),
    _fault(
        "channel_without_hash",
        "a VM on one link, and a far switch that hashes",
        team_faults.channel_without_hash(),
        require_disturbance_value(team_faults.MAC_MOVES, 5),
        {**BALANCE_SLB, "source_ports": "consecutive"},
    ),
    Scenario(
        ("even_source_ports",),
        "ports that the kernel chooses",
        _streams(),
        ("bond",),
        require_slowdown(0.2),
        levels={**BALANCE_TCP, "source_ports": "any"},
        control_levels={"source_ports": "consecutive"},
        preparation=(team_faults.hashing_channel(),),
        timing=TIMING,
    ),
)
NO_FAULTS = (
    Scenario(
        ("one_flow_one_link",),
        "one stream over a team",
        make_strengths((2, 4, 3, 5), "{} links", lambda count: {"team_links": count}),
        ("bond",),
        accept_any,
        levels={**BALANCE_TCP, "streams": 1},
        has_fault=False,
        timing=TIMING,
    ),
    Scenario(
        ("team_full",),
        "several VMs over a team",
        make_strengths((4, 8, 12, 6), "{} pairs of VMs", lambda count: {"pairs": count}),
        ("bond",),
        accept_any,
        levels=BALANCE_SLB,
        accepted_causes=("idle_team_links",),
        has_fault=False,
        timing=TIMING,
    ),
    Scenario(
        ("team_full",),
        "several streams over a team",
        _streams(),
        ("bond",),
        accept_any,
        levels=BALANCE_TCP,
        accepted_causes=("idle_team_links",),
        has_fault=False,
        timing=TIMING,
    ),
    Scenario(
        ("team_full",),
        "consecutive ports over a channel that hashes them",
        _streams(),
        ("bond",),
        accept_any,
        levels={**BALANCE_TCP, "source_ports": "consecutive"},
        preparation=(team_faults.hashing_channel(),),
        has_fault=False,
        timing=TIMING,
    ),
)
RECIPES = (*FAULTS, *NO_FAULTS)
