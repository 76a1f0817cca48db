"""Causes of the third set that lose or delay datagrams."""

from __future__ import annotations

from dataclasses import replace

from bench.redteam.causes_third.common import EARLY_S, drop_at_port, third
from bench.redteam.injections import after, shell_b1, shell_sw
from bench.redteam.model import Load, udp, udp_flood
from bench.redteam.target import Target

OFFERED_BITS_PER_S = 10_000 * (64 + 42) * 8
"""Rate of one stream of paced datagrams, with their headers."""


def large_datagrams(count: int) -> Load:
    """Return paced datagrams that IP must fragment."""
    load = udp(count)
    factors = tuple((name, "1 k/s" if name == "rate" else level) for name, level in load.factors)
    return replace(load, factors=(*factors, ("datagram_size", "8 KiB"), ("fragments", "on")))


def _shape_sender(target: Target, share: float) -> None:
    """Shape the sender's interface to a share of the packets that the load offers."""
    bits_per_s = round(share * OFFERED_BITS_PER_S * target.load.count)
    target.run("a1", f"tc qdisc add dev eth0 root tbf rate {bits_per_s} burst 4k limit 12k")


CAUSES = (
    third(
        "sender-queue",
        "datagrams",
        "A shaper at the sender drops what its short queue cannot hold.",
        "tbf at eth0",
        ("0.8", "0.3"),
        ("link_full", "overflow", "policer"),
        (udp(2), udp(4)),
        lambda target, value, stack: _shape_sender(target, float(value)),
    ),
    third(
        "radio-losses",
        "datagrams",
        "The path loses some datagrams at random.",
        "nftables at the switch",
        (1, 12),
        ("path_loss",),
        (udp(8), udp(1)),
        drop_at_port("a1", "meta l4proto udp numgen random mod 100 < @v"),
    ),
    third(
        "dropped-fragments",
        "datagrams",
        "A firewall drops some of the fragments.",
        "nftables at the switch",
        (1, 3),
        ("path_loss",),
        (large_datagrams(2), large_datagrams(1)),
        drop_at_port("a1", "ether type ip ip frag-off & 0x1fff != 0 numgen random mod 100 < @v"),
    ),
    third(
        "small-reassembly",
        "datagrams",
        "The receiver has little memory to put fragments together.",
        "net.ipv4.ipfrag_high_thresh",
        (100_000, 3000),
        ("overflow", "path_loss", "missing:reassembly"),
        (large_datagrams(4), large_datagrams(2)),
        shell_b1("sysctl -qw net.ipv4.ipfrag_low_thresh=0\nsysctl -qw net.ipv4.ipfrag_high_thresh=@v"),
    ),
    third(
        "datagram-police",
        "datagrams",
        "The switch polices datagrams by their packet rate.",
        "nftables: limit",
        (16_000, 4000),
        ("policer", "path_loss"),
        (udp(2), udp(8)),
        drop_at_port("a1", "meta l4proto udp limit rate over @v/second burst 100 packets"),
    ),
    third(
        "datagram-losses-midway",
        "datagrams",
        "Shortly after the load starts, the path loses datagrams.",
        "nftables at the switch",
        (5, 50),
        ("path_loss", "two_modes", "drift"),
        (udp(4), udp(1)),
        after(EARLY_S, drop_at_port("a1", "meta l4proto udp numgen random mod 100 < @v"), first_bytes=True),
    ),
    third(
        "flood-through-shaper",
        "datagrams",
        "A shaped link takes a small part of the datagrams.",
        "tbf at the receiver's port",
        (200, 40),
        ("link_full", "overflow"),
        (udp_flood(1), udp_flood(8)),
        shell_sw("tc qdisc add dev b1 root tbf rate @vmbit burst 64k limit 200k"),
    ),
)
