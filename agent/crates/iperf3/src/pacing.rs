//! What holds a sender back: its rate, and the bytes after which a test is over.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// The longest sleep of a sender between two looks at whether it is still to send.
const MAX_SLEEP: Duration = Duration::from_millis(5);
/// Rates so low that the next block is due after this are all the same.
const MAX_WAIT_S: f64 = 1e9;

/// Holds a sender to its rate: on average since its start, so that what a blocked call cost is made up for.
pub struct Pacer {
    started: Instant,
    sent_blocks: u64,
    block_bits: f64,
    rate_bps: u64,
    burst_blocks: u64,
}

impl Pacer {
    /// `rate_bps` 0 is without a limit; `burst` blocks go out in one go.
    pub fn new(rate_bps: u64, block_bytes: usize, burst: u32) -> Self {
        Self {
            started: Instant::now(),
            sent_blocks: 0,
            block_bits: 8.0 * block_bytes as f64,
            rate_bps,
            burst_blocks: burst.max(1).into(),
        }
    }

    /// Returns when the next block is due, or nothing is to be sent any more.
    pub fn wait(&mut self, is_sending: impl Fn() -> bool) {
        let block = self.sent_blocks;
        self.sent_blocks += 1;
        if self.rate_bps == 0 || !block.is_multiple_of(self.burst_blocks) {
            return;
        }
        let due_s = block as f64 * self.block_bits / self.rate_bps as f64;
        let due = self.started + Duration::from_secs_f64(due_s.min(MAX_WAIT_S));
        loop {
            let remaining = due.saturating_duration_since(Instant::now());
            if remaining.is_zero() || !is_sending() {
                return;
            }
            std::thread::sleep(remaining.min(MAX_SLEEP));
        }
    }
}

/// What is left of the bytes that end a test; all its streams draw on it, from the end of what is omitted on.
#[derive(Debug)]
pub struct ByteQuota {
    remaining_bytes: AtomicI64,
    is_active: AtomicBool,
}

impl ByteQuota {
    pub fn new(bytes: u64, counts: bool) -> Self {
        Self {
            remaining_bytes: AtomicI64::new(i64::try_from(bytes).unwrap_or(i64::MAX)),
            is_active: AtomicBool::new(counts),
        }
    }

    pub fn activate(&self) {
        self.is_active.store(true, Ordering::Relaxed);
    }

    /// Before a block is sent: whether there is room for it, or for its first bytes.
    pub fn reserve(&self, bytes: usize) -> bool {
        !self.is_active.load(Ordering::Relaxed)
            || self
                .remaining_bytes
                .fetch_sub(bytes as i64, Ordering::Relaxed)
                > 0
    }

    /// After bytes have come: whether they are enough.
    pub fn consume(&self, bytes: usize) -> bool {
        self.is_active.load(Ordering::Relaxed)
            && self
                .remaining_bytes
                .fetch_sub(bytes as i64, Ordering::Relaxed)
                <= bytes as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_ends_with_the_block_that_fills_it() {
        let quota = ByteQuota::new(250, true);
        assert_eq!(
            [100; 4].map(|bytes| quota.reserve(bytes)),
            [true, true, true, false]
        );
        let received = ByteQuota::new(250, true);
        assert_eq!(
            [100; 4].map(|bytes| received.consume(bytes)),
            [false, false, true, true]
        );
    }

    #[test]
    fn a_quota_does_not_count_what_is_omitted() {
        let quota = ByteQuota::new(100, false);
        assert!((0..1_000).all(|_| quota.reserve(100)));
        quota.activate();
        assert_eq!([quota.reserve(100), quota.reserve(100)], [true, false]);
    }

    #[test]
    fn a_pacer_lets_a_burst_through_and_stops_when_told() {
        let mut pacer = Pacer::new(1, 1 << 20, 3);
        for _ in 0..3 {
            pacer.wait(|| panic!("a block of the first burst is due at once"));
        }
        // Due in months, were it not over.
        pacer.wait(|| false);
    }
}
