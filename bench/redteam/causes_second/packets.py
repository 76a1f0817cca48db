"""Causes that make the work for each packet larger, or add packets."""

from __future__ import annotations

from bench.redteam.causes_second import neighbours
from bench.redteam.causes_second.common import ALL_LOADS, CPU_TAKEN, background, copies, second
from bench.redteam.injections import bridge_source_rules, shell_a1, shell_b1, shell_sw, string_rules
from bench.redteam.model import mixed, rr, tcp, udp

PATTERNS = tuple(letter * 12 for letter in "abcdefghijklmnopqrstuvwxyz")

CAUSES = (
    second(
        "payload-search", "packets", "A firewall searches the payload for patterns",
        "iptables string rules", (1, 5, 20), ("packet_filtering",),
        (tcp(4), tcp(1), mixed(2)), string_rules("b1", "-A INPUT -i eth0", PATTERNS),
    ),
    second(
        "bridge-rules", "packets", "The bridge tests every frame against many rules",
        "nft rules with source addresses that do not occur", (300, 2000, 12000), ("packet_filtering",),
        (tcp(4), rr(8), udp(2)), bridge_source_rules("02:00:00:00", "drop"),
    ),
    second(
        "sniffers", "packets", "Programs record every packet of the receiver",
        "tcpdump to /dev/null", (1, 2, 5), ("packet_capture", *CPU_TAKEN), ALL_LOADS,
        copies(None, background("b1", "exec tcpdump -n -i eth0 -s 0 -Z root -w /dev/null")),
    ),
    second(
        "monitor-ports", "packets", "The switch mirrors the sender's port to monitors",
        "tc mirred mirror, and tcpdump in each monitor", (1, 2, 4),
        ("packet_capture", *CPU_TAKEN, "switch_cpu", "missing:port_mirror"), (tcp(4), rr(8), udp(2)),
        neighbours.mirrors(),
    ),
    second(
        "guest-offloads", "packets", "The sender segments in software",
        "ethtool -K", ("tso off", "tso off gso off", "tx off sg off tso off gso off"),
        ("segmentation_off", "checksum_software"), (tcp(1), tcp(4)),
        shell_a1("ethtool -K eth0 @v"),
    ),
    second(
        "port-offloads", "packets", "The receiver's port of the switch segments in software",
        "ethtool -K", ("tso off", "tso off gso off", "tx off sg off tso off gso off"),
        ("offload_off_on_path", "segmentation_off", "checksum_software"), (tcp(1), tcp(4)),
        shell_sw("ethtool -K b1 @v"),
    ),
    second(
        "short-bursts", "packets", "The sender's interface takes only few segments at once",
        "ip link set gso_max_segs", (10, 4, 1), ("segmentation_off", "offload_off_on_path"), (tcp(1), tcp(4)),
        shell_a1("ip link set eth0 gso_max_segs @v"),
    ),
    second(
        "mss-clamp", "packets", "A firewall clamps the segment size",
        "iptables TCPMSS in the receiver", (800, 400, 100), ("small_mtu",), (tcp(1), tcp(4)),
        shell_b1("iptables -t mangle -A OUTPUT -p tcp --tcp-flags SYN SYN -j TCPMSS --set-mss @v"),
        vswitches=("openvswitch",),
    ),
    second(
        "broadcast-storm", "packets", "Another VM floods the bridge with broadcasts",
        "a further namespace, frames/s", (5_000, 30_000, 150_000),
        ("foreign_packets", "other_load", *CPU_TAKEN), ALL_LOADS, neighbours.broadcasts(60),
    ),
)  # fmt: skip
