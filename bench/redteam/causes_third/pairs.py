"""Causes of the third set with two faults at once. A name for either of them is right."""

from __future__ import annotations

from bench.redteam.causes_third.common import CPU_TAKEN, drop_at_port, third
from bench.redteam.causes_third.cpu import quota_with_period
from bench.redteam.causes_third.packet_work import BRIDGE_RULES
from bench.redteam.injections import in_turn, shell_a1, shell_b1, shell_sw, spin_on_each_cpu
from bench.redteam.model import crr, mixed, rr, tcp, udp

SMALL_WINDOW = shell_b1("ip route change 10.77.0.0/16 dev eth0 window @1")

CAUSES = (
    third(
        "window-and-hogs",
        "pairs",
        "A small window, and other programs on each CPU.",
        "ip route, busy programs",
        ("12000 0.4", "4000 0.8"),
        ("receive_window", *CPU_TAKEN),
        (tcp(4), tcp(2)),
        in_turn(SMALL_WINDOW, spin_on_each_cpu("@2")),
    ),
    third(
        "shaper-and-rules",
        "pairs",
        "A shaper, and many rules at the bridge.",
        "tbf, nftables",
        ("2000", "6000"),
        ("link_full", "packet_filtering", "switch_cpu"),
        (mixed(4), crr(8)),
        in_turn(shell_sw("tc qdisc add dev b1 root tbf rate 20mbit burst 32k limit 300k"), BRIDGE_RULES),
    ),
    third(
        "quota-and-loss",
        "pairs",
        "A CPU quota, and a path that loses packets.",
        "cpu.cfs_quota_us, nftables",
        ("60000 100000 2", "25000 100000 10"),
        ("path_loss", "cpu_quota"),
        (rr(8), tcp(4)),
        in_turn(
            lambda target, value, stack: quota_with_period("b1")(
                target, " ".join(str(value).split()[:2]), stack
            ),
            lambda target, value, stack: drop_at_port("a1", "meta l4proto tcp numgen random mod 1000 < @v")(
                target, str(value).split()[2], stack
            ),
        ),
    ),
    third(
        "loss-and-no-sack",
        "pairs",
        "A path that loses packets, and a sender without selective acknowledgements.",
        "sysctl, nftables",
        (1, 15),
        ("path_loss",),
        (mixed(2), tcp(8)),
        in_turn(
            shell_a1("sysctl -qw net.ipv4.tcp_sack=0 net.ipv4.tcp_recovery=0"),
            drop_at_port("a1", "meta l4proto tcp numgen random mod 1000 < @v"),
        ),
    ),
    third(
        "hogs-and-datagram-loss",
        "pairs",
        "A path that loses datagrams, and other programs on each CPU.",
        "nftables, busy programs",
        ("1 0.6", "8 0.9"),
        ("path_loss", *CPU_TAKEN),
        (udp(4), udp(8)),
        in_turn(
            drop_at_port("a1", "meta l4proto udp numgen random mod 100 < @1"),
            spin_on_each_cpu("@2"),
            spin_on_each_cpu("@2"),
        ),
    ),
)
