"""Causes of the third set that lose packets or connections on the path."""

from __future__ import annotations

from bench.redteam.causes_third.common import drop_at_port, long_path, third
from bench.redteam.injections import in_turn, shell_a1, shell_b1
from bench.redteam.model import crr, mixed, rr, tcp

CAUSES = (
    third(
        "every-nth",
        "losses",
        "Every n-th packet to the receiver is lost.",
        "iptables: statistic",
        (1000, 60),
        ("path_loss",),
        (rr(4), crr(1)),
        shell_b1("iptables -A INPUT -i eth0 -m statistic --mode nth --every @v --packet 7 -j DROP"),
    ),
    third(
        "host-policer",
        "losses",
        "The receiver's firewall limits the bytes of each sender.",
        "iptables: hashlimit",
        ("120mb/s", "12mb/s"),
        ("policer", "path_loss"),
        (tcp(8), tcp(1)),
        shell_b1(
            "iptables -A INPUT -i eth0 -m hashlimit --hashlimit-above @v --hashlimit-burst 130mb "
            "--hashlimit-mode srcip --hashlimit-name third -j DROP"
        ),
    ),
    third(
        "syn-limit",
        "losses",
        "A protection against SYN floods limits new connections.",
        "iptables: limit",
        (1500, 100),
        ("connection_setup_loss", "no_connection"),
        (crr(8), crr(4)),
        shell_b1(
            """
            iptables -A INPUT -i eth0 -p tcp --syn -m limit --limit @v/second --limit-burst 20 -j ACCEPT
            iptables -A INPUT -i eth0 -p tcp --syn -j DROP
            """
        ),
    ),
    third(
        "one-bad-member",
        "losses",
        "One of several equal paths has a small MTU and loses large packets.",
        "nftables at the switch",
        (1, 30),
        ("path_loss", "mtu_black_hole"),
        (mixed(2), tcp(2)),
        drop_at_port("a1", "meta length > 1300 numgen random mod 100 < @v"),
        phase="load",
    ),
    third(
        "reno-on-lossy-line",
        "losses",
        "A long line that loses packets. (The agents choose cubic, so reno has no effect.)",
        "sysctl, a program that delays frames, nftables",
        ("500 1", "2000 10"),
        ("path_loss", "congestion_window"),
        (tcp(4), tcp(2)),
        in_turn(
            shell_a1("sysctl -qw net.ipv4.tcp_congestion_control=reno"),
            long_path("@1"),
            drop_at_port("a1", "meta length > 200 numgen random mod 1000 < @2"),
        ),
    ),
    third(
        "lost-requests-back",
        "losses",
        "Some of the packets back to the client are lost.",
        "nftables at the switch",
        (2, 30),
        ("path_loss",),
        (rr(1), mixed(1)),
        drop_at_port("b1", "meta l4proto tcp numgen random mod 1000 < @v"),
    ),
)
