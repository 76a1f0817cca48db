//! Limits and defaults of a test, its transports and end conditions.

use std::time::Duration;

/// Maximum number of streams in each direction; a stock server has the same limits.
pub const MAX_STREAMS_PER_DIRECTION: usize = 128;
/// Maximum duration of a test.
pub const MAX_DURATION_S: f64 = 86_400.0;
/// Maximum omitted time at the start of a test.
pub const MAX_OMIT_S: f64 = 600.0;
/// Maximum size of a TCP block.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;
/// Maximum payload of a UDP datagram.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;
/// Minimum payload of a UDP datagram: the header with a 64-bit counter.
pub const MIN_DATAGRAM_BYTES: usize = 16;
/// Maximum size of a socket buffer.
pub const MAX_WINDOW_BYTES: usize = 512 << 20;
/// Maximum segment size in bytes.
pub const MAX_MSS_BYTES: u32 = 9_216;
/// Maximum number of blocks in a burst.
pub const MAX_BURST_BLOCKS: u32 = 1_000;

/// Default size of a TCP block.
pub const DEFAULT_BLOCK_BYTES: usize = 128 << 10;
/// Default payload of a UDP datagram.
pub const DEFAULT_DATAGRAM_BYTES: usize = 1_460;

/// The transport protocol of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What ends a test; the client decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EndCondition {
    /// Ends after this time.
    After(Duration),
    /// Ends after this number of bytes.
    Bytes(u64),
    /// Ends after this number of blocks.
    Blocks(u64),
    /// Ends only when the user interrupts it.
    Never,
}
