"""Causes that limit rates on the path."""

from __future__ import annotations

from bench.redteam.causes_second import neighbours
from bench.redteam.causes_second.common import CPU_TAKEN, TCP_LOADS, second, two_faults
from bench.redteam.injections import (
    after,
    in_turn,
    rule_at_port,
    shell_a1,
    shell_b1,
    shell_sw,
    spin_on_each_cpu,
)
from bench.redteam.model import crr, mixed, rr, tcp, udp

SHAPED_PORT = "tc qdisc add dev b1 root tbf rate @v burst 256k limit 1m"

CAUSES = (
    second(
        "ingress-ifb", "link", "The receiver shapes what it receives",
        "tc mirred to an ifb with tbf", ("3gbit", "600mbit", "60mbit"), ("link_full",), TCP_LOADS,
        shell_b1("""
            ip link add ifb0 type ifb
            ip link set ifb0 up
            tc qdisc add dev ifb0 root tbf rate @v burst 256k limit 1m
            tc qdisc add dev eth0 handle ffff: ingress
            tc filter add dev eth0 parent ffff: protocol all u32 match u32 0 0 \
                action mirred egress redirect dev ifb0
        """),
    ),
    second(
        "guest-shaper", "link", "The sender shapes its own interface",
        "tc tbf in the sender", ("4gbit", "700mbit", "40mbit"), ("link_full",), TCP_LOADS,
        shell_a1("tc qdisc add dev eth0 root tbf rate @v burst 128k limit 400k"),
    ),
    second(
        "deep-port-queue", "link", "A slow port has a queue of several thousand packets",
        "tc htb with pfifo limit 20000", ("2gbit", "300mbit", "50mbit"), ("link_full",), (mixed(2), tcp(4)),
        shell_sw("""
            tc qdisc add dev b1 root handle 1: htb default 10
            tc class add dev b1 parent 1: classid 1:10 htb rate @v burst 128k
            tc qdisc add dev b1 parent 1:10 pfifo limit 20000
        """),
    ),
    second(
        "few-packet-queue", "link", "A port of 1 Gbit/s has a queue of a few packets",
        "tc htb with pfifo limit", (40, 6, 1), ("link_full", "policer", "path_loss"), TCP_LOADS,
        shell_sw("""
            tc qdisc add dev b1 root handle 1: htb default 10
            tc class add dev b1 parent 1: classid 1:10 htb rate 1gbit burst 64k
            tc qdisc add dev b1 parent 1:10 pfifo limit @v
        """),
    ),
    second(
        "return-shaper", "link", "The return path is slow",
        "tc tbf towards the sender", ("4mbit", "800kbit", "150kbit"), ("ack_path_limited", "link_full"),
        (tcp(1), tcp(4)),
        shell_sw("tc qdisc add dev a1 root tbf rate @v burst 4k limit 60k"),
    ),
    second(
        "return-policer", "link", "A policer drops small packets of the return path",
        "nft limit at the sender's port, packets/s", (3000, 400, 40),
        ("ack_path_limited", "policer", "path_loss"), (tcp(1), tcp(4)),
        rule_at_port("a1", "egress", "meta length < 120 limit rate over @v/second burst 20 packets drop"),
    ),
    second(
        "loading-neighbour", "link", "Another VM uses most of the receiver's port of 200 Mbit/s",
        "tc tbf, and datagrams at this many bit/s", ("60e6", "130e6", "185e6"), ("other_load", "link_full"),
        (tcp(1), mixed(2)),
        in_turn(
            shell_sw("tc qdisc add dev b1 root tbf rate 200mbit burst 64k limit 300k"),
            neighbours.datagrams_to_receiver(1400),
        ),
    ),
    second(
        "shaper-halfway", "link", "A port becomes slow 0.5 s after the load starts",
        "tc tbf", ("3gbit", "500mbit", "50mbit"), ("link_full", "drift", "testbed_changed"), TCP_LOADS,
        after(0.5, shell_sw(SHAPED_PORT)), phase="load",
    ),
    second(
        "firewall-policer", "link", "The receiver's firewall drops what exceeds a byte rate",
        "iptables hashlimit, bytes/s", ("300mb/s", "60mb/s", "6mb/s"), ("policer", "path_loss"), TCP_LOADS,
        shell_b1("""
            iptables -A INPUT -m hashlimit --hashlimit-name redteam --hashlimit-mode srcip \
                --hashlimit-above @v --hashlimit-burst 400mb -j DROP
        """),
    ),
    second(
        "packet-rate-policer", "link", "A port drops what exceeds a packet rate",
        "nft limit at the sender's port, packets/s", (12000, 4000, 500),
        ("policer", "path_loss", "connection_setup_loss"),
        (udp(2), rr(8), crr(4)),
        rule_at_port("a1", "ingress", "limit rate over @v/second burst 50 packets drop"),
    ),
    second(
        "shaper-and-hogs", "two faults", "A port is slow, and a program uses each CPU",
        "tc tbf, and busy programs for this share",
        ("3gbit 0.3", "800mbit 0.6", "100mbit 0.9"), ("link_full", *CPU_TAKEN), TCP_LOADS,
        two_faults(shell_sw(SHAPED_PORT), spin_on_each_cpu("@v")),
    ),
)  # fmt: skip
