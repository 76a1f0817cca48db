"""Runs without a fault: loads that the path carries, and unpaced loads that reach a natural limit."""

from __future__ import annotations

from bench.corpus.effect_checks import accept_any, require_speed_share
from bench.corpus.scenario import Scenario, make_strengths
from vnetbench.study.workloads import TCP_RR, UDP_STREAM

NATURAL_LIMITS = ("sender_cpu", "receiver_cpu")

RECIPES = (
    Scenario(
        ("nothing",),
        "datagrams at a rate",
        make_strengths(
            ("20 Mbit/s", "100 Mbit/s", "200 Mbit/s", "50 Mbit/s"), "{}", lambda rate: {"bit_rate": rate}
        ),
        ("bridge", "macvlan", "router", "jumbo6", "uplink"),
        require_speed_share(0.99),
        workload=UDP_STREAM,
        levels={"datagram_size": "1472 B"},
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        ("nothing",),
        "requests at a rate",
        make_strengths(("200 /s", "500 /s", "1 k/s", "700 /s"), "{}", lambda rate: {"rate": rate}),
        ("bridge", "router", "jumbo6", "connections"),
        require_speed_share(0.99),
        workload=TCP_RR,
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        NATURAL_LIMITS[:1],
        "as fast as it goes",
        make_strengths(
            ("1 MiB", "256 KiB", "128 KiB", "192 KiB"), "messages of {}", lambda size: {"message_size": size}
        ),
        ("bridge", "direct", "router", "jumbo6"),
        accept_any,
        accepted_causes=NATURAL_LIMITS,
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        NATURAL_LIMITS[:1],
        "as fast as it goes, MTU 9000",
        make_strengths(
            ("1 MiB", "256 KiB", "128 KiB", "192 KiB"), "messages of {}", lambda size: {"message_size": size}
        ),
        ("bridge", "router", "jumbo6"),
        accept_any,
        levels={"mtu": 9000, "cpus": "0/1"},
        accepted_causes=NATURAL_LIMITS,
        has_fault=False,
        repeat_count=2,
    ),
)
