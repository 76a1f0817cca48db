//! Extends 32-bit counters of the kernel to 64 bits: at a few million packets per second, 32 bits wrap in minutes.

#[derive(Debug, Clone, Copy, Default)]
pub struct UnwrappedCounter {
    last: Option<u32>,
    total: u64,
}

impl UnwrappedCounter {
    /// Updates with the counter's current value and returns the total since the first call. The counter may wrap at most
    /// once between two calls.
    pub fn update(&mut self, reading: u32) -> u64 {
        if let Some(last) = self.last.replace(reading) {
            self.total += u64::from(reading.wrapping_sub(last));
        }
        self.total
    }

    /// Like [`Self::update`], for a counter that may restart from 0: a decrease by less than half of its range is a restart.
    pub fn update_or_restart(&mut self, reading: u32) -> u64 {
        if let Some(last) = self.last.replace(reading) {
            let by = reading.wrapping_sub(last);
            self.total += u64::from(if by.cast_signed() < 0 { reading } else { by });
        }
        self.total
    }

    /// Continues with another counter, which starts from 0. The total stays.
    pub fn continue_from_zero(&mut self) {
        self.last = Some(0);
    }

    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapping_counter_keeps_counting() {
        let mut counter = UnwrappedCounter::default();
        assert_eq!(counter.update(u32::MAX - 1), 0);
        assert_eq!(counter.update(3), 5);
        assert_eq!(counter.update(3), 5);
    }

    #[test]
    fn a_restarted_counter_adds_its_new_value() {
        let mut counter = UnwrappedCounter::default();
        assert_eq!(counter.update_or_restart(1000), 0);
        assert_eq!(counter.update_or_restart(1500), 500);
        assert_eq!(counter.update_or_restart(20), 520);
        let mut wraps = UnwrappedCounter::default();
        wraps.update_or_restart(u32::MAX - 1);
        assert_eq!(wraps.update_or_restart(3), 5);
    }
}
