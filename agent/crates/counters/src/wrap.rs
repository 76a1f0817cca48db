//! A kernel counter of 32 bits made into one of 64: at a few million packets a second the former wraps in minutes.

#[derive(Debug, Clone, Copy, Default)]
pub struct Unwrapped {
    last: Option<u32>,
    total: u64,
}

impl Unwrapped {
    /// Takes the counter as it stands now; returns the total since the first call. Right as long as the counter wraps
    /// at most once between two calls.
    pub fn update(&mut self, now: u32) -> u64 {
        if let Some(last) = self.last.replace(now) {
            self.total += u64::from(now.wrapping_sub(last));
        }
        self.total
    }

    /// The same of a counter that may begin anew: one that falls by less than half of its range has done so.
    pub fn update_or_restart(&mut self, now: u32) -> u64 {
        if let Some(last) = self.last.replace(now) {
            let by = now.wrapping_sub(last);
            self.total += u64::from(if by.cast_signed() < 0 { now } else { by });
        }
        self.total
    }

    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrap_is_counted_through() {
        let mut counter = Unwrapped::default();
        assert_eq!(counter.update(u32::MAX - 1), 0);
        assert_eq!(counter.update(3), 5);
        assert_eq!(counter.update(3), 5);
    }

    #[test]
    fn a_counter_that_begins_anew_adds_what_it_has_counted_since() {
        let mut counter = Unwrapped::default();
        assert_eq!(counter.update_or_restart(1000), 0);
        assert_eq!(counter.update_or_restart(1500), 500);
        assert_eq!(counter.update_or_restart(20), 520);
        let mut wraps = Unwrapped::default();
        wraps.update_or_restart(u32::MAX - 1);
        assert_eq!(wraps.update_or_restart(3), 5);
    }
}
