"""Shapers, policers, queues and competing traffic."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import cycle

from bench.redteam.causes.common import commands, tcp_competitors, udp_competitor
from bench.redteam.model import Cause, Inject, Load, Value, crr, mixed, rr, tcp, udp, udp_flood
from bench.redteam.target import InjectionError, Target

LINK = ("link_full",)
POLICER = ("policer", "path_loss", "link_full")
BULK = (tcp(1), tcp(4), tcp(2), mixed(1))
RATES: tuple[Value, ...] = ("3gbit", "500mbit", "50mbit")
ACK_RATES: tuple[Value, ...] = ("4mbit", "1mbit", "200kbit")
TBF = "tc qdisc replace dev {dev} root tbf rate {{v}} burst {burst} limit {limit}"
SWITCHES = ("bridge", "router", "openvswitch")


def _tbf(dev: str, burst: str = "128kb", limit: str = "512kb") -> str:
    return TBF.format(dev=dev, burst=burst, limit=limit)


def _on_and_off(target: Target, value: Value, stack: ExitStack) -> None:
    """Shape the sender to 200 Mbit/s for `value` of every 1.6 seconds."""
    turns = cycle((True, False))

    def toggle() -> float:
        if next(turns):
            target.run("a1", "tc qdisc replace dev eth0 root tbf rate 200mbit burst 128kb limit 512kb")
            return float(value)
        target.run("a1", "tc qdisc del dev eth0 root")
        return 1.6 - float(value)

    target.repeat(stack, toggle)


def _ingress(endpoint: str) -> Inject:
    """Return an injection that shapes what arrives, through an ifb."""
    return commands(
        (endpoint, "ip link add redifb type ifb"),
        (endpoint, "ip link set redifb up"),
        (endpoint, _tbf("redifb")),
        (endpoint, "tc qdisc add dev eth0 handle ffff: ingress"),
        (endpoint, "tc filter add dev eth0 parent ffff: protocol all u32 match u32 0 0 "
         "action mirred egress redirect dev redifb"),
    )  # fmt: skip


def _nft_limit(where: str, hook: str) -> Inject:
    """Return an injection of a policer: packets above a rate in kilobytes per second are dropped."""
    return commands(
        (where, "nft add table ip police"),
        (where, f"nft add chain ip police c {{{{ type filter hook {hook} priority 0 ; }}}}"),
        (where, "nft add rule ip police c meta length > 100 limit rate over {v} kbytes/second "
         "burst 256 kbytes drop"),
    )  # fmt: skip


def _rate_limited_flow(target: Target, value: Value, stack: ExitStack) -> None:
    """Shape the bridge's port to 1 Gbit/s, with `value` competing TCP flows on it."""
    target.run("sw", "tc qdisc replace dev b1 root tbf rate 1gbit burst 128kb limit 512kb")
    tcp_competitors("a1", "b1")(target, value, stack)


def _rate_limited_udp(target: Target, value: Value, stack: ExitStack) -> None:
    """Shape the bridge's port to 200 Mbit/s, with a competing UDP flow on it."""
    target.run("sw", "tc qdisc replace dev b1 root tbf rate 200mbit burst 64kb limit 256kb")
    udp_competitor("a1", "b1")(target, value, stack)


def _neighbour(kind: str) -> Inject:
    """Return an injection of traffic between two new namespaces, on the same CPUs but not on the path."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for name in ("redteam-a", "redteam-b"):
            target.run("host", f"ip netns add {name}")
            stack.callback(_delete_namespace, target, name)
        target.run("host", "ip -n redteam-a link add eth0 type veth peer name eth0 netns redteam-b")
        for name, number in (("redteam-a", 1), ("redteam-b", 2)):
            target.run("host", f"ip -n {name} address add 10.99.0.{number}/24 dev eth0")
            target.run("host", f"ip -n {name} link set eth0 up")
            target.namespaces[name] = name
        target.program(stack, "redteam-b", "sink 39999")
        if kind == "tcp":
            target.program(stack, "redteam-a", f"tcp 10.99.0.2 39999 {value}")
        else:
            for _ in range(int(value)):
                target.program(stack, "redteam-a", "udp 10.99.0.2 39999 1e10 200")

    return inject


def _delete_namespace(target: Target, name: str) -> None:
    try:
        target.run("host", f"ip netns delete {name}")
    except InjectionError:
        return


def _link(
    name: str, description: str, method: str, inject: Inject, *,
    intensities: tuple[Value, ...] = RATES, loads: tuple[Load, ...] = BULK, accepted: tuple[str, ...] = LINK,
    vswitches: tuple[str, ...] = ("bridge",),
) -> Cause:  # fmt: skip
    return Cause(
        name, "links", description, method, intensities, accepted, loads, inject, vswitches=vswitches
    )


CAUSES = (
    _link("tbf-sender", "a shaper at the sender", "tc tbf on the sender's interface",
          commands(("a1", _tbf("eth0"))), vswitches=(*SWITCHES, "direct")),
    _link("htb-sender", "an HTB class at the sender", "tc htb on the sender's interface",
          commands(("a1", "tc qdisc add dev eth0 root handle 1: htb default 1"),
                   ("a1", "tc class add dev eth0 parent 1: classid 1:1 htb rate {v} burst 64k"))),
    _link("tbf-switch-port", "a shaper at the switch's port to the receiver", "tc tbf on the port's egress",
          commands(("sw", _tbf("b1"))), vswitches=("bridge", "router")),
    _link("htb-switch-port", "an HTB class at the switch's port", "tc htb on the port's egress",
          commands(("sw", "tc qdisc add dev b1 root handle 1: htb default 1"),
                   ("sw", "tc class add dev b1 parent 1: classid 1:1 htb rate {v} burst 64k"))),
    _link("tbf-sender-arrival", "a shaper at the sender's port, where its frames arrive at the switch",
          "tc ingress, mirred to an ifb with tbf",
          commands(("sw", "ip link add redifb type ifb"), ("sw", "ip link set redifb up"),
                   ("sw", _tbf("redifb")), ("sw", "tc qdisc add dev a1 handle ffff: ingress"),
                   ("sw", "tc filter add dev a1 parent ffff: protocol all u32 match u32 0 0 "
                    "action mirred egress redirect dev redifb"))),
    _link("ingress-receiver", "a shaper of what arrives at the receiver", "tc ingress, mirred to an ifb, tbf",
          _ingress("b1"), vswitches=("bridge", "router")),
    _link("police-receiver", "a policer at the receiver", "nft limit rate over N kbyte/s drop, hook input",
          _nft_limit("b1", "input"), intensities=(200_000, 40_000, 5_000),
          accepted=POLICER, loads=(tcp(1), tcp(4), tcp(2))),
    _link("police-router", "a policer in the router", "nft limit rate over N kbyte/s drop, hook forward",
          _nft_limit("sw", "forward"), intensities=(200_000, 40_000, 5_000),
          accepted=POLICER, loads=(tcp(1), tcp(4), tcp(2)), vswitches=("router",)),
    _link("police-udp", "a policer for datagrams at the receiver", "nft limit rate over N packets/s drop",
          commands(("b1", "nft add table ip police"),
                   ("b1", "nft add chain ip police c {{ type filter hook input priority 0 ; }}"),
                   ("b1", "nft add rule ip police c ip protocol udp limit rate over {v}/second "
                    "burst 200 packets drop")),
          intensities=(8000, 4000, 1000), loads=(udp(1), udp(2)), accepted=POLICER),
    _link("ack-path-receiver", "a slow path for acknowledgements", "tc tbf on the receiver's interface",
          commands(("b1", _tbf("eth0", "16kb", "64kb"))), intensities=ACK_RATES, loads=(tcp(1), tcp(4)),
          accepted=("ack_path_limited", "link_full")),
    _link("ack-path-switch", "a slow path for acknowledgements at the switch",
          "tc tbf on the switch's port to the sender", commands(("sw", _tbf("a1", "16kb", "64kb"))),
          intensities=ACK_RATES, loads=(tcp(1), tcp(4)), accepted=("ack_path_limited", "link_full"),
          vswitches=("bridge", "router")),
    _link("short-queue", "a link with a tiny queue", "tc tbf 1 Gbit/s with a limit of N bytes",
          commands(("a1", "tc qdisc replace dev eth0 root tbf rate 1gbit burst 66kb limit {v}")),
          intensities=(60_000, 15_000, 4_000), accepted=("link_full", "overflow"), loads=(tcp(1), tcp(4))),
    _link("deep-queue", "a slow link with a deep queue", "tc tbf 100 Mbit/s with a queue of N ms",
          commands(("sw", "tc qdisc replace dev b1 root tbf rate 100mbit burst 64kb latency {v}")),
          intensities=("20ms", "100ms", "400ms"), loads=(mixed(1), mixed(4), tcp(1))),
    _link("slow-link-requests", "a slow link for requests", "tc tbf on the sender's interface",
          commands(("a1", _tbf("eth0", "4kb", "32kb"))), intensities=("10mbit", "2mbit", "500kbit"),
          loads=(rr(4), crr(4), rr(8), crr(1))),
    _link("slow-link-datagrams", "a link below the rate of the datagrams", "tc tbf at the switch's port",
          commands(("sw", _tbf("b1", "8kb", "32kb"))), intensities=("7mbit", "4mbit", "1mbit"),
          loads=(udp(1), udp(2), udp_flood(1)), accepted=("link_full",)),
    _link("shaper-comes-and-goes", "a shaper that is there for a part of the time",
          "tc tbf 200 Mbit/s for N s of every 1.6 s", _on_and_off, intensities=(0.4, 0.8, 1.2),
          accepted=("link_full", "two_modes")),
    _link("neighbour-on-link", "competing TCP flows on a link of 1 Gbit/s",
          "tc tbf on the switch's port, N flows of another program between the same VMs",
          _rate_limited_flow, intensities=(1, 4, 12), accepted=("other_load", "link_full")),
    _link("neighbour-udp-on-link", "a competing UDP flow on a link of 200 Mbit/s",
          "tc tbf on the switch's port, another program sends N bit/s", _rate_limited_udp,
          intensities=(60e6, 120e6, 180e6), accepted=("other_load", "link_full")),
    _link("neighbour-on-switch", "competing TCP flows between the same VMs, without a shaper",
          "N flows of another program through the same interfaces", tcp_competitors("a1", "b1"),
          intensities=(1, 3, 8), accepted=("other_load", "other_programs", "machine_busy", "shared_by_vms"),
          vswitches=SWITCHES),
    _link("neighbour-reverse", "competing TCP flows in the other direction",
          "N flows of another program from the receiver to the sender", tcp_competitors("b1", "a1"),
          intensities=(1, 3, 8), accepted=("other_load", "other_programs", "machine_busy", "shared_by_vms")),
    _link("neighbour-tcp-elsewhere", "a busy network on the same CPUs, away from the path",
          "N TCP flows between two other namespaces", _neighbour("tcp"), intensities=(1, 3, 8),
          accepted=("other_programs", "machine_busy", "shared_by_vms"), loads=(tcp(1), rr(1), tcp(4))),
    _link("neighbour-udp-elsewhere", "a flood of datagrams on the same CPUs, away from the path",
          "N programs flood another namespace", _neighbour("udp"), intensities=(1, 2, 4),
          accepted=("other_programs", "machine_busy", "shared_by_vms"), loads=(tcp(1), rr(1), crr(1))),
)  # fmt: skip
