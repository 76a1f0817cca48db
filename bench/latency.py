"""Latency of an answer, the agent beside sockperf: one run, interleaved, medians with their spread.

Both ask over TCP without Nagle's algorithm, one connection, a closed loop, between the same two VMs on a
bridge, for the same time, with messages of the same size (sockperf's smallest is 14 bytes). Each way of
waiting is both sides': `block` in the kernel, `spin` asking again and again (sockperf's `--nonblocked
--timeout 0`). Round trips; what comes in the first 400 ms is left out, as sockperf does by itself.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import subprocess
import time
from dataclasses import dataclass

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vnetbench.agents.client import AgentClient
from vnetbench.campaign.trial import Load, measure
from vnetbench.estimate.latency import merged, percentile_us
from vnetbench.estimate.location import estimate
from vnetbench.lab.bed import Bed, raise_bed, start_observer
from vnetbench.lab.description import Shape
from vnetbench.lab.privilege import enter_for_run
from vnetbench.study.factors import complete
from vnetbench.study.model import Level, TestbedAsked
from vnetbench.study.workloads import REQUESTS

PORT = 11111
SOCKPERF_FLAGS = {"block": (), "spin": ("--nonblocked", "--timeout", "0")}
SLACK_S = 30.0
WARMUP_S = 0.4


@dataclass(frozen=True)
class Figure:
    """One run of one tool: round trips in µs."""

    p50: float
    p99: float


@click.command()
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(5), help="Runs of each tool.")
@click.option("--seconds", default=2.0, show_default=True, help="Load of one run.")
@click.option("--size", default=14, show_default=True, type=click.IntRange(14), help="Bytes each way.")
@click.option("--cpus", default="", help="CPUs of the VMs as the factor `cpus` has it, such as 0/1.")
def main(rounds: int, seconds: float, size: int, cpus: str) -> None:
    """The agent beside sockperf."""
    enter_for_run()
    placed: dict[str, Level] = {"cpus": cpus} if cpus else {}
    levels = complete({"request_size": size, "response_size": size, **placed}, REQUESTS)
    observer = start_observer("bench-latency")
    bed = raise_bed("bench-latency", Shape(), "make bench")
    try:
        bed.apply(levels, TestbedAsked(), frozenset(os.sched_getaffinity(0)))
        compare(bed, observer, levels, rounds, seconds)
    finally:
        bed.close()
        observer.close()


def compare(bed: Bed, observer: AgentClient, levels: dict[str, Level], rounds: int, seconds: float) -> None:
    """Measure, and print a row for each tool and way of waiting."""
    console = Console(highlight=False, width=max(110, Console().width))
    console.print(
        f"beside sockperf, {levels['request_size']} B each way, {seconds:g} s a run, {rounds} runs each"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("Waiting", "Tool", "p50 µs", "p99 µs", "p50 × sockperf", "p99 × sockperf"):
        table.add_column(name, no_wrap=True)
    found: dict[tuple[str, str], list[Figure]] = {
        (waiting, tool): [] for waiting in SOCKPERF_FLAGS for tool in ("vnetbench", "sockperf")
    }
    for _ in track(range(rounds), description="rounds", console=console, transient=True):
        for waiting, tool in random.sample(list(found), len(found)):
            run = run_agent if tool == "vnetbench" else run_sockperf
            found[waiting, tool].append(run(bed, observer, {**levels, "waiting": waiting}, seconds))
    for (waiting, tool), figures in found.items():
        p50, p99 = [f.p50 for f in figures], [f.p99 for f in figures]
        cells = [_with_spread(p50), _with_spread(p99)]
        if tool == "vnetbench":
            others = found[waiting, "sockperf"]
            cells += [_ratio(p50, [f.p50 for f in others]), _ratio(p99, [f.p99 for f in others])]
        table.add_row(waiting, tool, *cells)
    console.print(table)
    console.print("Median (lowest to highest). × sockperf: round by round [95 % interval].")


def run_agent(bed: Bed, observer: AgentClient, levels: dict[str, Level], seconds: float) -> Figure:
    """One trial of the agent."""
    measured = measure(bed, observer, Load(levels, seconds + WARMUP_S, 0.05, REQUESTS))
    (source,) = [side for side in measured.sides if side.role == "source"]
    latency = merged(x.histograms["latency"] for x in source.samples if x.t_s > WARMUP_S)
    p50, p99 = percentile_us(latency, 0.5), percentile_us(latency, 0.99)
    if p50 is None or p99 is None:
        raise SystemExit("the agent had too few answers")
    return Figure(p50, p99)


def run_sockperf(bed: Bed, observer: AgentClient, levels: dict[str, Level], seconds: float) -> Figure:
    """One run of sockperf ping-pong."""
    source, sink = bed.testbed.endpoints
    common = ["-i", sink.address, "-p", str(PORT), "--tcp", *SOCKPERF_FLAGS[str(levels["waiting"])]]
    placed = str(levels.get("cpus", "")).split("/")
    server = subprocess.Popen(
        [*_inside(sink.namespace, placed[-1]), "sockperf", "server", *common],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for_port(sink.namespace, server)
        client = subprocess.run(
            [*_inside(source.namespace, placed[0]), "sockperf", "ping-pong", *common, "--full-rtt",
             "-t", f"{max(1, round(seconds))}", "-m", str(levels["request_size"])],
            capture_output=True, text=True, timeout=seconds + SLACK_S, check=False,
        )  # fmt: skip
    finally:
        server.kill()
        server.wait()
    told = re.sub(r"\x1b\[[0-9;]*m", "", client.stdout)
    found = dict(re.findall(r"percentile (\d+\.\d+) =\s*([0-9.]+)", told))
    if "50.000" not in found or "99.000" not in found:
        raise SystemExit(f"sockperf: {told[-400:]}{client.stderr[-400:]}")
    return Figure(float(found["50.000"]), float(found["99.000"]))


def _inside(namespace: str, cpus: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *(("taskset", "-c", cpus) if cpus else ())]


def _wait_for_port(namespace: str, server: subprocess.Popen[bytes]) -> None:
    """Until the server listens: its output says so only after it does."""
    until = time.monotonic() + SLACK_S
    listening = ["ip", "netns", "exec", namespace, "ss", "-Hltn", f"sport = :{PORT}"]
    while not subprocess.run(listening, capture_output=True, text=True, check=True).stdout.strip():
        if server.poll() is not None or time.monotonic() > until:
            raise SystemExit("the sockperf server does not listen")
        time.sleep(0.02)


def _ratio(ours: list[float], theirs: list[float]) -> str:
    ratio = estimate([a / b for a, b in zip(ours, theirs, strict=True)], 0.95)
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} [{ratio.low:.2f} to {ratio.high:.2f}]"


def _with_spread(values: list[float]) -> str:
    low, middle, high = (f"{f(values):.1f}" for f in (min, statistics.median, max))
    return f"{middle} ({low} to {high})"


if __name__ == "__main__":
    main()
