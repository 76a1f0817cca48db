//! The limits and defaults of a test, its transports, and what ends it.

use std::time::Duration;

/// The limits that a stock server has too.
pub const MAX_STREAMS: usize = 128;
pub const MAX_DURATION_S: f64 = 86_400.0;
pub const MAX_OMIT_S: f64 = 600.0;
pub const MAX_BLOCK_BYTES: usize = 1 << 20;
pub const MAX_DATAGRAM_BYTES: usize = 65_507;
/// Room for the header with a counter of 64 bits.
pub const MIN_DATAGRAM_BYTES: usize = 16;
pub const MAX_BUFFER_BYTES: usize = 512 << 20;
pub const MAX_MSS: u32 = 9_216;
pub const MAX_BURST: u32 = 1_000;

pub const DEFAULT_BLOCK_BYTES: usize = 128 << 10;
pub const DEFAULT_DATAGRAM_BYTES: usize = 1_460;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
}

/// When the client ends the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EndCondition {
    After(Duration),
    Bytes(u64),
    Blocks(u64),
    /// Only by hand.
    Never,
}
