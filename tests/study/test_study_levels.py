"""Levels: the meaning of level expressions, and the round trip of every level."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetbench.errors import BenchError
from vnetbench.study.factors.cpu_lists import format_cpu_list, parse_cpu_list
from vnetbench.study.factors.guest_factors import ADAPTERS, GUEST_ROLES
from vnetbench.study.factors.level_expressions import MAX_LEVELS, parse_levels
from vnetbench.study.factors.registry import FACTORS, complete_levels, format_level, parse_level
from vnetbench.study.factors.team_factors import TEAM_POLICIES
from vnetbench.study.model import Level
from vnetbench.study.teams import BONDING_HASHES, MAX_TEAM_LINKS, MIN_TEAM_LINKS, VSWITCH_POLICIES


def levels(name: str, raw: object) -> tuple[Level, ...]:
    parsed = parse_levels(FACTORS[name].value_type, raw)
    assert not parsed.errors_with_positions
    return tuple(level for _, level in parsed.levels_with_positions)


def problem(name: str, raw: object) -> BenchError:
    parsed = parse_levels(FACTORS[name].value_type, raw)
    ((_, error),) = parsed.errors_with_positions
    return error


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("streams", 4, (4,)),
        ("streams", "4", (4,)),
        ("streams", [1, "4"], (1, 4)),
        ("streams", "1, 4", (1, 4)),
        ("streams", "1..4", (1, 2, 3, 4)),
        ("streams", " 1 .. 4 , 8", (1, 2, 3, 4, 8)),
        ("streams", "1, 2, 4 .. 64", (1, 2, 4, 8, 16, 32, 64)),
        ("streams", "1, 3, 5 .. 9", (1, 3, 5, 7, 9)),
        ("streams", "1..3, 10..12", (1, 2, 3, 10, 11, 12)),
        ("streams", ["1..3", 8], (1, 2, 3, 8)),
        ("mtu", ["1500 B", 9000], (1500, 9000)),
        ("message_size", "64 B, 256 B, 1 KiB .. 64 KiB", (64, 256, 1024, 4096, 16384, 65536)),
        ("socket_buffer", "8 KiB, auto", (8192, "auto")),
        ("link_rate", "100 Mbit/s, 1 Gbit/s, 10 Gbit/s .. 10 Gbit/s, none", None),
        ("link_rate", "none, 10 Gbps", ("none", 10**10)),
        ("tso", [True, "off"], ("on", "off")),
        ("cpus", "any, 1 each", ("any", "1 each")),
        ("cpus", ["0,2", "0-1/2-3"], ("0,2", "0-1/2-3")),
        ("cpus", "3,1,0,2/4", ("0-3/4",)),
        ("irq_cpus", ["off", 2, "0, 1"], ("off", "2", "0-1")),
        ("congestion_control", "cubic, bbr", ("cubic", "bbr")),
        ("ip_version", [4, "6"], ("4", "6")),
        ("ip_version", "4, 6", ("4", "6")),
        ("direction", "both, 3/1, 01 / 3", ("both", "3/1", "1/3")),
        ("direction", "1/1", ("both",)),
        ("threads", [1, "2", "auto"], (1, 2, "auto")),
        ("threads", "auto, 1, 2, 4 .. 16", ("auto", 1, 2, 4, 8, 16)),
        ("thread_cpus", ["spread", 1, "2,0/1"], ("spread", "1", "0,2/1")),
        ("rate", "none, 500 /s, 10 k/s, 20000 /s", ("none", 500, 10_000, 20_000)),
    ],
)
def test_a_level_expression_gives_these_levels(
    name: str, raw: object, expected: tuple[Level, ...] | None
) -> None:
    if expected is None:
        assert "goes down" in problem(name, raw).what
    else:
        assert levels(name, raw) == expected


@pytest.mark.parametrize(
    ("name", "raw", "what", "fix"),
    [
        ("streams", "1, 2 .. 8", "is ambiguous", "write three terms"),
        ("streams", "1, 2, 4 .. 65", "does not reach its end", 'end the range at "64"'),
        ("streams", "8, 12, 18 .. 100", "does not reach its end", 'end the range at "27"'),
        ("streams", "4, 6, 9 .. 100", "does not reach its end", "write every level instead"),
        ("streams", "1, 5, 6 .. 9", "are not a progression", "equal differences"),
        ("streams", "16..1", "goes down", "smaller number first"),
        ("streams", "1..", "is not a range", "both ends"),
        ("streams", "1,,2", "a comma without a level", "remove the comma, or write a level next to it"),
        ("streams", "", "no level is given", "write a whole number"),
        ("streams", "1..99999999999", "out of range", "from 1 to 1024"),
        ("streams", "0x10", "is not a whole number", "write a whole number"),
        ("ip_version", 5, "5 is not a valid value", "write 4 or 6"),
        ("ip_version", True, "is not a valid value", "write 4 or 6"),
        ("direction", "3/0", "is not a mix of directions", "from 1 to 64"),
        ("direction", "3/1/2", "is not a mix of directions", '"3/1"'),
        ("direction", "forwards", "is not a valid value", 'did you mean "forward"?'),
        ("direction", "up", "is not a valid value", 'or a mix such as "3/1"'),
        ("threads", 0, "0 is out of range", 'from 1 to 1024 or "auto"'),
        ("thread_cpus", "1 each", "is not a list of CPUs", '"spread"'),
        ("mtu", "576..65535", "more than 1000 levels", "name fewer"),
        ("message_size", "1 KiB .. 64 KiB", "needs its first three terms", "write three terms"),
        ("message_size", "64 KB", "", ""),
        ("message_size", "64 Kb", "is not a unit", "did you mean"),
        ("socket_buffer", "8 KiB .. auto", "needs a number at both ends", "write every level"),
        ("socket_buffer", "atuo", "is not a size", 'did you mean "auto"?'),
        ("direction", "backward", "is not a valid value", "write one of"),
        ("tso", "yes", "is not a valid value", 'did you mean "on"?'),
        ("cpus", "each", "is not a valid CPU set", ""),
        ("cpus", "0-99999", "CPU 99999 does not exist", ""),
        ("cpus", "own, 0", "mixes keywords and CPU lists", "write a TOML list"),
        ("link_rate", "10 Gbit", "is not a unit", 'did you mean "Gbit/s"?'),
    ],
)
def test_an_invalid_level_is_reported_with_a_fix(name: str, raw: object, what: str, fix: str) -> None:
    if not what:
        assert levels(name, raw)
        return
    error = problem(name, raw)
    assert what in error.what
    assert fix in str(error.fix)


def test_a_list_of_long_ranges_stops_at_the_limit() -> None:
    parsed = parse_levels(FACTORS["streams"].value_type, ["1..1000"] * 1000)
    assert len(parsed.levels_with_positions) == MAX_LEVELS
    assert [str(error.what) for _, error in parsed.errors_with_positions] == [
        f"more than {MAX_LEVELS} levels"
    ]


CPU_LISTS = st.sets(st.integers(0, 4095), min_size=1, max_size=20).map(
    lambda cpus: format_cpu_list(tuple(cpus))
)
ENDPOINT_CPU_LISTS = st.tuples(CPU_LISTS, CPU_LISTS).map("/".join)

LEVEL_STRATEGIES: dict[str, st.SearchStrategy[Level]] = {
    "streams": st.integers(1, 1024),
    "direction": st.sampled_from(["forward", "reverse", "both", "3/1", "1/64"]),
    "transport": st.sampled_from(["tcp", "mptcp"]),
    "source_ports": st.one_of(
        st.sampled_from(["any", "consecutive", "spread"]),
        st.tuples(st.integers(1024, 2000), st.integers(2000, 65535)).map(lambda ends: f"{ends[0]}-{ends[1]}"),
    ),
    "pacing_rate": st.one_of(st.just("none"), st.integers(10**5, 10**12)),
    "threads": st.one_of(st.just("auto"), st.integers(1, 1024)),
    "thread_cpus": st.one_of(
        st.sampled_from(["any", "spread"]),
        CPU_LISTS,
        ENDPOINT_CPU_LISTS,
    ),
    "ip_version": st.sampled_from(["4", "6"]),
    "mtu": st.integers(576, 65535),
    "message_size": st.integers(1, 64 * 2**20),
    "socket_buffer": st.one_of(st.just("auto"), st.integers(1024, 2**30)),
    "congestion_control": st.text("abz09_-", max_size=14).map("x".__add__),
    "pairs": st.integers(1, 64),
    "queues": st.integers(1, 64),
    "cpus": st.one_of(
        st.just("any"),
        st.integers(1, 256).map("{} each".format),
        CPU_LISTS,
        ENDPOINT_CPU_LISTS,
    ),
    "irq_cpus": st.one_of(st.sampled_from(["off", "own", "apart", "spread"]), CPU_LISTS),
    "cpu_quota": st.one_of(st.just("none"), st.floats(0.01, 1024)),
    "device_cpus": st.one_of(st.sampled_from(["auto", "apart", "any"]), CPU_LISTS),
    "link_rate": st.one_of(st.just("none"), st.integers(1000, 34 * 10**9)),
    "link_queue": st.one_of(
        st.sampled_from(["auto", "codel", "fq_codel"]),
        st.integers(10, 60_000_000).map(lambda us: us / 1e6),
    ),
    **dict.fromkeys(
        ("link_delay", "link_jitter"),
        st.one_of(st.just("none"), st.integers(10, 1_000_000).map(lambda us: us / 1e6)),
    ),
    **dict.fromkeys(("link_loss", "link_reordering"), st.integers(0, 500_000).map(lambda parts: parts / 1e6)),
    "connections": st.integers(1, 1024),
    "request_size": st.integers(1, 64 * 2**20),
    "response_size": st.integers(1, 64 * 2**20),
    "rate": st.one_of(st.just("none"), st.integers(1, 10**7), st.floats(0.1, 10**6)),
    "bit_rate": st.one_of(st.just("none"), st.integers(1000, 10**12)),
    "event": st.sampled_from(["none", "link-flap", "silent-drop", "bridge-port-stp"]),
    "event_duration": st.integers(20_000, 120_000_000).map(lambda us: us / 1e6),
    "pacing": st.sampled_from(["spin", "sleep"]),
    "datagram_size": st.integers(18, 65507),
    "frame_size": st.one_of(st.just("imix"), st.integers(64, 9216)),
    "frame_load": st.one_of(
        st.just("max"), st.integers(1, 10**9), st.integers(1, 200).map(lambda share: f"{share} %")
    ),
    "flows": st.integers(1, 10**6),
    "generators": st.integers(1, 64),
    "vlan_tags": st.integers(0, 2),
    "waiting": st.sampled_from(["block", "spin", "busy_poll"]),
    "send_mode": st.sampled_from(["copy", "auto", "sendfile", "splice", "zerocopy", "io_uring"]),
    "send_batch": st.integers(1, 256),
    "receive_mode": st.sampled_from(["discard", "copy"]),
    "team_policy": st.sampled_from(TEAM_POLICIES),
    "team_far_end": st.sampled_from(["auto", "same", "switch", *VSWITCH_POLICIES]),
    "team_links": st.integers(MIN_TEAM_LINKS, MAX_TEAM_LINKS),
    "team_lacp_active": st.sampled_from(["both", "near", "far", "neither"]),
    "team_lacp": st.sampled_from(["off", "slow", "fast"]),
    "team_hash_policy": st.sampled_from(BONDING_HASHES),
    "vswitch": st.sampled_from(["bridge", "direct", "macvlan"]),
    "adapter": st.sampled_from(ADAPTERS),
    "role": st.sampled_from(GUEST_ROLES),
    "guests": st.integers(1, 64),
    "vcpus": st.integers(1, 64),
    "vcpu_pin": st.one_of(st.sampled_from(["any", "spread"]), CPU_LISTS),
    "emulator_pin": st.one_of(st.sampled_from(["any", "own", "apart"]), CPU_LISTS),
    "irq_pin": st.one_of(st.just("spread"), CPU_LISTS),
    "rx_ring": st.integers(1, 65536),
    "tx_ring": st.integers(1, 65536),
    "latency_sensitivity": st.sampled_from(["normal", "high"]),
    "coalescing_scheme": st.sampled_from(["disabled", "adapt", "static", "rbc"]),
    "ctx_per_dev": st.integers(1, 3),
    "pnic_features": st.integers(0, 255),
    "coalesce": st.one_of(st.just("adaptive"), st.integers(0, 10**5).map(lambda us: us / 1e6)),
}
"""Levels of each factor; a factor that is not here has the levels `on` and `off`."""


def level_strategy(name: str) -> st.SearchStrategy[Level]:
    """Return a strategy for the levels of a factor."""
    return LEVEL_STRATEGIES.get(name, st.sampled_from(["on", "off"]))


@given(st.sampled_from(sorted(FACTORS)).flatmap(lambda n: st.tuples(st.just(n), level_strategy(n))))
def test_every_formatted_level_parses_to_itself(case: tuple[str, Level]) -> None:
    name, level = case
    assert parse_level(name, format_level(name, level)) == level


@given(
    st.sampled_from([n for n, f in FACTORS.items() if not f.value_type.has_commas]).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(level_strategy(n), min_size=1, max_size=9))
    )
)
def test_a_formatted_list_parses_to_the_same_levels(case: tuple[str, list[Level]]) -> None:
    name, given_levels = case
    text = ", ".join(FACTORS[name].value_type.format(level) for level in given_levels)
    assert levels(name, text) == tuple(given_levels)


@given(st.sets(st.integers(0, 4095), min_size=1, max_size=50))
def test_a_formatted_cpu_list_parses_to_itself(chosen: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(tuple(chosen))) == tuple(sorted(chosen))


def test_defaults_complete_a_treatment_without_changing_its_levels() -> None:
    assert complete_levels({"mtu": 9000, "tso": "off"}) == {
        "streams": 1,
        "direction": "forward",
        "mtu": 9000,
        "ip_version": "4",
        "message_size": 2**20,
        "send_mode": "copy",
        "send_batch": 1,
        "receive_mode": "discard",
        "socket_buffer": "auto",
        "transport": "tcp",
        "source_ports": "any",
        "pacing_rate": "none",
        "threads": "auto",
        "thread_cpus": "any",
        "congestion_control": "cubic",
        "pairs": 1,
        "vswitch": "bridge",
        "tso": "off",
    }


@pytest.mark.parametrize("name", [name for name, each in FACTORS.items() if each.default is not None])
def test_every_default_is_a_level_of_its_factor(name: str) -> None:
    default = FACTORS[name].default
    assert default is not None
    assert parse_level(name, format_level(name, default)) == default


def test_an_unknown_factor_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(BenchError) as caught:
        format_level("mut", 1500)
    assert str(caught.value.fix).startswith('did you mean "mtu"?')
