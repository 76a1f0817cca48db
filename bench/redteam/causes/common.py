"""Parts of injections that several families share."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.model import Inject, Value
from bench.redteam.target import Target

CPU_TAKEN = ("other_programs", "machine_busy", "shared_by_vms")
FILTERING = ("packet_filtering",)
CAPTURE = ("packet_capture", *CPU_TAKEN)
SINK_PORT = 39999


def commands(*lines: tuple[str, str]) -> Inject:
    """Return an injection that runs commands, each with the endpoint that it runs on.

    `{v}` in a line is the intensity's value; `{a1}` and `{b1}` are the addresses of the VMs; `{cpu}` is the
    first CPU of the shape. A line with the endpoint `ports` runs on the switch's ports (`{port}`).
    Everything is inside the testbed's namespaces and ends with them.
    """

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        words = {"v": value, "cpu": target.cpus[0]}
        for where, line in lines:
            if "{a1}" in line or "{b1}" in line:
                words |= {"a1": target.address("a1"), "b1": target.address("b1")}
            target.run(where, line.format(**words))

    return inject


def programs(where: str, words: str, count: int | None = None) -> Inject:
    """Return an injection that starts helper programs: `count` of them, or as many as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for _ in range(count or int(value)):
            target.program(stack, where, words.format(v=value, cpu=target.cpus[0]))

    return inject


def tcp_competitors(source: str, sink: str) -> Inject:
    """Return an injection of competing TCP flows, as many as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        target.program(stack, sink, f"sink {SINK_PORT}")
        target.program(stack, source, f"tcp {target.address(sink)} {SINK_PORT} {value}")

    return inject


def udp_competitor(source: str, sink: str) -> Inject:
    """Return an injection of a competing UDP flow at the intensity's bits per second."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        target.program(stack, sink, f"sink {SINK_PORT}")
        target.program(stack, source, f"udp {target.address(sink)} {SINK_PORT} {value} 1400")

    return inject


def rules(where: str, chain: str, tables: str = "filter") -> Inject:
    """Return an injection of as many iptables rules that match nothing as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        lines = [f"*{tables}"]
        for number in range(int(value)):
            source = f"198.18.{number >> 8 & 255}.{number & 255}/32"
            lines.append(f"-A {chain} -s {source} -p tcp --dport {number % 65535} -j DROP")
        target.run(where, "iptables-restore --noflush", stdin="\n".join([*lines, "COMMIT", ""]))

    return inject
