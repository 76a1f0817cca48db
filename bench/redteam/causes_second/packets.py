"""Causes that make the work for each packet larger, or add packets."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.causes_second import neighbours
from bench.redteam.causes_second.common import ALL_LOADS, CPU_TAKEN, background, copies, second
from bench.redteam.injections import shell_a1, shell_b1, shell_sw
from bench.redteam.model import Value, mixed, rr, tcp, udp
from bench.redteam.target import Target

PATTERNS = "abcdefghijklmnopqrstuvwxyz"


def _search_payload(target: Target, value: Value, stack: ExitStack) -> None:
    lines = [f"-A INPUT -i eth0 -m string --algo kmp --string {letter * 12} -j DROP" for letter in PATTERNS]
    text = "\n".join(["*filter", *lines[: int(value)], "COMMIT", ""])
    target.log.append(f"b1: {lines[0]} and {int(value) - 1} more")
    target.run("b1", "iptables-restore --noflush", stdin=text)


def _bridge_rules(target: Target, value: Value, stack: ExitStack) -> None:
    lines = ["add table bridge t", "add chain bridge t c { type filter hook forward priority 0; }"]
    for number in range(int(value)):
        address = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"
        lines.append(f"add rule bridge t c ether saddr {address} drop")
    target.log.append(f"sw: {value} nft rules in the bridge")
    target.run("sw", "nft -f -", stdin="\n".join([*lines, ""]))


CAUSES = (
    second(
        "payload-search", "packets", "A firewall searches the payload for patterns",
        "iptables string rules", (1, 5, 20), ("packet_filtering",),
        (tcp(4), tcp(1), mixed(2)), _search_payload,
    ),
    second(
        "bridge-rules", "packets", "The bridge tests every frame against many rules",
        "nft rules with source addresses that do not occur", (300, 2000, 12000), ("packet_filtering",),
        (tcp(4), rr(8), udp(2)), _bridge_rules,
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
