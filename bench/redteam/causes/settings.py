"""Windows, buffers, offloads, packet sizes and kernel settings."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.redteam.causes.common import commands
from bench.redteam.journal import changed_file
from bench.redteam.model import Cause, Inject, Load, Value, crr, mixed, rr, tcp, udp, udp_flood
from bench.redteam.target import Target

BULK = (tcp(1), tcp(4), mixed(1), tcp(2))
OFFLOADS: tuple[Value, ...] = ("tso off", "tso off gso off", "tso off gso off sg off")


def _route(option: str) -> Inject:
    """Return an injection that adds an option to the sender's or receiver's route to its peer."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for here, there in (("a1", "b1"), ("b1", "a1")):
            peer = target.address(there)
            found = target.run(here, f"ip route get {peer}").split()
            via = f"via {found[found.index('via') + 1]} " if "via" in found else ""
            target.run(here, f"ip route replace {peer} {via}dev eth0 {option.format(v=value)}")
            target.run(here, "ip tcp_metrics flush")

    return inject


def _machine_setting(*names: str) -> Inject:
    """Return an injection that changes sysctls of the whole machine and restores them."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for name in names:
            path = Path("/proc/sys", name.replace(".", "/"))
            stack.enter_context(changed_file(path, str(value)))
            target.log.append(f"host: sysctl {name}={value}")

    return inject


def _one_packet_cpu(target: Target, value: Value, stack: ExitStack) -> None:
    """Steer packets to one CPU by RPS: of the receiver, of both VMs, and of the switch too."""
    mask = f"{1 << target.cpus[0]:x}"
    places = [("b1", "eth0"), ("a1", "eth0"), ("sw", "a1"), ("sw", "b1")]
    for where, dev in places[: int(value)]:
        target.run(where, f"sh -c 'echo {mask} > /sys/class/net/{dev}/queues/rx-0/rps_cpus'")


def _keep_mtu(target: Target, value: Value, stack: ExitStack) -> None:
    """Lower the sender's MTU, again and again: the bench sets it before each trial."""

    def lower() -> float:
        target.run("a1", f"ip link set eth0 mtu {value}")
        return 0.1

    target.repeat(stack, lower)


def _setting(
    name: str, family: str, description: str, method: str, inject: Inject, accepted: tuple[str, ...],
    intensities: tuple[Value, ...], loads: tuple[Load, ...] = BULK, *,
    vswitches: tuple[str, ...] = ("bridge",), min_cpus: int = 1, phase: str = "testbed",
) -> Cause:  # fmt: skip
    return Cause(
        name, family, description, method, intensities, accepted, loads, inject, vswitches=vswitches,
        min_cpus=min_cpus, phase=phase,
    )  # fmt: skip


CAUSES = (
    _setting("receive-buffer", "windows", "a small maximum of the receive buffer",
             "net.ipv4.tcp_rmem of the receiver",
             commands(("b1", "sysctl -q -w 'net.ipv4.tcp_rmem=2304 {v} {v}'")), ("receive_window",),
             (65536, 16384, 4096), vswitches=("bridge", "router")),
    _setting("send-buffer", "windows", "a small maximum of the send buffer",
             "net.ipv4.tcp_wmem of the sender",
             commands(("a1", "sysctl -q -w 'net.ipv4.tcp_wmem=4096 {v} {v}'")), ("send_buffer",),
             (65536, 16384, 4608), vswitches=("bridge", "router")),
    _setting("route-window", "windows", "the route clamps the window", "ip route ... window N",
             _route("window {v}"), ("receive_window",), (32000, 8000, 2000)),
    _setting("no-window-scaling", "windows", "window scaling is off",
             "net.ipv4.tcp_window_scaling = 0, and tcp_rmem of N bytes at the receiver",
             commands(("a1", "sysctl -q -w net.ipv4.tcp_window_scaling=0"),
                      ("b1", "sysctl -q -w net.ipv4.tcp_window_scaling=0"),
                      ("b1", "sysctl -q -w 'net.ipv4.tcp_rmem=4096 {v} {v}'")), ("receive_window",),
             (4_000_000, 100_000, 20_000)),
    _setting("datagram-buffer", "windows", "a small buffer of the datagram sockets",
             "net.core.rmem_default of the machine", _machine_setting("net.core.rmem_default"), ("overflow",),
             (20_000, 6_000, 2_304), (udp(1), udp(4), udp(8))),
    _setting("backlog", "packet work", "a small backlog of received packets",
             "net.core.netdev_max_backlog of the machine", _machine_setting("net.core.netdev_max_backlog"),
             ("overflow",), (20, 4, 1), (tcp(4), udp_flood(1), rr(8), tcp(1))),
    _setting("receive-budget", "packet work", "softirqs take few packets at a time",
             "net.core.netdev_budget and dev_weight of the machine",
             _machine_setting("net.core.netdev_budget", "net.core.dev_weight"),
             ("missing:softirq_budget",), (16, 4, 1), (tcp(4), udp_flood(1), rr(8), tcp(1))),
    _setting("one-packet-cpu", "cpu", "receive processing is steered to one CPU", "rps_cpus of N interfaces",
             _one_packet_cpu, ("receive_processing", "shared_with_packets"), (1, 2, 4),
             (tcp(4), tcp(1), rr(4), crr(4)), min_cpus=2),
    _setting("offloads-sender", "offloads", "segmentation offload is off at the sender", "ethtool -K",
             commands(("a1", "ethtool -K eth0 {v}")), ("segmentation_off",), OFFLOADS),
    _setting("checksums-sender", "offloads", "checksum offload is off at the sender", "ethtool -K tx off",
             commands(("a1", "ethtool -K eth0 {v}")), ("checksum_software", "segmentation_off"),
             ("tx off", "tx off gso off", "tx off rx off gso off")),
    _setting("offloads-port", "offloads", "segmentation offload is off at the switch's port to the receiver",
             "ethtool -K on the port", commands(("sw", "ethtool -K b1 {v}")),
             ("offload_off_on_path", "segmentation_off", "aggregation_off"), OFFLOADS,
             vswitches=("bridge", "router")),
    _setting("checksums-port", "offloads", "checksum offload is off at the switch's port",
             "ethtool -K tx off on the port", commands(("sw", "ethtool -K b1 {v}")),
             ("offload_off_on_path", "checksum_software", "segmentation_off", "aggregation_off"),
             ("tx off", "tx off gso off", "tx off gso off gro off")),
    _setting("short-segments", "offloads", "the sender's device takes few segments at once",
             "ip link set gso_max_segs", commands(("a1", "ip link set eth0 gso_max_segs {v}")),
             ("segmentation_off",), (10, 4, 1)),
    _setting("small-gso", "offloads", "the sender's device takes little data at once",
             "ip link set gso_max_size", commands(("a1", "ip link set eth0 gso_max_size {v}")),
             ("segmentation_off",), (16_000, 6_000, 2_000)),
    _setting("clamped-mss", "packet size", "a firewall lowers the segment size",
             "iptables TCPMSS at the receiver",
             commands(("b1", "iptables -w -t mangle -A OUTPUT -p tcp --tcp-flags SYN,RST SYN "
                       "-j TCPMSS --set-mss {v}")), ("small_mtu",), (900, 400, 100),
             vswitches=("openvswitch",)),
    _setting("route-mtu", "packet size", "the route has a small MTU", "ip route ... mtu lock N",
             _route("mtu lock {v}"), ("small_mtu",), (1000, 700, 560),
             vswitches=("openvswitch",)),
    _setting("device-mtu", "packet size", "the sender's MTU is lowered during the load", "ip link set mtu",
             _keep_mtu, ("small_mtu",), (1200, 800, 600), phase="load",
             vswitches=("openvswitch",)),
    _setting("black-hole-bridge", "packet size", "the bridge loses large packets without a word",
             "nft meta length > N drop in the bridge",
             commands(("sw", "nft add table bridge redteam"),
                      ("sw", "nft add chain bridge redteam c {{ type filter hook forward priority 0 ; }}"),
                      ("sw", "nft add rule bridge redteam c ip protocol tcp meta length > {v} drop")),
             ("mtu_black_hole",), (1480, 1300, 900), phase="load"),
    _setting("black-hole-router", "packet size", "the router has a small MTU and its ICMP is lost",
             "ip link set mtu on the router's port, iptables drops its ICMP",
             commands(("sw", "iptables -w -A OUTPUT -p icmp -j DROP"), ("sw", "ip link set b1 mtu {v}")),
             ("mtu_black_hole",), (1400, 1200, 800), vswitches=("router",), phase="load"),
)  # fmt: skip
