"""Causes of the third set that make each packet expensive."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.causes_third.common import CPU_TAKEN, background, third
from bench.redteam.compiled_programs import built
from bench.redteam.injections import bridge_source_rules, in_turn, shell_sw, string_rules
from bench.redteam.model import Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import Target

SIGNATURES = tuple(f"malware-signature-{number:04d}" for number in range(8))
BRIDGE_RULES = bridge_source_rules("02:11:22:33", "counter drop")


def xdp(target: Target, value: Value, stack: ExitStack) -> None:
    """Attach an XDP program of a monitoring tool to the receiver's interface."""
    target.run("b1", f"ip link set dev eth0 xdpdrv obj {built('monitor.bpf')} sec {value}")


def chains_of_jumps(target: Target, value: Value, stack: ExitStack) -> None:
    """Add user chains with connection tracking and marks to the receiver, as container hosts have."""
    count = int(value)
    lines = ["*mangle", *(f":SVC-{number} - [0:0]" for number in range(count))]
    lines += [
        f"-A PREROUTING -m conntrack --ctstate NEW,ESTABLISHED -j SVC-{number}" for number in range(count)
    ]
    lines += [
        f"-A SVC-{number} -m addrtype --dst-type LOCAL -j CONNMARK --save-mark" for number in range(count)
    ]
    target.log.append(f"b1: {count} chains with conntrack and connmark")
    target.run("b1", "iptables-restore --noflush", stdin="\n".join([*lines, "COMMIT", ""]))


CAUSES = (
    third(
        "payload-search",
        "packet work",
        "A firewall searches the payload of each packet.",
        "iptables: string",
        (1, 8),
        ("packet_filtering",),
        (mixed(2), tcp(1)),
        string_rules("b1", "-A INPUT", SIGNATURES),
    ),
    third(
        "bridge-rules",
        "packet work",
        "The bridge compares each frame with many rules.",
        "nftables: bridge",
        (600, 6000),
        ("packet_filtering", "switch_cpu"),
        (crr(1), rr(1)),
        BRIDGE_RULES,
    ),
    third(
        "decoding-capture",
        "packet work",
        "A capture writes headers, or decodes every packet.",
        "tcpdump",
        ("-s 96 -w /dev/null", "-vvXX"),
        ("packet_capture", *CPU_TAKEN),
        (rr(4), tcp(1)),
        background("b1", "tcpdump -Z root -n -i any @v"),
    ),
    third(
        "xdp-monitor",
        "packet work",
        "A monitoring tool sees each packet in the receiver's driver.",
        "XDP",
        ("xdp", "xdp/slow"),
        (
            "aggregation_off",
            "segmentation_off",
            "offload_off_on_path",
            "packet_filtering",
            "receive_processing",
        ),
        (tcp(8), tcp(2)),
        xdp,
    ),
    third(
        "service-chains",
        "packet work",
        "A container host sends each packet through many chains.",
        "iptables: conntrack",
        (150, 1500),
        ("packet_filtering",),
        (udp(4), crr(4)),
        chains_of_jumps,
    ),
    third(
        "port-without-offloads",
        "packet work",
        "The switch's ports cannot take large segments.",
        "ethtool",
        ("tso off", "tso off gso off sg off"),
        ("offload_off_on_path", "segmentation_off"),
        (tcp(2), tcp(8)),
        in_turn(shell_sw("ethtool -K b1 @v"), shell_sw("ethtool -K a1 @v")),
    ),
)
