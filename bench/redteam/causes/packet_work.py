"""Work that something does for every packet."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.causes.common import CAPTURE, FILTERING, commands, programs, rules
from bench.redteam.model import Cause, Inject, Load, Value, crr, rr, tcp, udp, udp_flood
from bench.redteam.target import Target

LOADS = (tcp(1), rr(1), crr(1), tcp(4))
COUNTS: tuple[Value, ...] = (300, 2000, 10000)
FILTERS: tuple[Value, ...] = (50, 400, 2000)


def _filters(where: str, dev: str, direction: str) -> Inject:
    """Return an injection of tc filters that match nothing, in one list."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        target.run(where, f"tc qdisc add dev {dev} clsact")
        lines = [
            f"filter add dev {dev} {direction} protocol all prio {number + 1} u32 "
            f"match u32 0x{0xFFFF0000 + number:x} 0xffffffff at 12 action mirred egress redirect dev lo"
            for number in range(int(value))
        ]
        target.run(where, "tc -batch -", stdin="\n".join([*lines, ""]))

    return inject


def _strings(target: Target, value: Value, stack: ExitStack) -> None:
    for number in range(int(value)):
        target.run("b1", f"iptables -w -A INPUT -m string --algo kmp --string redteam{number} -j DROP")


def _policy_rules(where: str) -> Inject:
    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        lines = [
            f"rule add pref {1000 + number} from 198.18.{number >> 8 & 255}.{number & 255} lookup 77"
            for number in range(int(value))
        ]
        target.run(where, "ip -batch -", stdin="\n".join([*lines, ""]))

    return inject


def _flooding(target: Target, value: Value, stack: ExitStack) -> None:
    """Give the bridge more ports, and let it send every frame to all of them."""
    lines = []
    for number in range(int(value)):
        lines += [
            f"link add redx{number} type veth peer name redy{number}",
            f"link set redx{number} master sw0",
            f"link set redx{number} up",
            f"link set redy{number} up",
        ]
    target.run("sw", "ip -batch -", stdin="\n".join([*lines, ""]))
    for port in ("a1", "b1"):
        target.run("sw", f"bridge link set dev {port} learning off")
    target.run("sw", "ip link set sw0 type bridge fdb_flush")


def _tcpdump(target: Target, value: Value, stack: ExitStack) -> None:
    target.spawn(stack, "sw", f"tcpdump -Z root -i b1 -n -s {value} -w /dev/null")


def _work(
    name: str, description: str, method: str, inject: Inject, *, intensities: tuple[Value, ...] = COUNTS,
    loads: tuple[Load, ...] = LOADS, accepted: tuple[str, ...] = FILTERING,
    vswitches: tuple[str, ...] = ("bridge",),
) -> Cause:  # fmt: skip
    return Cause(
        name, "packet work", description, method, intensities, accepted, loads, inject, vswitches=vswitches
    )


CAUSES = (
    _work("rules-receiver", "a long firewall at the receiver", "N iptables rules in INPUT",
          rules("b1", "INPUT")),
    _work("rules-sender", "a long firewall at the sender", "N iptables rules in OUTPUT",
          rules("a1", "OUTPUT")),
    _work("rules-bridge", "a long firewall that bridge netfilter asks for every frame",
          "N iptables rules in FORWARD of the switch", rules("sw", "FORWARD")),
    _work("rules-router", "a long firewall in the router", "N iptables rules in FORWARD",
          rules("sw", "FORWARD"), vswitches=("router",)),
    _work("rules-datagrams", "a long firewall for datagrams", "N iptables rules in raw PREROUTING",
          rules("b1", "PREROUTING", "raw"), loads=(udp_flood(1), udp(4), udp_flood(2))),
    _work("string-rules", "a firewall that reads the payload", "N iptables rules with -m string", _strings,
          intensities=(1, 4, 16), loads=(tcp(1), tcp(4), rr(1))),
    _work("conntrack-connections", "connection tracking of new connections",
          "nft rules with ct state in N chains of both VMs and the switch",
          commands(*((where, line) for where in ("a1", "b1", "sw") for line in (
              "iptables -w -A INPUT -m conntrack --ctstate INVALID -j DROP",
              "iptables -w -t nat -A POSTROUTING -s 198.18.0.1 -j SNAT --to-source 198.18.0.2",
              "iptables -w -A FORWARD -m connlimit --connlimit-above {v} -j DROP"))),
          intensities=(50_000, 100_000, 200_000), loads=(crr(1), crr(4), crr(8))),
    _work("filters-sender", "many tc filters at the sender", "N u32 filters on clsact egress",
          _filters("a1", "eth0", "egress"), intensities=FILTERS),
    _work("filters-receiver", "many tc filters at the receiver", "N u32 filters on clsact ingress",
          _filters("b1", "eth0", "ingress"), intensities=FILTERS),
    _work("filters-switch", "many tc filters at the switch's port", "N u32 filters on clsact egress",
          _filters("sw", "b1", "egress"), intensities=FILTERS, vswitches=("bridge", "router")),
    _work("policy-rules", "many routing rules in the router", "N ip rules", _policy_rules("sw"),
          accepted=("missing:routing_rules",), vswitches=("router",)),
    _work("flooding", "the bridge floods every frame to N other ports", "learning off, N more ports",
          _flooding, intensities=(8, 40, 160), accepted=("foreign_packets",)),
    _work("capture-sender", "packet captures at the sender", "N readers of AF_PACKET on its interface",
          programs("a1", "capture eth0"), intensities=(1, 3, 8), accepted=CAPTURE),
    _work("capture-receiver", "packet captures at the receiver", "N readers of AF_PACKET on its interface",
          programs("b1", "capture eth0"), intensities=(1, 3, 8), accepted=CAPTURE),
    _work("capture-switch", "packet captures at the switch", "N readers of AF_PACKET on its port",
          programs("sw", "capture b1"), intensities=(1, 3, 8), accepted=CAPTURE,
          vswitches=("bridge", "router", "openvswitch")),
    _work("tcpdump-switch", "tcpdump writes a trace at the switch", "tcpdump with -s N at its port",
          _tcpdump,
          intensities=(96, 1514, 65535), accepted=CAPTURE),
)  # fmt: skip
