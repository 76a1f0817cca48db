"""Runs with nothing wrong: loads that are carried, and loads without a rate that end at a natural limit."""

from __future__ import annotations

from bench.corpus.proof import anything, carries
from bench.corpus.recipe import Recipe, doses
from vnetbench.study.workloads import UDP_STREAM, TCP_RR

NATURAL = ("sender_cpu", "receiver_cpu")

RECIPES = (
    Recipe(
        ("nothing",),
        "datagrams at a rate",
        doses(("20 Mbit/s", "100 Mbit/s", "200 Mbit/s", "50 Mbit/s"), "{}", lambda rate: {"bit_rate": rate}),
        ("bridge", "macvlan", "router", "jumbo6", "uplink"),
        carries(0.99),
        workload=UDP_STREAM,
        levels={"datagram_size": "1472 B"},
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        ("nothing",),
        "requests at a rate",
        doses(("200 /s", "500 /s", "1 k/s", "700 /s"), "{}", lambda rate: {"rate": rate}),
        ("bridge", "router", "jumbo6", "connections"),
        carries(0.99),
        workload=TCP_RR,
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        NATURAL[:1],
        "as fast as it goes",
        doses(
            ("1 MiB", "256 KiB", "128 KiB", "192 KiB"), "messages of {}", lambda size: {"message_size": size}
        ),
        ("bridge", "direct", "router", "jumbo6"),
        anything,
        accepted=NATURAL,
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        NATURAL[:1],
        "as fast as it goes, MTU 9000",
        doses(
            ("1 MiB", "256 KiB", "128 KiB", "192 KiB"), "messages of {}", lambda size: {"message_size": size}
        ),
        ("bridge", "router", "jumbo6"),
        anything,
        levels={"mtu": 9000, "cpus": "0/1"},
        accepted=NATURAL,
        is_wrong=False,
        repeats=2,
    ),
)
