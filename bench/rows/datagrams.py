"""UDP comparisons: datagrams of 64 bytes from an unpaced sender, and gaps of a paced sender."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from bench import agent, bare_streams
from bench.binaries import Binary
from bench.comparison import Aim, ComparisonSpec, Competitor, Measure, RunValues
from bench.loads import DatagramLoad, DatagramResult
from bench.packet_ring import open_packet_ring, select_steady_part
from bench.peers import DATAGRAM_RUNS, build_competitors
from bench.testbed import PeerTestbed, split_cpus

_BYTES = 64
_ARRIVED = Measure("k/s arrived", 0, aim=Aim(2.0))
_SENT = Measure("k/s sent", 0)
_GAP = Measure("sd of gaps µs", 2, higher_is_better=False, aim=Aim(0.5))
_RATE = Measure("k/s", 1)
_MAX_RATE_ERROR = 0.02
"""Relative error of the rate above which a tool is excluded, since its gaps belong to another rate."""
_BARE_LOOP_AIM = Aim(0.95)
_CPU_PER_DATAGRAM = "source: CPU ns each"
"""CPU time of the source's threads per datagram. It holds on a machine with other work too."""
_RING_SIZE_FACTOR = 1.5
"""Size of the packet ring relative to the packets of a run, since tools also send before and after it."""


def unpaced_datagrams(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare unpaced senders that send each datagram as a separate packet."""
    return _unpaced_spec(
        "udp", "each datagram a separate packet", testbed, binaries, DatagramLoad(_BYTES, seconds)
    )


def datagrams_and_bare_loop(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the unpaced sender of separate packets with a bare loop of the same calls."""
    testbed.assign_cpus(split_cpus(1))
    load = DatagramLoad(_BYTES, seconds)
    runs = {
        flags: partial(_run_bare_loop, run)
        for flags, run in bare_streams.datagram_runs(testbed, load).items()
    }
    ours = Competitor(
        agent.TOOL, {"": lambda: _rates_and_cpu_time(agent.run_datagrams(testbed, load, "off"))}, is_ours=True
    )
    competitors = (ours, Competitor(bare_streams.TOOL, runs))
    measures = (
        Measure(_SENT.name, 0, aim=_BARE_LOOP_AIM),
        Measure(_ARRIVED.name, 0, aim=_BARE_LOOP_AIM),
        Measure(_CPU_PER_DATAGRAM, 0, higher_is_better=False, aim=Aim(1 / _BARE_LOOP_AIM.limit)),
    )
    title = f"UDP, {_BYTES} B, one sender, compared with the bare loop"
    return ComparisonSpec("udp-bare", title, measures, competitors)


def segmented_datagrams(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare unpaced senders that may use GSO. The virtual switch forwards the large packets unchanged."""
    load = DatagramLoad(_BYTES, seconds, segments_allowed=True)
    return _unpaced_spec("udp-gso", "with GSO and GRO if the tool supports them", testbed, binaries, load)


def paced_datagrams(rate_per_s: int) -> Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]:
    """Return a function that makes the comparison of senders paced at this rate."""

    def make_spec(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
        testbed.assign_cpus(split_cpus(1))
        load = DatagramLoad(_BYTES, seconds, rate_per_s)
        peers = build_competitors(DATAGRAM_RUNS, testbed, binaries, load, _datagram_rates)
        return ComparisonSpec(
            f"pacing-{rate_per_s // 1000}k",
            f"UDP, {_BYTES} B, one sender paced at {rate_per_s // 1000} k/s",
            (_GAP, _RATE),
            tuple(
                Competitor(each.tool, _measure_gaps_of_runs(testbed, load, each.runs), each.is_ours)
                for each in (_our_competitor(testbed, load), *peers)
            ),
            lambda medians: _rate_exclusion(medians, rate_per_s),
        )

    return make_spec


def _unpaced_spec(
    name: str, mode: str, testbed: PeerTestbed, binaries: Sequence[Binary], load: DatagramLoad
) -> ComparisonSpec:
    testbed.assign_cpus(split_cpus(1))
    peers = build_competitors(DATAGRAM_RUNS, testbed, binaries, load, _datagram_rates)
    competitors = (_our_competitor(testbed, load), *peers)
    return ComparisonSpec(name, f"UDP, {_BYTES} B, one sender, {mode}", (_ARRIVED, _SENT), competitors)


def _our_competitor(testbed: PeerTestbed, load: DatagramLoad) -> Competitor:
    segmentation_levels = {"": "off"}
    if load.segments_allowed:
        segmentation_levels["udp_gso = on, udp_gro = on"] = "on"
    runs = {flags: partial(_run_ours, testbed, load, level) for flags, level in segmentation_levels.items()}
    return Competitor(agent.TOOL, runs, is_ours=True)


def _run_ours(testbed: PeerTestbed, load: DatagramLoad, segmentation: str) -> RunValues:
    return _datagram_rates(agent.run_datagrams(testbed, load, segmentation))


def _run_bare_loop(run: Callable[[], DatagramResult]) -> RunValues:
    return _rates_and_cpu_time(run())


def _rates_and_cpu_time(result: DatagramResult) -> RunValues:
    assert result.source_cpu_s is not None
    return {**_datagram_rates(result), _CPU_PER_DATAGRAM: 1e9 * result.source_cpu_s / result.sent}


def _datagram_rates(result: DatagramResult) -> RunValues:
    return {
        _ARRIVED.name: result.received / result.seconds / 1e3,
        _SENT.name: result.sent / result.seconds / 1e3,
    }


def _measure_gaps_of_runs(
    testbed: PeerTestbed, load: DatagramLoad, runs: Mapping[str, Callable[[], RunValues]]
) -> dict[str, Callable[[], RunValues]]:
    """Return the same runs with the values that the packet ring in the sink's VM measures."""
    return {flags: partial(_measure_gaps, testbed, load, run) for flags, run in runs.items()}


def _measure_gaps(testbed: PeerTestbed, load: DatagramLoad, run: Callable[[], RunValues]) -> RunValues:
    assert load.rate_per_s is not None
    max_datagrams = round(_RING_SIZE_FACTOR * load.rate_per_s * load.seconds)
    with open_packet_ring(testbed, load.size_bytes, max_datagrams) as ring:
        run()
        times_ns = select_steady_part(ring.arrivals_ns(), load.seconds)
    gaps_us = np.diff(times_ns) / 1e3
    return {_GAP.name: float(gaps_us.std()), _RATE.name: 1e3 / float(gaps_us.mean())}


def _rate_exclusion(medians: RunValues, rate_per_s: int) -> str | None:
    measured_per_s = 1e3 * medians[_RATE.name]
    if abs(measured_per_s / rate_per_s - 1) <= _MAX_RATE_ERROR:
        return None
    return "does not achieve the rate"
