"""Causes of the third set that limit a rate, or that share the path with other load."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.causes_third.common import CHANGES_MIDWAY, CPU_TAKEN, EARLY_S, background, long_path, third
from bench.redteam.injections import after, in_turn, shell_b1, shell_sw
from bench.redteam.model import Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import Target


def broadcast_storm(target: Target, value: Value, stack: ExitStack) -> None:
    """Send broadcasts through a further port of the bridge, as a station in a loop does.

    The sender is in the switch's own namespace, unlike the one of `neighbours.broadcasts`.
    """
    target.run("sw", "ip link add storm type veth peer name station")
    target.run("sw", "ip link set storm master sw0 up")
    target.run("sw", "ip address add 10.77.200.1/16 dev station")
    target.run("sw", "ip link set station up")
    target.program(stack, "sw", f"broadcast 10.77.255.255 9 {value}")


IFB = """
ip link add ifb0 type ifb
ip link set ifb0 up
tc qdisc add dev eth0 ingress
tc filter add dev eth0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0
tc qdisc add dev ifb0 root tbf rate @v burst 256k limit 1m
"""
DEFAULT_CLASS = """
tc qdisc add dev b1 root handle 1: htb default 20
tc class add dev b1 parent 1: classid 1:10 htb rate 10gbit
tc class add dev b1 parent 1: classid 1:20 htb rate @v ceil @v
tc filter add dev b1 parent 1: protocol ip u32 match ip dst 10.99.0.0/16 flowid 1:10
"""

CAUSES = (
    third(
        "ingress-shaper",
        "links",
        "The receiver shapes what it receives.",
        "tc: ifb and tbf",
        ("2gbit", "200mbit"),
        ("link_full",),
        (tcp(2), mixed(4)),
        shell_b1(IFB),
    ),
    third(
        "slow-return",
        "links",
        "The way back, for acknowledgements, is a slow line.",
        "tbf at the sender's port",
        ("6mbit", "600kbit"),
        ("ack_path_limited", "link_full"),
        (tcp(8), tcp(4)),
        shell_sw("tc qdisc add dev a1 root tbf rate @v burst 4k limit 60k"),
    ),
    third(
        "same-path-copy",
        "links",
        "Somebody copies data between the same two VMs.",
        "iperf3",
        (1, 8),
        ("other_load", *CPU_TAKEN),
        (rr(2), tcp(1)),
        in_turn(
            background("b1", "iperf3 -s -p 5999"),
            background("a1", "sh -c 'sleep 0.3; exec iperf3 -c @b1 -p 5999 -t 60 -P @v'"),
        ),
    ),
    third(
        "default-class",
        "links",
        "The load is in the slow default class of a shaper.",
        "tc: htb",
        ("30mbit", "3mbit"),
        ("link_full",),
        (rr(8), crr(8)),
        shell_sw(DEFAULT_CLASS),
    ),
    third(
        "deep-buffer",
        "links",
        "A slow link has a very long queue.",
        "tbf at the receiver's port",
        ("1500mbit", "150mbit"),
        ("link_full",),
        (mixed(1), mixed(2)),
        shell_sw("tc qdisc add dev b1 root tbf rate @v burst 128k limit 16m"),
    ),
    third(
        "shared-slow-link",
        "links",
        "Other flows use most of a slow link.",
        "tbf and iperf3",
        ("1gbit 4", "200mbit 8"),
        ("other_load", "link_full"),
        (tcp(2), rr(4)),
        in_turn(
            shell_sw("tc qdisc add dev b1 root tbf rate @1 burst 128k limit 1m"),
            background("b1", "iperf3 -s -p 5999"),
            background("a1", "sh -c 'sleep 0.3; exec iperf3 -c @b1 -p 5999 -t 60 -P @2'"),
        ),
    ),
    third(
        "late-shaper",
        "links",
        "Shortly after the load starts, somebody adds a shaper.",
        "tbf at the receiver's port",
        ("2gbit", "100mbit"),
        ("link_full", *CHANGES_MIDWAY),
        (tcp(4), tcp(8)),
        after(
            EARLY_S, shell_sw("tc qdisc add dev b1 root tbf rate @v burst 256k limit 1m"), first_bytes=True
        ),
    ),
    third(
        "broadcast-storm",
        "links",
        "A station floods the bridge with broadcasts.",
        "a program on a third port",
        (60_000, 1_000_000),
        ("foreign_packets", *CPU_TAKEN),
        (udp(2), rr(8)),
        broadcast_storm,
    ),
    third(
        "far-away",
        "links",
        "The other VM is far away.",
        "a program that delays frames by microseconds",
        (400, 4000),
        ("missing:path_delay", "request_response"),
        (rr(8), rr(1)),
        long_path("@v"),
    ),
)
