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
}
