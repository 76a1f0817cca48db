"""Causes that limit what is in flight, and delays."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam import confinement
from bench.redteam.causes_second.common import TCP_LOADS, second
from bench.redteam.causes_second.paths import delay_line
from bench.redteam.compiled_programs import built
from bench.redteam.injections import in_turn, shell_a1, shell_b1
from bench.redteam.model import Value, crr, rr, tcp
from bench.redteam.target import Target


def _host_pacing(target: Target, value: Value, stack: ExitStack) -> None:
    group = confinement.join(target, stack, "unified", ("a1", "b1"), {})
    rate = round(float(value) * 1e6 / 8)
    program = built("attach_pacing")
    target.spawn(stack, "host", f"{program} {built('socket_pacing.bpf')} {group} {rate}")


CAUSES = (
    second(
        "rmem-limit", "window", "The receiver's kernel allows only small receive buffers",
        "sysctl tcp_rmem, maximum in bytes", (65536, 16384, 4096), ("receive_window",), TCP_LOADS,
        shell_b1('sysctl -qw net.ipv4.tcp_rmem="4096 @v @v"'),
    ),
    second(
        "wmem-limit", "window", "The sender's kernel allows only small send buffers",
        "sysctl tcp_wmem, maximum in bytes", (65536, 16384, 4608), ("send_buffer",), TCP_LOADS,
        shell_a1('sysctl -qw net.ipv4.tcp_wmem="4096 @v @v"'),
    ),
    second(
        "route-clamp", "window", "A route clamps the window that the receiver offers",
        "ip route window, bytes", (60000, 12000, 3000), ("receive_window",), TCP_LOADS,
        shell_b1("ip route replace 10.77.0.0/16 dev eth0 window @v"),
    ),
    second(
        "unscaled-window", "two faults", "A long path without window scaling",
        "sysctl tcp_window_scaling=0; a relay with this delay in microseconds", (1000, 5000, 30000),
        ("receive_window",), (tcp(1), tcp(4)),
        in_turn(shell_b1("sysctl -qw net.ipv4.tcp_window_scaling=0"), delay_line("@v", "1")),
    ),
    second(
        "long-path", "delay", "The path is long",
        "a relay with this delay in microseconds", (500, 4000, 25000), ("request_response", "missing:delay"),
        (rr(1), rr(8), crr(4)), delay_line("@v", "1"),
    ),
    second(
        "host-pacing", "window", "The host limits the pacing rate of every connection",
        "a BPF program sets SO_MAX_PACING_RATE, Mbit/s", (4000, 800, 60), ("pacing",), TCP_LOADS,
        _host_pacing,
    ),
    second(
        "tcp-memory", "window", "The receiver's container may use little memory for TCP",
        "memory.kmem.tcp.limit_in_bytes", (4_194_304, 524_288, 65_536),
        ("receive_window", "overflow", "path_loss", "missing:tcp_memory"), (tcp(1), tcp(4), rr(8)),
        confinement.memory_limit(confinement.TCP_MEMORY_FILE, ("b1",)),
    ),
)  # fmt: skip
