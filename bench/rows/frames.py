"""Frames of 64 bytes between two ends of a veth: how many one core makes, how well paced, what gets lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench import agent, wire
from bench.binaries import Binary
from bench.comparison import Aim, Competitor, RunValues, Measure, ComparisonSpec
from bench.testbed import PeerTestbed
from bench.programs import RunFailed

_TRAFGEN = "trafgen"
_BARE = "bare loop"
_SHARE = 0.8
"""Of its own limit, at which the instrument must lose nothing."""
_LONG = 10
"""Runs of that row take so many times longer: in all rounds together they are to be a minute at least."""
_LATE = Measure("late p50 µs", 2, higher_is_better=False)
_LATE_P99 = Measure("late p99 µs", 1, higher_is_better=False)
_LATE_MAX = Measure("late max µs", 0, higher_is_better=False)
_BURST = Measure("mean burst", 2, higher_is_better=False)
_BURST_MAX = Measure("max burst", 0, higher_is_better=False)
_UNSENT = Measure("% not sent", 2, higher_is_better=False)
_LOST = Measure("frames lost", 0, higher_is_better=False, aim=Aim(0, is_relative=False))
_RATE = Measure("M/s", 3)


def beside_trafgen(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """One core, as fast as it goes, beside the packet generator of netsniff-ng."""
    made = Measure("M frames/s", 3, aim=Aim(8.0))
    entrants = [_fastest(agent.TOOL, made, {"": wire.generated}, seconds, is_ours=True)]
    if shutil.which(_TRAFGEN):
        flags = {
            f"{flags} ({first})".strip(): partial(wire.trafgen, flags, first)
            for flags in wire.TRAFGEN_FLAGS
            for first in wire.CLASSES
        }
        entrants.append(_fastest(_TRAFGEN, made, flags, seconds))
    return ComparisonSpec("frames", "Frames of 64 B, one core, no sink", (made,), tuple(entrants))


def beside_bare_loop(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """One core, as fast as it goes, beside a loop of live frames without number, time and counting."""
    made = Measure("M frames/s", 3, aim=Aim(0.9))
    entrants = (
        _fastest(agent.TOOL, made, {"": wire.generated}, seconds, is_ours=True),
        _fastest(_BARE, made, {first: partial(wire.bare_loop, first) for first in wire.CLASSES}, seconds),
    )
    return ComparisonSpec("frames-bare", "Frames of 64 B, one core, beside the bare loop", (made,), entrants)


def paced(per_s: int) -> Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]:
    """The row of one rate: each way of pacing, as the generator tells of itself."""

    def row(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
        ours = tuple(
            Competitor(f"{agent.TOOL}, {way}", {"": partial(_pace, per_s, way, seconds)}, is_ours=True)
            for way in ("program", "batches")
        )
        measures = (_LATE, _LATE_P99, _LATE_MAX, _BURST, _BURST_MAX, _UNSENT)
        return ComparisonSpec(
            f"frames-{_rate(per_s)}",
            f"Frames of 64 B, paced at {_rate(per_s)} frames/s",
            measures,
            ours,
        )

    return row


def own_loss(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """What generator and sink lose themselves, at 80 % of what both together can."""
    title = f"Frames of 64 B at {100 * _SHARE:.0f} % of the instrument's own limit, {_LONG * seconds} s a run"
    ours = Competitor(agent.TOOL, {"": partial(_lose, seconds)}, is_ours=True)
    return ComparisonSpec("frames-loss", title, (_LOST, _RATE, _UNSENT), (ours,))


def _fastest(
    tool: str,
    made: Measure,
    flags: Mapping[str, Callable[[float], float]],
    seconds: int,
    is_ours: bool = False,
) -> Competitor:
    def run(makes: Callable[[float], float]) -> RunValues:
        return {made.name: makes(seconds) / 1e6}

    return Competitor(tool, {flag: partial(run, makes) for flag, makes in flags.items()}, is_ours)


def _pace(per_s: int, way: str, seconds: int) -> RunValues:
    source, _ = wire.trial(seconds, frames_per_s=per_s, pacing=way)
    kept = _only_stream(source)["pacing"]
    return {
        _LATE.name: kept["late_p50_us"],
        _LATE_P99.name: kept["late_p99_us"],
        _LATE_MAX.name: kept["late_max_us"],
        _BURST.name: kept["burst_mean"],
        _BURST_MAX.name: kept["burst_max"],
        _UNSENT.name: 100 * kept["unsent"] / kept["due"],
    }


def _lose(seconds: int) -> RunValues:
    source, _ = wire.trial(seconds)
    limit = _only_stream(source)["frames_sent"] / source["duration_s"]
    source, sink = wire.trial(_LONG * seconds, frames_per_s=_SHARE * limit)
    kept = _only_stream(source)["pacing"]
    sent, came = _only_stream(source)["frames_sent"], _only_stream(sink)["frames_received"]
    return {
        _LOST.name: sent - came,
        _RATE.name: sent / source["duration_s"] / 1e6,
        _UNSENT.name: 100 * kept["unsent"] / kept["due"],
    }


def _only_stream(end: Mapping[str, Any]) -> Mapping[str, Any]:
    if end["reason"] != "done":
        raise RunFailed(str(end["fault"]))
    stream: Mapping[str, Any] = end["streams"][0]
    return stream


def _rate(per_s: int) -> str:
    return f"{per_s // 1_000_000}M" if per_s >= 1_000_000 else f"{per_s // 1000}k"
