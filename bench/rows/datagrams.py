"""UDP: datagrams of 64 bytes as fast as one sender can, and how evenly a paced sender spaces them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, Competitor, RunValues, Measure, ComparisonSpec
from bench.gaps import in_steady_part, listening
from bench.testbed import PeerTestbed, split_cpus
from bench.load import Datagrams, Delivered
from bench.peers import DATAGRAMS, entrants

_BYTES = 64
_ARRIVED = Measure("k/s arrived", 0, aim=Aim(2.0))
_SENT = Measure("k/s sent", 0)
_GAP = Measure("sd of gaps µs", 2, higher_is_better=False, aim=Aim(0.5))
_RATE = Measure("k/s", 1)
_RATE_KEPT = 0.02
"""A tool whose rate is further from what was asked is out: its gaps are those of another rate."""
_ROOM = 1.5
"""The ring of arrivals holds so many times the packets of a run, for what tools send before and after."""


def fastest(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Every datagram a packet of its own."""
    return _fastest("udp", "each a packet of its own", ground, binaries, Datagrams(_BYTES, seconds))


def fastest_at_best(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Many handed over as one large packet by the tools that can; the virtual switch forwards it whole."""
    load = Datagrams(_BYTES, seconds, segments_allowed=True)
    return _fastest("udp-gso", "with GSO and GRO where the tool has them", ground, binaries, load)


def paced(rate_per_s: int) -> Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]:
    """The row of one rate."""

    def row(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
        ground.assign_cpus(split_cpus(1))
        load = Datagrams(_BYTES, seconds, rate_per_s)
        found = [_ours(ground, load), *entrants(DATAGRAMS, ground, binaries, load, _delivered)]
        return ComparisonSpec(
            f"pacing-{rate_per_s // 1000}k",
            f"UDP, {_BYTES} B, one sender paced at {rate_per_s // 1000} k/s",
            (_GAP, _RATE),
            tuple(Competitor(e.tool, _heard(ground, load, e.runs), e.is_ours) for e in found),
            lambda medians: _off(medians, rate_per_s),
        )

    return row


def _fastest(name: str, how: str, ground: PeerTestbed, binaries: Sequence[Binary], load: Datagrams) -> ComparisonSpec:
    ground.assign_cpus(split_cpus(1))
    peers = entrants(DATAGRAMS, ground, binaries, load, _delivered)
    return ComparisonSpec(name, f"UDP, {_BYTES} B, one sender, {how}", (_ARRIVED, _SENT), (_ours(ground, load), *peers))


def _ours(ground: PeerTestbed, load: Datagrams) -> Competitor:
    ways = {"": "off", "udp_gso = on, udp_gro = on": "on"} if load.segments_allowed else {"": "off"}
    runs = {way: partial(_run_ours, ground, load, segmented) for way, segmented in ways.items()}
    return Competitor(agent.TOOL, runs, is_ours=True)


def _run_ours(ground: PeerTestbed, load: Datagrams, segmented: str) -> RunValues:
    return _delivered(agent.datagrams(ground, load, segmented))


def _delivered(delivered: Delivered) -> RunValues:
    return {
        _ARRIVED.name: delivered.taken / delivered.seconds / 1e3,
        _SENT.name: delivered.sent / delivered.seconds / 1e3,
    }


def _heard(
    ground: PeerTestbed, load: Datagrams, runs: Mapping[str, Callable[[], RunValues]]
) -> dict[str, Callable[[], RunValues]]:
    """The same runs, told by what the instrument in the sink's VM heard of them."""
    return {flags: partial(_gaps, ground, load, run) for flags, run in runs.items()}


def _gaps(ground: PeerTestbed, load: Datagrams, run: Callable[[], RunValues]) -> RunValues:
    assert load.rate_per_s is not None
    with listening(ground, load.size_bytes, round(_ROOM * load.rate_per_s * load.seconds)) as ring:
        run()
        times_ns = in_steady_part(ring.arrivals_ns(), load.seconds)
    gaps_us = np.diff(times_ns) / 1e3
    return {_GAP.name: float(gaps_us.std()), _RATE.name: 1e3 / float(gaps_us.mean())}


def _off(medians: RunValues, rate_per_s: int) -> str | None:
    rate = 1e3 * medians[_RATE.name]
    return None if abs(rate / rate_per_s - 1) <= _RATE_KEPT else "does not keep the rate"
