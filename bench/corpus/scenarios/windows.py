"""Causes in TCP windows and buffers, in waiting times and in the size of messages."""

from __future__ import annotations

from bench.corpus.disturbance import Disturbance
from bench.corpus.disturbances.congestion_window import limited_congestion_window
from bench.corpus.disturbances.sysctls import endpoint_sysctls
from bench.corpus.effect_checks import accept_any, require_slowdown
from bench.corpus.scenario import Levels, Scenario, make_strengths
from vnetbench.study.workloads import TCP_RR

SHORT_DELAY = {"link_delay": "2 ms"}
"""A round trip of 4 ms, with which smaller windows than on a bridge become a limit."""
BUFFER_BYTES, DELAY_BUFFER_BYTES = (32768, 16384, 8192, 12288), (1048576, 262144, 65536, 131072)
"""Buffers that are a limit without and with the delay."""
SIZES = ("1 KiB", "256 B", "64 B", "128 B")


def _send_memory(size: int) -> Disturbance:
    return endpoint_sysctls("a", {"net/ipv4/tcp_wmem": f"4096 {size} {size}"})


def _receive_memory(size: int) -> Disturbance:
    return endpoint_sysctls("b", {"net/ipv4/tcp_rmem": f"4096 {size} {size}"})


def _messages(size: str) -> Levels:
    return {"message_size": size}


def _both(size: str) -> Levels:
    return {"request_size": size, "response_size": size}


RECIPES = (
    Scenario(
        ("send_buffer",),
        "tcp_wmem",
        make_strengths(BUFFER_BYTES, "tcp_wmem of {} bytes", disturbance=_send_memory),
        ("bridge", "router", "jumbo6"),
        require_slowdown(0.2),
    ),
    Scenario(
        ("send_buffer",),
        "tcp_wmem and a delay",
        make_strengths(DELAY_BUFFER_BYTES, "tcp_wmem of {} bytes", disturbance=_send_memory),
        ("direct", "router", "jumbo6", "uplink"),
        require_slowdown(0.2),
        levels=SHORT_DELAY,
    ),
    Scenario(
        ("receive_window",),
        "tcp_rmem",
        make_strengths(BUFFER_BYTES, "tcp_rmem of {} bytes", disturbance=_receive_memory),
        ("macvlan", "router", "jumbo6"),
        require_slowdown(0.2),
    ),
    Scenario(
        ("receive_window",),
        "tcp_rmem and a delay",
        make_strengths(DELAY_BUFFER_BYTES, "tcp_rmem of {} bytes", disturbance=_receive_memory),
        ("direct", "router", "jumbo6", "uplink"),
        require_slowdown(0.2),
        levels=SHORT_DELAY,
    ),
    Scenario(
        ("congestion_window",),
        "a window that does not grow, and a delay",
        make_strengths((100, 50, 20, 35), "{} segments", disturbance=limited_congestion_window),
        ("bridge", "router", "uplink"),
        require_slowdown(0.3),
        levels=SHORT_DELAY,
    ),
    Scenario(
        ("pacing",),
        "SO_MAX_PACING_RATE",
        make_strengths(
            ("5 Gbit/s", "1 Gbit/s", "200 Mbit/s", "500 Mbit/s"),
            "paced to {}",
            lambda rate: {"pacing_rate": rate},
        ),
        ("bridge", "direct", "macvlan", "router", "jumbo6"),
        require_slowdown(0.3),
        control_levels={"pacing_rate": "none"},
    ),
    Scenario(
        ("small_messages",),
        "small calls",
        make_strengths(SIZES, "messages of {}", _messages),
        ("bridge", "direct", "router", "jumbo6"),
        require_slowdown(0.3),
        control_levels={"message_size": "1 MiB"},
    ),
    Scenario(
        ("request_response",),
        "one at a time",
        make_strengths(("1 B", "256 B", "4 KiB", "1 KiB"), "requests and answers of {}", _both),
        ("bridge", "router", "jumbo6", "connections"),
        accept_any,
        workload=TCP_RR,
        has_fault=False,
        repeat_count=2,
    ),
    Scenario(
        ("request_response",),
        "one at a time, far away",
        make_strengths(("500 us", "2 ms", "10 ms", "5 ms"), "{} away", lambda delay: {"link_delay": delay}),
        ("bridge", "router", "jumbo6"),
        require_slowdown(0.3),
        workload=TCP_RR,
        control_levels={"link_delay": "none"},
        has_fault=False,
        repeat_count=2,
    ),
)
