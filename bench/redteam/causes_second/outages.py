"""Causes that interrupt the path, or connections."""

from __future__ import annotations

from bench.redteam.causes_second import neighbours
from bench.redteam.causes_second.common import background, second
from bench.redteam.injections import in_turn, nft, shell_b1
from bench.redteam.model import mixed, rr, tcp, udp

CAUSES = (
    second(
        "reset-by-firewall", "failure", "A firewall resets connections after this many bytes",
        "iptables connbytes and REJECT with tcp-reset", (1_500_000_000, 200_000_000, 5_000_000),
        ("connection_broken", "no_connection"), (tcp(1), tcp(4), mixed(2)),
        shell_b1("""
            sysctl -qw net.netfilter.nf_conntrack_acct=1
            iptables -A INPUT -i eth0 -p tcp -m connbytes --connbytes @v: --connbytes-dir original \
                --connbytes-mode bytes -j REJECT --reject-with tcp-reset
        """),
    ),
    second(
        "unanswered-arp", "outage", "Neighbour entries expire early, and ARP requests are lost",
        "ip neigh delete every 150 ms; nft drops this percentage of the requests", (20, 50, 85),
        ("path_interrupted", "path_loss", "path_blocked", "no_connection", "missing:neighbour"),
        (tcp(1), rr(8), udp(2)),
        in_turn(
            nft(
                "b1",
                "add table arp t\nadd chain arp t c { type filter hook input priority 0; }\n"
                "add rule arp t c numgen random mod 100 < @v drop\n",
            ),
            background("a1", "while :; do ip neigh delete @b1 dev eth0; sleep 0.15; done"),
        ),
    ),
    second(
        "same-address", "failure", "Another VM has the receiver's address",
        "a further namespace announces it every so many seconds", (1.5, 0.5, 0.15),
        ("connection_broken", "no_connection", "path_interrupted", "path_blocked", "wrong_listener"),
        (tcp(1), rr(8), udp(2)), neighbours.same_address(), phase="load",
    ),
    second(
        "port-blocking", "outage", "Spanning tree blocks the receiver's port again and again",
        "bridge link set state, blocked for this many seconds after each 0.4 s", (0.02, 0.15, 0.5),
        ("path_interrupted", "path_loss", "link_down"), (tcp(4), rr(1), udp(2)),
        background(
            "sw",
            "while :; do bridge link set dev b1 state 4; sleep @v; "
            "bridge link set dev b1 state 3; sleep 0.4; done",
        ),
    ),
    second(
        "large-packets-dropped", "failure", "A switch drops packets above a size without a message",
        "nft in the bridge, bytes", (1400, 1000, 600), ("mtu_black_hole",), (tcp(1), tcp(4), mixed(2)),
        nft(
            "sw",
            "add table bridge t\nadd chain bridge t c { type filter hook forward priority 0; }\n"
            "add rule bridge t c meta length > @v drop\n",
        ),
        phase="load",
    ),
)  # fmt: skip
