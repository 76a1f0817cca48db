"""Further VMs on the testbed's bridge: their namespaces, ports and traffic."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.model import Inject, Value
from bench.redteam.target import Target

PREFIX = "redteam-"


def add(target: Target, stack: ExitStack, name: str, address: str, bridge: str = "sw0") -> None:
    """Add a VM with an address such as `10.77.200.1/16` to the bridge; it ends with the injection."""
    namespace = f"{PREFIX}{name}"
    target.run("host", f"ip netns add {namespace}")
    stack.callback(target.run, "host", f"ip netns delete {namespace}")
    target.namespaces[name] = namespace
    stack.callback(target.namespaces.pop, name)
    target.run("sw", f"ip link add {name} type veth peer name eth0 netns {namespace}")
    if bridge:
        target.run("sw", f"ip link set {name} master {bridge}")
    target.run("sw", f"ip link set {name} up")
    target.run(name, f"ip address add {address} dev eth0")
    target.run(name, "ip link set eth0 up")


def bulk_pair() -> Inject:
    """Return an injection of two VMs with bulk TCP between them, with as many flows as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        add(target, stack, "vm1", "10.77.200.1/16")
        add(target, stack, "vm2", "10.77.200.2/16")
        target.spawn(stack, "vm2", "iperf3 -s")
        client = f"sh -c 'while :; do iperf3 -c 10.77.200.2 -P {value} -t 600; sleep 0.02; done'"
        target.spawn(stack, "vm1", client)

    return inject


def datagrams_to_receiver(size: int) -> Inject:
    """Return an injection of a VM that sends datagrams at the intensity's bits per second to the receiver."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        add(target, stack, "vm1", "10.77.200.1/16")
        target.program(stack, "b1", "sink 39999")
        target.program(stack, "vm1", f"udp {target.address('b1')} 39999 {value} {size}")

    return inject


def broadcasts(size: int) -> Inject:
    """Return an injection of a VM that sends broadcast frames, as many each second as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        add(target, stack, "vm1", "10.77.200.1/16")
        target.run("vm1", "ip neigh add 10.77.250.250 lladdr ff:ff:ff:ff:ff:ff dev eth0")
        target.program(stack, "vm1", f"udp 10.77.250.250 9 {float(value) * size * 8} {size}")

    return inject


def same_address() -> Inject:
    """Return an injection of a VM that has the receiver's address, and announces it again and again."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        add(target, stack, "vm1", "10.77.200.1/16")
        target.run("vm1", "sysctl -qw net.ipv4.conf.eth0.arp_notify=1")
        target.run("vm1", f"ip address add {target.address('b1')}/16 dev eth0")
        loop = f"while :; do ip link set eth0 down; ip link set eth0 up; sleep {value}; done"
        target.spawn(stack, "vm1", f"sh -c '{loop}'")

    return inject


def mirrors() -> Inject:
    """Return an injection that mirrors the sender's frames to monitors, as many as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        actions = []
        for number in range(int(value)):
            name = f"span{number}"
            add(target, stack, name, "192.0.2.1/32", bridge="")
            target.spawn(stack, name, "tcpdump -n -i eth0 -s 0 -Z root -w /dev/null")
            actions.append(f"action mirred egress mirror dev {name}")
        target.run("sw", "tc qdisc add dev a1 clsact")
        words = "tc filter add dev a1 ingress protocol all u32 match u32 0 0"
        target.run("sw", f"{words} {' pipe '.join(actions)}")

    return inject
