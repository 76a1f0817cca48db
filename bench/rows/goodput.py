"""Comparisons of TCP goodput and of the host's CPU cycles per byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench import agent, bare_streams
from bench.binaries import Binary
from bench.comparison import Aim, ComparisonSpec, Competitor, Measure, RunValues
from bench.loads import StreamLoad, StreamResult
from bench.peers import STREAM_RUNS, build_competitors
from bench.testbed import PeerTestbed, split_cpus
from vnetbench.study.model import Level

LevelSets = Mapping[str, Mapping[str, Level]]
"""Levels of our own runs, by the text that tables show."""
_STREAM_LEVELS: LevelSets = {
    "message_size = 1 MiB": {"message_size": 1 << 20},
    "message_size = 4 MiB": {"message_size": 4 << 20},
    "message_size = 1 MiB, socket_buffer = 4 MiB": {"message_size": 1 << 20, "socket_buffer": 4 << 20},
}
_SEND_MODE_LEVELS: LevelSets = {
    f"send_mode = {mode}, message_size = {text}": {"send_mode": mode, "message_size": size}
    for mode in ("sendfile", "splice")
    for text, size in (("128 KiB", 128 << 10), ("1 MiB", 1 << 20))
}
"""Modes without a copy at the source, which peers may choose too (iperf3 -Z, xfr)."""
_MESSAGE_LEVELS: LevelSets = {"": {}, "socket_buffer = 4 MiB": {"socket_buffer": 4 << 20}}
_BATCH_LEVELS: LevelSets = {
    f"send_mode = {mode}, send_batch = {batch}": {"send_mode": mode, "send_batch": batch}
    for mode in ("io_uring", "io_uring_zerocopy")
    for batch in (16, 64, 256)
}
_MESSAGE_BYTES = 64
_BARE_LOOP_AIM = Aim(0.95)
_CPU_PER_BYTE = Measure("CPU ns/kB", 1, higher_is_better=False, aim=Aim(1 / _BARE_LOOP_AIM.limit))
"""CPU time of the load's threads at both endpoints. It holds on a machine with other work too."""
_MESSAGES = Measure("million messages/s", 2, aim=Aim(1.2))


def one_stream(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare one stream with one CPU for each endpoint."""
    testbed.assign_cpus(split_cpus(1))
    return _goodput_spec("goodput-1", testbed, binaries, StreamLoad(1, seconds), Aim(1.3), None)


def four_streams(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare four streams with half of the CPUs, at most four, for each endpoint."""
    testbed.assign_cpus(split_cpus(4))
    return _goodput_spec("goodput-4", testbed, binaries, StreamLoad(4, seconds), Aim(1.7), Aim(0.6))


def stream_and_bare_loop(
    count: int,
) -> Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]:
    """Return a function that makes the comparison of so many streams with a bare loop (`bare_streams`)."""

    def make_spec(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
        testbed.assign_cpus(split_cpus(min(count, 4)))
        load = StreamLoad(count, seconds)
        measures = (Measure("Gbit/s", 1, aim=_BARE_LOOP_AIM), _CPU_PER_BYTE)
        competitors = (
            _our_competitor(testbed, load, _STREAM_LEVELS, _goodput_and_cpu_time),
            _bare_loop(testbed, load, _goodput_and_cpu_time),
        )
        title = f"TCP goodput, {_format_streams(count)}, compared with the bare loop"
        return ComparisonSpec(f"goodput-{count}-bare", title, measures, competitors)

    return make_spec


def messages_and_bare_loop(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare messages of 64 bytes over one stream with a bare loop of the same calls."""
    testbed.assign_cpus(split_cpus(1))
    load = StreamLoad(1, seconds, _MESSAGE_BYTES)
    competitors = (
        _our_competitor(testbed, load, {"": {}}, _message_rate_and_cpu_time),
        _bare_loop(testbed, load, _message_rate_and_cpu_time),
    )
    measures = (Measure(_MESSAGES.name, _MESSAGES.decimals, aim=_BARE_LOOP_AIM), _CPU_PER_BYTE)
    title = "64-byte TCP messages, 1 stream, compared with the bare loop"
    return ComparisonSpec("messages-bare", title, measures, competitors)


def small_messages(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare messages of 64 bytes over one stream, with one call per message."""
    testbed.assign_cpus(split_cpus(1))
    load = StreamLoad(1, seconds, _MESSAGE_BYTES)
    ours = _our_competitor(testbed, load, _MESSAGE_LEVELS, _message_rate)
    peers = build_competitors(STREAM_RUNS, testbed, binaries, load, _message_rate)
    title = "64-byte TCP messages, 1 stream, one call per message"
    return ComparisonSpec("messages", title, (_MESSAGES,), (ours, *peers))


def batched_messages(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
    """Compare many messages per call with one message per call. No peer supports batches."""
    testbed.assign_cpus(split_cpus(1))
    load = StreamLoad(1, seconds, _MESSAGE_BYTES)
    competitors = (
        _our_competitor(testbed, load, _MESSAGE_LEVELS, _message_rate),
        _our_competitor(testbed, load, _BATCH_LEVELS, _message_rate, f"{agent.TOOL}, batched"),
    )
    measure = Measure(_MESSAGES.name, _MESSAGES.decimals)
    title = "64-byte TCP messages, 1 stream, many messages per call"
    return ComparisonSpec("messages-batched", title, (measure,), competitors)


def _goodput_spec(
    name: str,
    testbed: PeerTestbed,
    binaries: Sequence[Binary],
    load: StreamLoad,
    goodput_aim: Aim,
    cycles_aim: Aim | None,
) -> ComparisonSpec:
    measures = (
        Measure("Gbit/s", 1, aim=goodput_aim),
        Measure("cycles/byte", 2, higher_is_better=False, aim=cycles_aim),
    )
    ours = _our_competitor(testbed, load, {**_STREAM_LEVELS, **_SEND_MODE_LEVELS}, _goodput_and_cycles)
    peers = build_competitors(STREAM_RUNS, testbed, binaries, load, _goodput_and_cycles)
    return ComparisonSpec(name, f"TCP goodput, {_format_streams(load.count)}", measures, (ours, *peers))


def _format_streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"


def _bare_loop(
    testbed: PeerTestbed, load: StreamLoad, to_values: Callable[[StreamResult], RunValues]
) -> Competitor:
    runs = bare_streams.stream_runs(testbed, load)
    return Competitor(bare_streams.TOOL, {flags: _convert(run, to_values) for flags, run in runs.items()})


def _convert(
    run: Callable[[], StreamResult], to_values: Callable[[StreamResult], RunValues]
) -> Callable[[], RunValues]:
    return lambda: to_values(run())


def _our_competitor(
    testbed: PeerTestbed,
    load: StreamLoad,
    level_sets: LevelSets,
    to_values: Callable[[StreamResult], RunValues],
    tool: str = agent.TOOL,
) -> Competitor:
    def run(levels: Mapping[str, Level]) -> RunValues:
        return to_values(agent.run_streams(testbed, load, levels))

    runs = {text: partial(run, levels) for text, levels in level_sets.items()}
    return Competitor(tool, runs, is_ours=True)


def _goodput_and_cycles(result: StreamResult) -> RunValues:
    return {
        "Gbit/s": 8 * result.bytes_received / result.seconds / 1e9,
        "cycles/byte": result.counters.cycles / result.bytes_received,
    }


def _message_rate(result: StreamResult) -> RunValues:
    return {_MESSAGES.name: result.bytes_received / _MESSAGE_BYTES / result.seconds / 1e6}


def _goodput_and_cpu_time(result: StreamResult) -> RunValues:
    return {**_goodput_and_cycles(result), **_cpu_time(result)}


def _message_rate_and_cpu_time(result: StreamResult) -> RunValues:
    return {**_message_rate(result), **_cpu_time(result)}


def _cpu_time(result: StreamResult) -> RunValues:
    assert result.cpu_s is not None
    return {_CPU_PER_BYTE.name: 1e12 * result.cpu_s / result.counters.tcp_payload_bytes}
