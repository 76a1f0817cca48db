"""Frame comparisons on a veth pair with 64-byte frames: rate of one CPU, pacing errors and own loss."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench import agent, veth_testbed
from bench.binaries import Binary
from bench.comparison import Aim, ComparisonSpec, Competitor, Measure, RunValues
from bench.programs import RunFailed
from bench.testbed import PeerTestbed

_TRAFGEN = "trafgen"
_BARE_LOOP = "bare loop"
_LOAD_SHARE = 0.8
"""Share of the instrument's own limit at which it must lose no frame."""
_DURATION_FACTOR = 10
"""Factor for the run time of the loss comparison, whose rounds must take at least a minute in total."""
_LATE = Measure("late p50 µs", 2, higher_is_better=False)
_LATE_P99 = Measure("late p99 µs", 1, higher_is_better=False)
_LATE_MAX = Measure("late max µs", 0, higher_is_better=False)
_BURST = Measure("mean burst", 2, higher_is_better=False)
_BURST_MAX = Measure("max burst", 0, higher_is_better=False)
_UNSENT = Measure("% not sent", 2, higher_is_better=False)
_LOST = Measure("frames lost", 0, higher_is_better=False, aim=Aim(0, is_relative=False))
_RATE = Measure("M/s", 3)


def generator_and_trafgen(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the unpaced generator on one CPU with trafgen, the packet generator of netsniff-ng."""
    rate = Measure("M frames/s", 3, aim=Aim(8.0))
    generator = {"": veth_testbed.measure_generator}
    competitors = [_unpaced_competitor(agent.TOOL, rate, generator, seconds, is_ours=True)]
    if shutil.which(_TRAFGEN):
        trafgen_runs = {
            f"{flags} ({priority})".strip(): partial(veth_testbed.measure_trafgen, flags, priority)
            for flags in veth_testbed.TRAFGEN_FLAGS
            for priority in veth_testbed.PRIORITIES
        }
        competitors.append(_unpaced_competitor(_TRAFGEN, rate, trafgen_runs, seconds))
    return ComparisonSpec("frames", "Frames of 64 B, one CPU, no sink", (rate,), tuple(competitors))


def generator_and_bare_loop(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare the unpaced generator on one CPU with a bare loop of live frames (`live_frames`)."""
    rate = Measure("M frames/s", 3, aim=Aim(0.9))
    generator = {"": veth_testbed.measure_generator}
    bare_loops = {
        priority: partial(veth_testbed.measure_bare_loop, priority) for priority in veth_testbed.PRIORITIES
    }
    competitors = (
        _unpaced_competitor(agent.TOOL, rate, generator, seconds, is_ours=True),
        _unpaced_competitor(_BARE_LOOP, rate, bare_loops, seconds),
    )
    title = "Frames of 64 B, one CPU, compared with the bare loop"
    return ComparisonSpec("frames-bare", title, (rate,), competitors)


def paced_frames(rate_per_s: int) -> Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]:
    """Return a function that makes the comparison of pacing methods at this rate."""

    def make_spec(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
        ours = tuple(
            Competitor(
                f"{agent.TOOL}, {pacing}",
                {"": partial(_measure_pacing, rate_per_s, pacing, seconds)},
                is_ours=True,
            )
            for pacing in ("program", "batches")
        )
        measures = (_LATE, _LATE_P99, _LATE_MAX, _BURST, _BURST_MAX, _UNSENT)
        return ComparisonSpec(
            f"frames-{_format_rate(rate_per_s)}",
            f"Frames of 64 B, paced at {_format_rate(rate_per_s)} frames/s",
            measures,
            ours,
        )

    return make_spec


def instrument_loss(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Measure the loss of generator and sink at 80 % of their common limit."""
    load = f"{100 * _LOAD_SHARE:.0f} % of the instrument's own limit"
    title = f"Frames of 64 B at {load}, {_DURATION_FACTOR * seconds} s per run"
    ours = Competitor(agent.TOOL, {"": partial(_measure_loss, seconds)}, is_ours=True)
    return ComparisonSpec("frames-loss", title, (_LOST, _RATE, _UNSENT), (ours,))


def _unpaced_competitor(
    tool: str,
    rate: Measure,
    generators: Mapping[str, Callable[[float], float]],
    seconds: int,
    is_ours: bool = False,
) -> Competitor:
    """Return a competitor for functions that take seconds and return frames/s, by flags."""

    def run(measure_frames_per_s: Callable[[float], float]) -> RunValues:
        return {rate.name: measure_frames_per_s(seconds) / 1e6}

    runs = {flags: partial(run, generator) for flags, generator in generators.items()}
    return Competitor(tool, runs, is_ours)


def _measure_pacing(rate_per_s: int, pacing: str, seconds: int) -> RunValues:
    source, _ = veth_testbed.run_frame_trial(seconds, frames_per_s=rate_per_s, pacing=pacing)
    errors = _first_stream(source)["pacing"]
    return {
        _LATE.name: errors["lateness_p50_us"],
        _LATE_P99.name: errors["lateness_p99_us"],
        _LATE_MAX.name: errors["lateness_max_us"],
        _BURST.name: errors["burst_mean"],
        _BURST_MAX.name: errors["burst_max"],
        _UNSENT.name: 100 * errors["unsent"] / errors["due"],
    }


def _measure_loss(seconds: int) -> RunValues:
    source, _ = veth_testbed.run_frame_trial(seconds)
    limit_per_s = _first_stream(source)["frames_sent"] / source["duration_s"]
    source, sink = veth_testbed.run_frame_trial(
        _DURATION_FACTOR * seconds, frames_per_s=_LOAD_SHARE * limit_per_s
    )
    pacing = _first_stream(source)["pacing"]
    sent, received = _first_stream(source)["frames_sent"], _first_stream(sink)["frames_received"]
    return {
        _LOST.name: sent - received,
        _RATE.name: sent / source["duration_s"] / 1e6,
        _UNSENT.name: 100 * pacing["unsent"] / pacing["due"],
    }


def _first_stream(report: Mapping[str, Any]) -> Mapping[str, Any]:
    if report["reason"] != "done":
        raise RunFailed(str(report["fault"]))
    stream: Mapping[str, Any] = report["streams"][0]
    return stream


def _format_rate(rate_per_s: int) -> str:
    return f"{rate_per_s // 1_000_000}M" if rate_per_s >= 1_000_000 else f"{rate_per_s // 1000}k"
