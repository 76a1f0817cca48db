"""Causes of the third set that interrupt the path or use up what connections need."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.causes_third.common import pulses, third
from bench.redteam.injections import limit_files, shell_a1
from bench.redteam.model import Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import Target

INTERRUPTED = ("path_interrupted", "path_loss", "path_blocked")


def wrong_neighbour(target: Target, value: Value, stack: ExitStack) -> None:
    """Let the sender's neighbour entry point to another station now and then, as with a duplicate address."""
    address = target.address("b1")
    lladdr = target.run("b1", "cat /sys/class/net/eth0/address").strip()
    pulses(
        "a1",
        f"ip neigh replace {address} lladdr 02:de:ad:be:ef:01 dev eth0 nud permanent",
        f"ip neigh replace {address} lladdr {lladdr} dev eth0 nud permanent",
    )(target, value, stack)


def moving_address(target: Target, value: Value, stack: ExitStack) -> None:
    """Let the bridge learn the receiver's address at the wrong port now and then."""
    lladdr = target.run("b1", "cat /sys/class/net/eth0/address").strip()
    pulses(
        "sw",
        f"bridge fdb replace {lladdr} dev a1 master static",
        f"bridge fdb replace {lladdr} dev b1 master static",
    )(target, value, stack)


def few_files(target: Target, value: Value, stack: ExitStack) -> None:
    """Limit the open files of an agent. The value's words are the endpoint and the further files."""
    endpoint, spare = str(value).split()
    limit_files(target, endpoint, int(spare))


CAUSES = (
    third(
        "migrated-port",
        "outages",
        "The receiver's port leaves the bridge for a while, as in a live migration.",
        "ip link: nomaster",
        ("0.15 0.8", "0.7 0.5"),
        (*INTERRUPTED, "link_down"),
        (tcp(4), rr(1)),
        pulses("sw", "ip link set dev b1 nomaster", "ip link set dev b1 master sw0"),
        phase="load",
    ),
    third(
        "few-ports",
        "outages",
        "The client has few local ports.",
        "net.ipv4.ip_local_port_range",
        ("40000 40012", "40000 40004"),
        ("system_refused", "no_connection", "missing:local_ports"),
        (crr(2), crr(8)),
        shell_a1('sysctl -qw net.ipv4.ip_local_port_range="@1 @2" net.ipv4.tcp_tw_reuse=0'),
    ),
    third(
        "moving-address",
        "outages",
        "The receiver's address moves to a wrong port of the bridge and back.",
        "bridge fdb",
        ("0.1 0.7", "0.4 0.5"),
        INTERRUPTED,
        (tcp(1), udp(1)),
        moving_address,
        phase="load",
    ),
    third(
        "duplicate-address",
        "outages",
        "The sender sometimes sends to another station with the same IP address.",
        "ip neigh",
        ("0.1 0.9", "0.5 0.4"),
        (*INTERRUPTED, "no_connection"),
        (rr(2), crr(1)),
        wrong_neighbour,
        phase="load",
    ),
    third(
        "few-files",
        "outages",
        "A process may open few files.",
        "prlimit",
        ("b1 6", "a1 4"),
        ("system_refused", "no_connection", "server_failed", "connection_broken"),
        (crr(8), tcp(8)),
        few_files,
    ),
    third(
        "driver-reset",
        "outages",
        "The receiver's interface goes down and up again.",
        "ip link",
        ("0.05 0.9", "0.6 0.6"),
        ("link_down", *INTERRUPTED),
        (mixed(1), udp(1)),
        pulses("b1", "ip link set dev eth0 down", "ip link set dev eth0 up"),
        phase="load",
    ),
    third(
        "withdrawn-route",
        "outages",
        "The sender loses its route again and again, or for good.",
        "ip route",
        ("0.3 0.5", "60 0.4"),
        (*INTERRUPTED, "connection_broken", "no_connection", "system_refused"),
        (tcp(2), crr(2)),
        pulses("a1", "ip route replace blackhole @b1/32", "ip route replace @b1/32 dev eth0"),
        phase="load",
    ),
)
