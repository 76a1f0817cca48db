"""Causes that lose, repeat or reorder packets."""

from __future__ import annotations

from bench.redteam import confinement
from bench.redteam.causes_second.common import second, two_faults
from bench.redteam.causes_second.paths import delay_line
from bench.redteam.injections import in_turn, nft, rule_at_port, shell_a1, shell_b1
from bench.redteam.model import crr, mixed, rr, tcp, udp

RANDOM_LOSS = """
    iptables -t raw -A PREROUTING -i eth0 -m statistic --mode random --probability @v -j DROP
"""
NEW_CONNECTIONS = """
add table inet t
add chain inet t c { type filter hook input priority 0; }
add rule inet t c iifname eth0 tcp flags & (syn | ack) == syn """

CAUSES = (
    second(
        "random-loss", "loss", "The receiver loses packets at random",
        "iptables statistic, probability", (0.001, 0.01, 0.08), ("path_loss",), (tcp(1), rr(8), udp(2)),
        shell_b1(RANDOM_LOSS),
    ),
    second(
        "loss-bursts", "loss", "A port loses packets that follow each other",
        "nft numgen at the sender's port, these of 3000 packets",
        ("2996-2999", "2985-2999", "2960-2999"), ("path_loss",), (tcp(4), udp(2), mixed(2)),
        rule_at_port("a1", "ingress", "numgen inc mod 3000 @v drop"),
    ),
    second(
        "acknowledgement-loss", "loss", "The sender loses acknowledgements",
        "iptables statistic, probability", (0.2, 0.5, 0.75), ("path_loss", "ack_path_limited"),
        (tcp(1), tcp(4)),
        shell_a1("""
            iptables -A INPUT -i eth0 -p tcp ! --syn -m length --length 0:120 \
                -m tcp ! --tcp-flags SYN SYN \
                -m statistic --mode random --probability @v -j DROP
        """),
    ),
    second(
        "setup-loss", "loss", "The receiver loses the first packets of connections",
        "nft numgen, this many of 1000", (15, 120, 600), ("connection_setup_loss", "path_loss"),
        (crr(4), crr(1)),
        nft("b1", NEW_CONNECTIONS + "numgen random mod 1000 < @v drop\n"),
    ),
    second(
        "setup-limit", "loss", "A firewall limits new connections per second",
        "nft limit, connections/s", (1500, 200, 20), ("connection_setup_loss", "policer", "no_connection"),
        (crr(4), crr(1)),
        nft("b1", NEW_CONNECTIONS + "limit rate over @v/second burst 20 packets drop\n"),
    ),
    second(
        "few-ports", "failure", "The client has few ports for new connections",
        "sysctl ip_local_port_range", (5, 2, 0),
        ("system_refused", "no_connection", "connection_setup_loss", "missing:port_exhaustion"),
        (crr(8), crr(4)),
        shell_a1('sysctl -qw net.ipv4.ip_local_port_range="40000 $((40000 + @v))"'),
    ),
    second(
        "without-sack", "loss", "Packets are lost, and the VMs cannot acknowledge selectively",
        "nft numgen at the sender's port, of 1000 packets; sysctl tcp_sack=0", (2, 10, 50), ("path_loss",),
        (tcp(1), tcp(4)),
        in_turn(
            shell_a1("sysctl -qw net.ipv4.tcp_sack=0"),
            shell_b1("sysctl -qw net.ipv4.tcp_sack=0"),
            rule_at_port("a1", "ingress", "numgen random mod 1000 < @v drop"),
        ),
    ),
    second(
        "repeated-frames", "loss", "A port forwards frames twice",
        "nft dup at the sender's port, this many of 1000 frames", (20, 200, 999), ("duplicates",),
        (udp(2), tcp(4), rr(8)),
        rule_at_port("a1", "ingress", 'numgen random mod 1000 < @v dup to "b1"'),
    ),
    second(
        "unequal-paths", "loss", "Some packets take a path that is 3 ms longer, so others pass them",
        "a relay delays this share of the frames", (0.003, 0.05, 0.3), ("reordering",),
        (tcp(1), udp(2), tcp(4)),
        delay_line("3000", "@v"),
    ),
    second(
        "loss-and-quota", "two faults", "The receiver loses packets and has a CPU quota",
        "iptables statistic; cpu.cfs_quota_us in percent", ("0.002 60", "0.01 30", "0.05 15"),
        ("path_loss", "cpu_quota"), (tcp(1), rr(8), udp(2)),
        two_faults(shell_b1(RANDOM_LOSS), confinement.quota(("b1",), 100_000)),
    ),
)  # fmt: skip
