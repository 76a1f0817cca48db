"""Causes that are windows, waiting, and how the load is handed over."""

from __future__ import annotations

from bench.corpus.disturb.routes import congestion_window
from bench.corpus.disturb.settings import settings
from bench.corpus.proof import anything, falls
from bench.corpus.recipe import Levels, Recipe, doses
from bench.corpus.scene import Disturb
from vnetbench.study.workloads import TCP_RR

NEAR = {"link_delay": "2 ms"}
"""A round trip of 4 ms, which a window limits that is no limit on a bridge."""
SMALL, LESS = (32768, 16384, 8192, 12288), (1048576, 262144, 65536, 131072)
"""Buffers that are a limit without delay, and with it."""
SIZES = ("1 KiB", "256 B", "64 B", "128 B")


def _send_memory(size: int) -> Disturb:
    return settings("a", {"net/ipv4/tcp_wmem": f"4096 {size} {size}"})


def _receive_memory(size: int) -> Disturb:
    return settings("b", {"net/ipv4/tcp_rmem": f"4096 {size} {size}"})


def _messages(size: str) -> Levels:
    return {"message_size": size}


def _both(size: str) -> Levels:
    return {"request_size": size, "response_size": size}


RECIPES = (
    Recipe(
        ("send_buffer",),
        "tcp_wmem",
        doses(SMALL, "tcp_wmem of {} bytes", disturb=_send_memory),
        ("bridge", "router", "jumbo6"),
        falls(0.2),
    ),
    Recipe(
        ("send_buffer",),
        "tcp_wmem and a delay",
        doses(LESS, "tcp_wmem of {} bytes", disturb=_send_memory),
        ("direct", "router", "jumbo6", "uplink"),
        falls(0.2),
        levels=NEAR,
    ),
    Recipe(
        ("receive_window",),
        "tcp_rmem",
        doses(SMALL, "tcp_rmem of {} bytes", disturb=_receive_memory),
        ("macvlan", "router", "jumbo6"),
        falls(0.2),
    ),
    Recipe(
        ("receive_window",),
        "tcp_rmem and a delay",
        doses(LESS, "tcp_rmem of {} bytes", disturb=_receive_memory),
        ("direct", "router", "jumbo6", "uplink"),
        falls(0.2),
        levels=NEAR,
    ),
    Recipe(
        ("congestion_window",),
        "a window that does not grow, and a delay",
        doses((100, 50, 20, 35), "{} segments", disturb=congestion_window),
        ("bridge", "router", "uplink"),
        falls(0.3),
        levels=NEAR,
    ),
    Recipe(
        ("pacing",),
        "SO_MAX_PACING_RATE",
        doses(
            ("5 Gbit/s", "1 Gbit/s", "200 Mbit/s", "500 Mbit/s"),
            "paced to {}",
            lambda rate: {"pacing_rate": rate},
        ),
        ("bridge", "direct", "macvlan", "router", "jumbo6"),
        falls(0.3),
        control={"pacing_rate": "none"},
    ),
    Recipe(
        ("small_messages",),
        "small calls",
        doses(SIZES, "messages of {}", _messages),
        ("bridge", "direct", "router", "jumbo6"),
        falls(0.3),
        control={"message_size": "1 MiB"},
    ),
    Recipe(
        ("request_response",),
        "one at a time",
        doses(("1 B", "256 B", "4 KiB", "1 KiB"), "requests and answers of {}", _both),
        ("bridge", "router", "jumbo6", "connections"),
        anything,
        workload=TCP_RR,
        is_wrong=False,
        repeats=2,
    ),
    Recipe(
        ("request_response",),
        "one at a time, far away",
        doses(("500 us", "2 ms", "10 ms", "5 ms"), "{} away", lambda delay: {"link_delay": delay}),
        ("bridge", "router", "jumbo6"),
        falls(0.3),
        workload=TCP_RR,
        control={"link_delay": "none"},
        is_wrong=False,
        repeats=2,
    ),
)
