"""Causes of the third set in windows, buffers and segment sizes."""

from __future__ import annotations

from bench.redteam.causes_third.common import long_path, third
from bench.redteam.injections import in_turn, shell_a1, shell_b1
from bench.redteam.model import mixed, tcp

CAUSES = (
    third(
        "route-window",
        "windows",
        "A route of the receiver limits its window.",
        "ip route: window",
        (14_000, 3000),
        ("receive_window",),
        (tcp(4), tcp(1)),
        shell_b1("ip route change 10.77.0.0/16 dev eth0 window @v"),
    ),
    third(
        "small-gso",
        "windows",
        "The sender's adapter takes only small super-packets.",
        "ip link: gso_max_size",
        (12_000, 3000),
        ("segmentation_off", "offload_off_on_path"),
        (tcp(1), tcp(4)),
        shell_a1("ip link set dev eth0 gso_max_size @v"),
    ),
    third(
        "no-autotuning",
        "windows",
        "The receiver's buffer is small and does not grow.",
        "net.ipv4.tcp_moderate_rcvbuf and tcp_rmem",
        (24_000, 5000),
        ("receive_window",),
        (mixed(1), tcp(2)),
        shell_b1(
            'sysctl -qw net.ipv4.tcp_moderate_rcvbuf=0\nsysctl -qw net.ipv4.tcp_rmem="4096 @v 33554432"'
        ),
    ),
    third(
        "no-scaling-far-away",
        "windows",
        "A firewall's setting without window scaling, and a long path.",
        "net.ipv4.tcp_window_scaling and a program that delays frames",
        (300, 5000),
        ("receive_window", "missing:path_delay"),
        (tcp(8), tcp(1)),
        in_turn(shell_b1("sysctl -qw net.ipv4.tcp_window_scaling=0"), long_path("@v")),
    ),
    third(
        "small-send-buffer-far-away",
        "windows",
        "The sender's buffer is too small for a long path.",
        "net.ipv4.tcp_wmem and a program that delays frames",
        ("262144 1000", "32768 4000"),
        ("send_buffer", "missing:path_delay"),
        (tcp(4), mixed(2)),
        in_turn(shell_a1('sysctl -qw net.ipv4.tcp_wmem="4096 16384 @1"'), long_path("@2")),
    ),
    third(
        "tiny-segments",
        "windows",
        "A VPN appliance on the path clamps the segment size, and the switch is a program.",
        "iptables: TCPMSS",
        (500, 88),
        ("small_mtu", "switch_cpu"),
        (tcp(1), tcp(4)),
        in_turn(
            shell_a1("iptables -t mangle -A OUTPUT -p tcp --tcp-flags SYN SYN -j TCPMSS --set-mss @v"),
            shell_b1("iptables -t mangle -A OUTPUT -p tcp --tcp-flags SYN SYN -j TCPMSS --set-mss @v"),
        ),
        vswitches=("openvswitch",),
    ),
)
