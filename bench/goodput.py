"""Goodput and cycles per byte of the agent beside iperf3: one run, interleaved, medians with their spread.

Every tool sends TCP (cubic) for the same time between the same two VMs on a bridge. Goodput is what arrived
over the whole time, nothing cut. Cycles are those of the whole host while the tool ran, by the same counters
for all. The best flags of iperf3 are the fastest in this very run, out of CANDIDATES.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import statistics
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vnetbench.agents.client import AgentClient
from vnetbench.campaign.trial import Load, measure
from vnetbench.estimate.location import estimate
from vnetbench.lab.bed import Bed, raise_bed, start_observer
from vnetbench.lab.description import Shape
from vnetbench.lab.privilege import enter_for_run
from vnetbench.study.factors import complete
from vnetbench.study.model import Level, TestbedAsked

CANDIDATES = ("-l 1M", "-l 128K -Z", "-l 1M -Z", "-l 1M -w 4M", "-l 256K")
CALIBRATION_ROUNDS = 3
PORT = 5201
OBSERVER_SLACK_S = 30.0


@dataclass(frozen=True)
class Figure:
    """One run of one tool."""

    goodput_bps: float
    cycles_per_byte: float


Runner = Callable[[int], Figure]
"""Runs a tool with a number of streams."""


@click.command()
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(5), help="Runs of each tool.")
@click.option("--seconds", default=2.0, show_default=True, help="Load of one run.")
@click.option("--streams", default="1,4", show_default=True, help="Numbers of streams.")
@click.option("--mtu", default=1500, show_default=True)
def main(rounds: int, seconds: float, streams: str, mtu: int) -> None:
    """The agent beside iperf3."""
    enter_for_run()
    levels = complete({"mtu": mtu})
    observer = start_observer("bench-goodput")
    bed = raise_bed("bench-goodput", Shape(), "make bench")
    try:
        bed.apply(levels, TestbedAsked(), frozenset(os.sched_getaffinity(0)))
        compare(bed, observer, levels, rounds, seconds, [int(n) for n in streams.split(",")])
    finally:
        bed.close()
        observer.close()


def compare(
    bed: Bed, observer: AgentClient, levels: dict[str, Level], rounds: int, seconds: float, streams: list[int]
) -> None:
    """Measure, and print a row for each tool and number of streams."""
    console = Console(highlight=False, width=max(100, Console().width))
    version = subprocess.run(["iperf3", "--version"], capture_output=True, text=True, check=True).stdout
    name = version.split(" (")[0].splitlines()[0]
    console.print(f"{name}, MTU {levels['mtu']}, {seconds:g} s a run, {rounds} runs each")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("Streams", "Tool", "Gbit/s", "× iperf3", "Cycles/byte"):
        table.add_column(name, justify="right" if name == "Streams" else "left", no_wrap=True)
    for count in streams:
        best = fastest_flags(bed, observer, seconds, count)
        tools: dict[str, Runner] = {
            "vnetbench": lambda n: run_agent(bed, observer, levels, seconds, n),
            "iperf3": lambda n: run_iperf3(bed, observer, "", seconds, n),
            f"iperf3 {best}": lambda n, flags=best: run_iperf3(bed, observer, flags, seconds, n),  # type: ignore[misc]
        }
        found: dict[str, list[Figure]] = {name: [] for name in tools}
        for _ in track(range(rounds), description=f"{count} streams", console=console, transient=True):
            for name in random.sample(list(tools), len(tools)):
                found[name].append(tools[name](count))
        fastest = list(found)[-1]
        for name, figures in found.items():
            table.add_row(str(count), name, *_row(figures, found[fastest], is_itself=name == fastest))
    console.print(table)
    console.print("Median (lowest to highest). × iperf3: to its best flags, round by round [95 % interval].")


def fastest_flags(bed: Bed, observer: AgentClient, seconds: float, streams: int) -> str:
    """The candidate with the highest median goodput, tried in turn."""
    found: dict[str, list[float]] = {flags: [] for flags in CANDIDATES}
    for _ in range(CALIBRATION_ROUNDS):
        for flags in CANDIDATES:
            found[flags].append(run_iperf3(bed, observer, flags, seconds / 2, streams).goodput_bps)
    return max(found, key=lambda flags: statistics.median(found[flags]))


def run_agent(
    bed: Bed, observer: AgentClient, levels: dict[str, Level], seconds: float, streams: int
) -> Figure:
    """One trial of the agent."""
    measured = measure(bed, observer, Load({**levels, "streams": streams}, seconds, 0.05))
    received = sum(side.bytes_received for side in measured.sides)
    (host,) = [side for side in measured.sides if side.role == "observe"]
    return Figure(8 * received / seconds, _cycles(host.totals) / received)


def run_iperf3(bed: Bed, observer: AgentClient, flags: str, seconds: float, streams: int) -> Figure:
    """One run of iperf3 with these flags."""
    source, sink = bed.testbed.endpoints
    server = subprocess.Popen(
        ["ip", "netns", "exec", sink.namespace, "iperf3", "-s", "-1", "-p", str(PORT), "--forceflush"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            pass
        observer.forget_events()
        observer.call("trial.prepare", trial="iperf3", workload="observe", streams=[], interval_s=0.05)
        observer.call("trial.start", trial="iperf3", duration_s=seconds + OBSERVER_SLACK_S)
        client = subprocess.run(
            ["ip", "netns", "exec", source.namespace, "iperf3", "-c", sink.address, "-p", str(PORT), "-J",
             "-C", "cubic", "-t", f"{seconds:g}", "-P", str(streams), *shlex.split(flags)],
            capture_output=True, text=True, timeout=seconds + OBSERVER_SLACK_S, check=False,
        )  # fmt: skip
        observer.call("trial.stop", trial="iperf3")
        server.wait(timeout=OBSERVER_SLACK_S)
    finally:
        server.kill()
        server.wait()
    answer = json.loads(client.stdout)
    if "error" in answer:
        raise SystemExit(f"iperf3 {flags}: {answer['error']}")
    received = answer["end"]["sum_received"]
    return Figure(received["bits_per_second"], _cycles(_end_of(observer)) / received["bytes"])


def _end_of(observer: AgentClient) -> dict[str, Any]:
    while True:
        method, params = observer.events.get(timeout=OBSERVER_SLACK_S)
        if method == "trial.end":
            return params


def _cycles(totals: Any) -> float:
    return float(totals["counters"]["cycles"])


def _row(figures: list[Figure], others: list[Figure], *, is_itself: bool) -> Iterable[str]:
    ratio = estimate([f.goodput_bps / o.goodput_bps for f, o in zip(figures, others, strict=True)], 0.95)
    yield _with_spread([f.goodput_bps / 1e9 for f in figures], 1)
    if is_itself:
        yield "1"
    elif ratio.low is None or ratio.high is None:
        yield f"{ratio.value:.2f}"
    else:
        yield f"{ratio.value:.2f} [{ratio.low:.2f} to {ratio.high:.2f}]"
    yield _with_spread([f.cycles_per_byte for f in figures], 2)


def _with_spread(values: list[float], decimals: int) -> str:
    low, middle, high = (f"{f(values):.{decimals}f}" for f in (min, statistics.median, max))
    return f"{middle} ({low} to {high})"


if __name__ == "__main__":
    main()
