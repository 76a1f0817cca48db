"""The comparisons, one module per type of load, by name and in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.binaries import Binary
from bench.comparison import ComparisonSpec
from bench.rows import analysis, datagrams, frames, goodput, guests, importing, latency, own_cost, tool_import
from bench.testbed import PeerTestbed

ROWS: Mapping[str, Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]] = {
    "goodput-1": goodput.one_stream,
    "goodput-4": goodput.four_streams,
    "messages": goodput.small_messages,
    "goodput-1-bare": goodput.stream_and_bare_loop(1),
    "goodput-4-bare": goodput.stream_and_bare_loop(4),
    "messages-bare": goodput.messages_and_bare_loop,
    "messages-batched": goodput.batched_messages,
    "rr-block": latency.blocking_requests,
    "rr-block-1": latency.one_byte_requests,
    "rr-spin": latency.spinning_requests,
    "rr-busy-poll": latency.busy_polling_requests,
    "udp": datagrams.unpaced_datagrams,
    "udp-bare": datagrams.datagrams_and_bare_loop,
    "udp-gso": datagrams.segmented_datagrams,
    "pacing-100k": datagrams.paced_datagrams(100_000),
    "pacing-500k": datagrams.paced_datagrams(500_000),
    "own-cost-50ms": own_cost.agent_cpu_cost(interval_ms=50),
    "own-cost-100ms": own_cost.agent_cpu_cost(interval_ms=100),
    "own-cost-10ms": own_cost.agent_cpu_cost(interval_ms=10),
    "frames": frames.generator_and_trafgen,
    "frames-bare": frames.generator_and_bare_loop,
    "frames-10k": frames.paced_frames(10_000),
    "frames-100k": frames.paced_frames(100_000),
    "frames-1M": frames.paced_frames(1_000_000),
    "frames-loss": frames.instrument_loss,
    "guest-start": guests.guest_start,
    "import": importing.log_import,
    "import-tools": tool_import.tool_import,
    "import-long": tool_import.long_import,
    "import-1000": tool_import.thousand_logs,
    "explain": analysis.campaign_analysis,
}
