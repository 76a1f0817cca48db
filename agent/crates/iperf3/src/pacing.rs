//! Limits of a sender: its rate and the bytes that end the test.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Maximum sleep of a sender before it checks again whether it must stop.
const MAX_SLEEP: Duration = Duration::from_millis(5);
/// Latest time after the start at which a block is due; lower rates behave the same.
const MAX_BLOCK_DUE_S: f64 = 1e9;

/// Limits a sender's average rate since its start; the sender catches up after a blocked call.
pub struct Pacer {
    started: Instant,
    sent_blocks: u64,
    block_bits: f64,
    rate_bps: u64,
    burst_blocks: u64,
}

impl Pacer {
    /// Creates a pacer; `rate_bps` 0 means unlimited, `burst_blocks` is the number of blocks sent back to back.
    pub fn new(rate_bps: u64, block_bytes: usize, burst_blocks: u32) -> Self {
        Self {
            started: Instant::now(),
            sent_blocks: 0,
            block_bits: 8.0 * block_bytes as f64,
            rate_bps,
            burst_blocks: burst_blocks.max(1).into(),
        }
    }

    /// Waits until the next block is due or `is_sending` returns false.
    pub fn wait_until_due(&mut self, is_sending: impl Fn() -> bool) {
        let block = self.sent_blocks;
        self.sent_blocks += 1;
        if self.rate_bps == 0 || !block.is_multiple_of(self.burst_blocks) {
            return;
        }
        let due_s = block as f64 * self.block_bits / self.rate_bps as f64;
        let due = self.started + Duration::from_secs_f64(due_s.min(MAX_BLOCK_DUE_S));
        loop {
            let remaining = due.saturating_duration_since(Instant::now());
            if remaining.is_zero() || !is_sending() {
                return;
            }
            std::thread::sleep(remaining.min(MAX_SLEEP));
        }
    }
}

/// The bytes that remain until a test ends, shared by all its streams.
///
/// It counts only after the omitted time.
#[derive(Debug)]
pub struct ByteQuota {
    remaining_bytes: AtomicI64,
    counts_now: AtomicBool,
}

impl ByteQuota {
    /// Creates a quota. It counts from now on if `counts_from_start`, otherwise only after `start_counting`.
    pub fn new(bytes: u64, counts_from_start: bool) -> Self {
        Self {
            remaining_bytes: AtomicI64::new(i64::try_from(bytes).unwrap_or(i64::MAX)),
            counts_now: AtomicBool::new(counts_from_start),
        }
    }

    /// Starts counting.
    pub fn start_counting(&self) {
        self.counts_now.store(true, Ordering::Relaxed);
    }

    /// Reserves a block before it is sent; returns false if no bytes remain. Without counting, returns true.
    pub fn try_reserve(&self, bytes: usize) -> bool {
        !self.counts_now.load(Ordering::Relaxed)
            || self
                .remaining_bytes
                .fetch_sub(bytes as i64, Ordering::Relaxed)
                > 0
    }

    /// Counts received bytes; returns whether the quota is used up.
    pub fn consume_and_check_used_up(&self, bytes: usize) -> bool {
        self.counts_now.load(Ordering::Relaxed)
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
    fn a_quota_ends_with_the_block_that_uses_it_up() {
        let quota = ByteQuota::new(250, true);
        assert_eq!(
            [100; 4].map(|bytes| quota.try_reserve(bytes)),
            [true, true, true, false]
        );
        let received = ByteQuota::new(250, true);
        assert_eq!(
            [100; 4].map(|bytes| received.consume_and_check_used_up(bytes)),
            [false, false, true, true]
        );
    }

    #[test]
    fn a_quota_does_not_count_omitted_bytes() {
        let quota = ByteQuota::new(100, false);
        assert!((0..1_000).all(|_| quota.try_reserve(100)));
        quota.start_counting();
        assert_eq!(
            [quota.try_reserve(100), quota.try_reserve(100)],
            [true, false]
        );
    }

    #[test]
    fn a_pacer_does_not_delay_a_burst_and_stops_on_request() {
        let mut pacer = Pacer::new(1, 1 << 20, 3);
        for _ in 0..3 {
            pacer.wait_until_due(|| panic!("a block of the first burst is due at once"));
        }
        // The next block is due in months: only the stop ends the wait.
        pacer.wait_until_due(|| false);
    }
}
