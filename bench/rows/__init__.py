"""What is compared, one file a kind of load: every row by its name, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.binaries import Binary
from bench.comparison import ComparisonSpec
from bench.testbed import PeerTestbed
from bench.rows import datagrams, explaining, frames, goodput, guests, importing, latency, own_cost

ROWS: Mapping[str, Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]] = {
    "goodput-1": goodput.one_stream,
    "goodput-4": goodput.four_streams,
    "messages": goodput.small_messages,
    "messages-batched": goodput.batched_messages,
    "rr-block": latency.blocking,
    "rr-block-1": latency.blocking_one_byte,
    "rr-spin": latency.spinning,
    "rr-busy-poll": latency.busy_polling,
    "udp": datagrams.fastest,
    "udp-gso": datagrams.fastest_at_best,
    "pacing-100k": datagrams.paced(100_000),
    "pacing-500k": datagrams.paced(500_000),
    "own-cost-100ms": own_cost.sampled_every(100),
    "own-cost-10ms": own_cost.sampled_every(10),
    "frames": frames.beside_trafgen,
    "frames-bare": frames.beside_bare_loop,
    "frames-10k": frames.paced(10_000),
    "frames-100k": frames.paced(100_000),
    "frames-1M": frames.paced(1_000_000),
    "frames-loss": frames.own_loss,
    "guest-start": guests.guest_start,
    "import": importing.importing,
    "explain": explaining.explaining,
}
