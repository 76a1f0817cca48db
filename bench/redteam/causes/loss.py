"""Packets that are lost, late, doubled or out of order."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import cycle

from bench.redteam.causes.common import commands
from bench.redteam.injections import in_turn
from bench.redteam.model import Cause, Inject, Load, Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import Target

LOST = ("path_loss",)
SETUP_LOST = ("connection_setup_loss", "path_loss")
REQUESTS_LOST = ("path_loss", "connection_setup_loss")
"""With new connections, loss of any packet also loses connection requests."""
OUTAGE = ("path_interrupted", "path_loss", "connection_setup_loss")
BULK = (tcp(1), tcp(4), mixed(1), tcp(2))
REQUESTS = (rr(4), crr(4), rr(1), crr(1))
SHARES: tuple[Value, ...] = (0.0005, 0.005, 0.05)
RANDOM = "-m statistic --mode random --probability {v}"


def _drop(where: str, chain: str, match: str = "", table: str = "filter") -> Inject:
    return commands((where, f"iptables -w -t {table} -I {chain} {match} {RANDOM} -j DROP"))


def _drop_in_bridge(match: str) -> Inject:
    return commands(
        ("sw", "nft add table bridge redteam"),
        ("sw", "nft add chain bridge redteam c {{ type filter hook forward priority 0 ; }}"),
        ("sw", f"nft add rule bridge redteam c {match} numgen random mod 10000 < {{v}} drop"),
    )


def _drop_at_ingress(endpoint: str) -> Inject:
    return commands(
        (endpoint, "nft add table netdev redteam"),
        (endpoint, "nft add chain netdev redteam c {{ type filter hook ingress device eth0 priority 0 ; }}"),
        (endpoint, "nft add rule netdev redteam c ip protocol tcp numgen random mod 10000 < {v} drop"),
    )


def _outages(where: str, chain: str) -> Inject:
    """Return an injection that drops every packet for `value` milliseconds of every 400."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        turns = cycle((("-I", float(value) / 1000), ("-D", 0.4 - float(value) / 1000)))

        def toggle() -> float:
            action, wait_s = next(turns)
            target.run(where, f"iptables -w {action} {chain} -p tcp -j DROP")
            return wait_s

        target.repeat(stack, toggle)

    return inject


def _wrong_neighbour(target: Target, value: Value, stack: ExitStack) -> None:
    """Give the sender a wrong MAC address of its peer for `value` milliseconds of every 400."""
    route = target.run("a1", f"ip route get {target.address('b1')}").split()
    hop = route[route.index("via") + 1] if "via" in route else target.address("b1")
    turns = cycle((True, False))

    def toggle() -> float:
        if next(turns):
            target.run("a1", f"ip neigh replace {hop} lladdr 02:00:00:00:00:99 dev eth0 nud permanent")
            return float(value) / 1000
        target.run("a1", f"ip neigh del {hop} dev eth0")
        return 0.4 - float(value) / 1000

    target.repeat(stack, toggle)


def _relay(delay: str, share: str) -> Inject:
    """Return an injection that takes the bridge's ports apart and joins them by a program."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for endpoint in target.endpoints:
            target.run(endpoint, "ethtool -K eth0 tso off gso off tx off")
        for port in ("a1", "b1"):
            target.run("sw", f"ip link set {port} nomaster")
            target.run("sw", f"ip link set {port} promisc on")
        target.program(stack, "sw", f"relay a1 b1 {delay.format(v=value)} {share.format(v=value)}")

    return inject


def _slow_class(endpoint: str) -> Inject:
    """Return an injection of reordering: a share of the packets goes through a slower class of HTB."""
    return commands(
        (endpoint, "tc qdisc add dev eth0 root handle 1: htb default 1"),
        (endpoint, "tc class add dev eth0 parent 1: classid 1:1 htb rate 20gbit burst 256k"),
        (endpoint, "tc class add dev eth0 parent 1: classid 1:2 htb rate 400mbit burst 66k cburst 66k"),
        (endpoint, f"iptables -w -t mangle -A POSTROUTING -p tcp {RANDOM} -j CLASSIFY --set-class 1:2"),
    )


def _loss(
    name: str, description: str, method: str, inject: Inject, *, intensities: tuple[Value, ...] = SHARES,
    loads: tuple[Load, ...] = BULK, accepted: tuple[str, ...] = LOST,
    vswitches: tuple[str, ...] = ("bridge",), phase: str = "load",
) -> Cause:  # fmt: skip
    return Cause(
        name, "loss", description, method, intensities, accepted, loads, inject, vswitches=vswitches,
        phase=phase,
    )  # fmt: skip


CAUSES = (
    _loss("loss-receiver", "random loss at the receiver", "iptables -m statistic in its INPUT chain",
          _drop("b1", "INPUT", "-p tcp")),
    _loss("loss-ingress", "random loss before the receiver's network layer", "nft numgen, hook ingress",
          _drop_at_ingress("b1"), intensities=(5, 50, 500)),
    _loss("loss-sender", "random loss behind the sender's network layer",
          "iptables -m statistic in its POSTROUTING chain", _drop("a1", "POSTROUTING", "-p tcp", "mangle")),
    _loss("loss-bridge", "random loss in the bridge", "nft numgen in the bridge's forward hook",
          _drop_in_bridge("ip protocol tcp"), intensities=(5, 50, 500)),
    _loss("loss-router", "random loss in the router", "iptables -m statistic in its FORWARD chain",
          _drop("sw", "FORWARD", "-p tcp"), vswitches=("router",)),
    _loss("loss-acks", "random loss of acknowledgements", "iptables -m statistic in the sender's INPUT chain",
          _drop("a1", "INPUT", "-p tcp"), intensities=(0.1, 0.4, 0.7),
          accepted=("missing:ack_loss", "path_loss"), loads=(tcp(1), tcp(4))),
    _loss("loss-syn", "random loss of connection requests", "iptables --syn in the receiver's INPUT chain",
          _drop("b1", "INPUT", "-p tcp --syn"), intensities=(0.00002, 0.0005, 0.02),
          accepted=SETUP_LOST, loads=(crr(4), crr(1), crr(8))),
    _loss("loss-synack", "random loss of answers to connection requests",
          "iptables on SYN and ACK in the sender's INPUT chain",
          _drop("a1", "INPUT", "-p tcp --tcp-flags SYN,ACK SYN,ACK"), intensities=(0.00002, 0.0005, 0.02),
          accepted=SETUP_LOST, loads=(crr(4), crr(1), crr(8))),
    _loss("loss-requests", "random loss of requests", "iptables -m statistic in the receiver's INPUT chain",
          _drop("b1", "INPUT", "-p tcp"), intensities=(0.001, 0.01, 0.05), loads=REQUESTS,
          accepted=REQUESTS_LOST),
    _loss("loss-responses", "random loss of responses", "nft numgen in the bridge, towards the sender",
          _drop_in_bridge("ip protocol tcp oifname a1"), intensities=(10, 100, 500), loads=REQUESTS,
          accepted=REQUESTS_LOST),
    _loss("loss-datagrams", "random loss of datagrams", "iptables -m statistic in the receiver's INPUT chain",
          _drop("b1", "INPUT", "-p udp"), intensities=(0.01, 0.02, 0.2), loads=(udp(1), udp(4), udp(2))),
    _loss("loss-datagrams-bridge", "random loss of datagrams in the bridge", "nft numgen in the bridge",
          _drop_in_bridge("ip protocol udp"), intensities=(100, 300, 3000), loads=(udp(1), udp(8), udp(2))),
    _loss("loss-without-sack", "random loss, and selective acknowledgement is off",
          "iptables -m statistic, net.ipv4.tcp_sack = 0",
          in_turn(commands(("a1", "sysctl -q -w net.ipv4.tcp_sack=0"),
                          ("b1", "sysctl -q -w net.ipv4.tcp_sack=0")),
                 _drop("b1", "INPUT", "-p tcp")), intensities=(0.001, 0.005, 0.02), phase="testbed"),
    _loss("outages", "nothing passes for some milliseconds, again and again",
          "iptables DROP for N of every 400 ms", _outages("b1", "INPUT"), intensities=(10, 60, 200),
          accepted=OUTAGE, loads=(tcp(1), rr(1), tcp(4), crr(1))),
    _loss("wrong-neighbour", "the sender has a wrong MAC address for a part of the time",
          "ip neigh replace for N of every 400 ms", _wrong_neighbour, intensities=(10, 60, 200),
          accepted=OUTAGE, loads=(tcp(1), rr(1), tcp(4), crr(1)),
          vswitches=("bridge", "router", "direct")),
    _loss("reorder-class", "a share of the packets takes a slower way and arrives late",
          "iptables CLASSIFY to a slower class of tc htb", _slow_class("a1"), intensities=(0.005, 0.03, 0.2),
          accepted=("reordering",), loads=(tcp(1), tcp(4))),
    _loss("duplicates", "a share of the packets arrives twice", "iptables TEE at the receiver's address",
          commands(("a1", "iptables -w -t mangle -A POSTROUTING -p tcp " + RANDOM
                    + " -j TEE --gateway {b1}")),
          intensities=(0.02, 0.2, 1.0), accepted=("duplicates", "reordering"),
          loads=(tcp(1), rr(1), tcp(4))),
    _loss("relay-delay", "a longer path", "a program relays frames N s later", _relay("{v}", "1"),
          intensities=(0.002, 0.01, 0.04), accepted=("missing:path_delay", "request_response"),
          loads=(rr(1), rr(4), crr(1))),
)  # fmt: skip
